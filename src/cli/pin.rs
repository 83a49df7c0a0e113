//! `tenure pin` and `tenure unpin`: keep the tenures of a key from expiring.

use clap::Args;

use super::{Context, Exit, Failure, args};

/// Pin a key: while it is pinned, its lease does not expire, even if its holder is silent.
///
/// A key can have pins of several names, and is pinned until all of them are removed. A pinned lease can still be
/// released and revoked. `tenure drain` leaves it out.
#[derive(Clone, Debug, Args)]
pub struct PinArgs {
    #[command(flatten)]
    pin: NamedPin,
}

/// Remove the pin of one name from a key.
#[derive(Clone, Debug, Args)]
pub struct UnpinArgs {
    #[command(flatten)]
    pin: NamedPin,
}

#[derive(Clone, Debug, Args)]
struct NamedPin {
    /// Key to pin or unpin
    key: String,
    /// Name of the pin [default: the name of the user]
    #[arg(long, value_name = "NAME")]
    by: Option<String>,
}

impl NamedPin {
    fn by(&self) -> String {
        self.by.clone().unwrap_or_else(args::user)
    }
}

impl PinArgs {
    pub(super) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        context.answer(&context.client.pin(&self.pin.key, &self.pin.by()).await?)?;
        Ok(Exit::Done)
    }
}

impl UnpinArgs {
    pub(super) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        context.answer(&context.client.unpin(&self.pin.key, &self.pin.by()).await?)?;
        Ok(Exit::Done)
    }
}
