//! `tenure drain`: ends all that an owner holds.

use clap::Args;

use super::{
    Context, Exit, Failure,
    output::{shown, talk},
};

/// End all leases of an owner, gracefully.
///
/// Sessions of the owner in pools with `balance` are asked to hand over first. Every other lease is revoked: it ends
/// when the last promise to its holder has ended. Pinned leases are left. The owner can acquire leases again at once:
/// stop it first, or take its right to hold them.
#[derive(Clone, Debug, Args)]
pub struct DrainArgs {
    /// Owner whose leases end
    owner: String,
}

impl DrainArgs {
    pub(super) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let drained = context.client.drain_owner(&self.owner).await?;
        if drained.revoked + drained.pinned + drained.draining == 0 {
            talk(&format!("{} holds nothing", shown(&self.owner)));
        }
        context.answer(&serde_json::json!(drained))?;
        Ok(Exit::Done)
    }
}
