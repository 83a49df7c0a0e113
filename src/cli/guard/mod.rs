//! `tenure guard`: one active service among several machines.

mod tell;
#[cfg(test)]
mod tests;
mod will;

use std::time::Duration;

use clap::Args;

use self::tell::Teller;
pub use self::will::LastWillArgs;
use super::{Exit, Failure, args::duration, output::talk};
use crate::{
    client::Client,
    worker::{
        agent::{self, Charge, Scripts},
        guard::Settings,
    },
};

/// Keep one instance of a service active among several machines.
///
/// Runs on each machine that can carry the service. The healthy one that gets the lease activates the
/// service, and deactivates it before the lease could be another's: docs/guard.md.
///
/// Scripts are lines for /bin/sh -c. $1 is `active` or `standby`: what the service is to be, or, for the
/// health check, what it is. TENURE_KEY, TENURE_TOKEN, TENURE_OWNER, TENURE_STATE, TENURE_TTL_MS,
/// TENURE_SERVER and TENURE_LEASE_FILE are in their environment.
#[derive(Clone, Debug, Args)]
pub struct GuardArgs {
    /// The key that stands for the service
    #[arg(long)]
    key: String,
    /// The name of this agent; no two agents may share one
    #[arg(long, env = "TENURE_OWNER")]
    owner: String,
    /// R: how long from one health check to the next
    #[arg(short = 'r', long, value_parser = duration, default_value = "3s", value_name = "R")]
    round: Duration,
    /// F: so many failed checks in a row end the activity
    #[arg(short, long, value_name = "F", default_value_t = 3)]
    failures: u32,
    /// C: so many healthy rounds, with the lease held, come before the activation
    #[arg(short, long, value_name = "C", default_value_t = 2)]
    confirmations: u32,
    /// Succeeds when this machine, or the active service, is in order
    #[arg(long, value_name = "SCRIPT")]
    healthcheck: String,
    /// Makes the service active
    #[arg(long, value_name = "SCRIPT")]
    activate: String,
    /// Makes the service inactive; must succeed when it is inactive already
    #[arg(long, value_name = "SCRIPT")]
    deactivate: String,
    /// Keeps the predecessor from doing harm; must succeed before every activation
    #[arg(long, value_name = "SCRIPT")]
    fence: Option<String>,
    /// How long the lease lasts without a heartbeat; by default R times F
    #[arg(long, value_parser = duration)]
    ttl: Option<Duration>,
    /// How long a health check may take, at most R times F; by default R
    #[arg(long, value_parser = duration, value_name = "DURATION")]
    healthcheck_timeout: Option<Duration>,
    /// How long an activation may take; by default the ttl
    #[arg(long, value_parser = duration, value_name = "DURATION")]
    activate_timeout: Option<Duration>,
    /// How long a deactivation may take; by default R, or a third of the ttl if that is less
    #[arg(long, value_parser = duration, value_name = "DURATION")]
    deactivate_timeout: Option<Duration>,
    /// How long the fence may take; by default the ttl
    #[arg(long, value_parser = duration, value_name = "DURATION")]
    fence_timeout: Option<Duration>,
    /// Run activate or deactivate in every round, as putex does, and not on change only
    #[arg(long)]
    every_round: bool,
}

impl GuardArgs {
    pub(super) async fn run(self, client: Client) -> Result<Exit, Failure> {
        let charge = self.charge()?;
        let mut teller = Teller::new(&charge);
        match agent::run(client, charge, None, |told| teller.tell(&told)).await {
            Ok(true) => Ok(Exit::Done),
            Ok(false) => {
                talk("guard ends in failure: see above whether the service is inactive");
                Ok(Exit::Lost)
            }
            Err(why) => Err(Failure::Other(anyhow::anyhow!(why))),
        }
    }

    /// # Errors
    /// When the times do not fit.
    fn charge(self) -> Result<Charge, Failure> {
        let ttl = self.ttl.unwrap_or_else(|| self.round.saturating_mul(self.failures));
        let mut settings = Settings::with_ttl(self.round, self.failures, self.confirmations, ttl);
        let given = [
            (&mut settings.check_timeout, self.healthcheck_timeout),
            (&mut settings.activate_timeout, self.activate_timeout),
            (&mut settings.deactivate_timeout, self.deactivate_timeout),
            (&mut settings.fence_timeout, self.fence_timeout),
        ];
        for (setting, given) in given {
            *setting = given.unwrap_or(*setting);
        }
        (settings.fence, settings.every_round) = (self.fence.is_some(), self.every_round);
        settings.check().map_err(|misfit| Failure::Usage(misfit.to_string()))?;
        let scripts = Scripts {
            healthcheck: self.healthcheck,
            activate: self.activate,
            deactivate: self.deactivate,
            fence: self.fence,
        };
        Ok(Charge { key: self.key, owner: self.owner, settings, scripts })
    }
}
