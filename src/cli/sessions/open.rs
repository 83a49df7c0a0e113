//! `tenure sessions open`: a session whose heartbeats the caller sends.

use std::time::Duration;

use clap::Args;

use crate::{
    cli::{
        args::{duration, label, person},
        context::Context,
        exit::{Exit, Failure},
        promise,
    },
    client::SessionOptions,
    clock::boottime_ms,
};

/// How long the command tries to end a session whose id it could not print, before it ends.
const LAST_WORD: Duration = Duration::from_secs(2);

/// Open a session, and print it with its id, the secret for its heartbeats and for acquiring leases under it
///
/// Nothing keeps the session: it ends after its ttl unless someone sends `tenure sessions heartbeat`. `tenure acquire
/// --session` acquires leases under it. With --output session-id, only the id is printed.
#[derive(Clone, Debug, Args)]
pub(super) struct OpenArgs {
    /// Owner of the session and of its leases; by default USER@HOSTNAME#RANDOM, a new owner for each call
    #[arg(long, env = "TENURE_OWNER")]
    owner: Option<String>,
    /// How long the session lasts without a heartbeat
    #[arg(long, value_parser = duration, default_value = "15s")]
    ttl: Duration,
    /// Pool that the session joins
    #[arg(long)]
    pool: Option<String>,
    /// Weight of the member: its share of the pool's keys, relative to the weights of other members
    #[arg(long, requires = "pool", value_parser = clap::value_parser!(u32).range(1..))]
    weight: Option<u32>,
    /// Maximum number of leases of the pool at a time
    #[arg(long, requires = "pool", value_parser = clap::value_parser!(u32).range(1..))]
    capacity: Option<u32>,
    /// Label of the member, such as `gpu=true`; repeatable. Policies say by labels which members may have their keys
    #[arg(long, requires = "pool", value_name = "NAME=VALUE", value_parser = label)]
    label: Vec<(String, String)>,
    /// Where the member runs: the same as `--label zone=ZONE`
    #[arg(long, requires = "pool")]
    zone: Option<String>,
    /// How long the keys stay closed if the session ends without its holder's consent [default: the policies decide]
    #[arg(long, value_parser = duration, value_name = "DURATION")]
    lock_delay: Option<Duration>,
    /// Delete the values of the keys when the session ends
    #[arg(long)]
    delete_values: bool,
}

impl OpenArgs {
    pub(super) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let options = self.options();
        let asked = boottime_ms();
        let opened = context.client.create_session(&options).await?;
        let printed = promise::at_printing(&opened, asked)?;
        let fields = ["id", "digest", "owner", "pool", "ttl_ms", "valid_for_ms"];
        let printed = context.output.record(&printed, &promise::rows(&printed, &fields));
        let Err(error) = printed else { return Ok(Exit::Done) };
        let ended = context.client.destroy_session(&opened.id);
        let outcome = match tokio::time::timeout(LAST_WORD, ended).await {
            Ok(Ok(_)) => "the command ended the session",
            _ => "the session could not be ended: it lasts until it expires",
        };
        Err(Failure::Unprinted { error, outcome })
    }

    fn options(self) -> SessionOptions {
        let options = SessionOptions::new(self.owner.unwrap_or_else(person)).ttl(self.ttl);
        let options = self.pool.into_iter().fold(options, SessionOptions::pool);
        let options = self.weight.into_iter().fold(options, SessionOptions::weight);
        let options = self.capacity.into_iter().fold(options, SessionOptions::capacity);
        let options = self
            .label
            .into_iter()
            .fold(options, |options, (name, value)| options.label(name, value));
        let options = self.zone.into_iter().fold(options, SessionOptions::zone);
        let options = self.lock_delay.into_iter().fold(options, SessionOptions::lock_delay);
        if self.delete_values { options.delete_values() } else { options }
    }
}
