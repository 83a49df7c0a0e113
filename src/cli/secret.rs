//! `tenure secret`: replaces the cluster secret of a store.

use clap::{Args, Subcommand};

use super::{
    Exit, Failure, Output, SettingsArgs,
    raise::{self, Change},
};
use crate::{
    manager::engine::{self, Surroundings},
    store::SecretBytes,
};

/// Replace the cluster secret of a store
#[derive(Clone, Debug, Args)]
pub struct SecretArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Clone, Debug, Subcommand)]
enum Action {
    Rotate(RotateArgs),
}

/// Replace the cluster secret, after it leaked
#[derive(Clone, Debug, Args)]
#[command(long_about = "Replace the cluster secret, after it leaked.\n\n\
        The store's secret is what lease ids are derived from, and what proves that a coordinator \
        forwarded a call. Whoever read the store or a backup has it. A rotation writes a new random \
        secret and raises the epoch, in one write: every lease id of before is void, and every later \
        token is greater than every earlier one. Owners learn that they lost their leases, and \
        acquire them anew or reclaim them; --raise-epoch confirms that you know this. \
        Stop all coordinators of the store first. Frozen ones stay frozen until they are restarted. \
        Backups of before contain the old secret: delete them and make a new one.")]
struct RotateArgs {
    #[command(flatten)]
    settings: SettingsArgs,
    /// Raise the epoch, so that every lease of before ends; required
    #[arg(long)]
    raise_epoch: bool,
    /// New epoch [default: the one after the highest that the store and the witness know]
    #[arg(long, value_name = "EPOCH", requires = "raise_epoch")]
    epoch: Option<u16>,
}

impl SecretArgs {
    pub(super) async fn run(&self, output: &Output) -> Result<Exit, Failure> {
        match &self.action {
            Action::Rotate(args) => args.run(output).await,
        }
    }
}

impl RotateArgs {
    async fn run(&self, output: &Output) -> Result<Exit, Failure> {
        let loaded = self.settings.load()?;
        loaded.check_files()?;
        let settings = loaded.settings;
        if !self.raise_epoch {
            return Err(Failure::Usage(
                "a rotation needs --raise-epoch: it voids every lease id, so every owner loses its \
                 leases and must acquire or reclaim them. Stop every coordinator of the store, then \
                 use --raise-epoch"
                    .into(),
            ));
        }
        engine::check_is_there(&settings)?;
        let surroundings = Surroundings::of_a_command(&settings);
        let mut secret = [0; 32];
        surroundings.entropy.fill(&mut secret);
        let change = Change::Secret(SecretBytes(secret));
        let epoch = raise::in_place(&settings, &surroundings, self.epoch, change).await?;
        let answer = serde_json::json!({ "rotated": true, "epoch": epoch.0 });
        let rows = [("rotated", "yes".to_owned()), ("epoch", epoch.0.to_string())];
        output.record(&answer, &rows.map(|(name, value)| (name.to_owned(), value)))?;
        Ok(Exit::Done)
    }
}
