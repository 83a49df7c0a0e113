//! `tenure guard`: keeps one service active among several machines.

mod pace;
mod tell;
#[cfg(test)]
mod tests;
mod will;

use std::time::Duration;

use clap::Args;

use self::tell::Teller;
pub use self::will::LastWillArgs;
use super::{Exit, Failure, args::duration, output::log};
use crate::{
    client::Client,
    worker::{
        agent::{self, Charge, Scripts},
        guard::Settings,
        outage::warn,
    },
};

/// Keep one instance of a service active among several machines.
///
/// Run this command on each machine that can carry the service. The healthy agent that gets the lease activates its
/// service. It deactivates the service before another agent can get the lease. See docs/guard.md.
///
/// Each script is a line for `/bin/sh -c`. $1 is `active` or `standby`: the state that the service must reach or, for
/// the health check, the state that it has. The environment contains TENURE_KEY, TENURE_TOKEN, TENURE_OWNER,
/// TENURE_STATE, TENURE_TTL_MS, TENURE_SERVER and TENURE_LEASE_FILE.
#[derive(Clone, Debug, Args)]
pub struct GuardArgs {
    /// Key of the service's lease
    #[arg(long)]
    key: String,
    /// Name of this agent; each agent must have a different name
    #[arg(long, env = "TENURE_OWNER")]
    owner: String,
    /// R: time between the starts of two health checks
    #[arg(short = 'r', long, value_parser = duration, default_value = "3s", value_name = "R")]
    round: Duration,
    /// F: stop the service after this many consecutive failed checks
    #[arg(short, long, value_name = "F", default_value_t = 3)]
    failures: u32,
    /// C: consecutive healthy checks under the lease before the activation
    #[arg(short, long, value_name = "C", default_value_t = 2)]
    confirmations: u32,
    /// Script that succeeds if the machine (on standby) or the service (while active) is healthy
    #[arg(long, value_name = "SCRIPT")]
    healthcheck: String,
    /// Script that activates the service
    #[arg(long, value_name = "SCRIPT")]
    activate: String,
    /// Script that deactivates the service; must succeed if the service is already inactive
    #[arg(long, value_name = "SCRIPT")]
    deactivate: String,
    /// Script that keeps the previous holder from doing harm; must succeed before every activation
    #[arg(long, value_name = "SCRIPT")]
    fence: Option<String>,
    /// How long the lease lasts without a heartbeat [default: R*F]
    #[arg(long, value_parser = duration)]
    ttl: Option<Duration>,
    /// Time-out of a health check, at most R*F [default: R]
    #[arg(long, value_parser = duration, value_name = "DURATION")]
    healthcheck_timeout: Option<Duration>,
    /// Time-out of an activation [default: the ttl]
    #[arg(long, value_parser = duration, value_name = "DURATION")]
    activate_timeout: Option<Duration>,
    /// Time-out of a deactivation [default: R, or a third of the ttl if that is less]
    #[arg(long, value_parser = duration, value_name = "DURATION")]
    deactivate_timeout: Option<Duration>,
    /// Time-out of the fence script [default: the ttl]
    #[arg(long, value_parser = duration, value_name = "DURATION")]
    fence_timeout: Option<Duration>,
    /// Run --activate or --deactivate in every round, as putex does, instead of on change only
    #[arg(long)]
    every_round: bool,
}

impl GuardArgs {
    pub(super) async fn run(self, client: Client) -> Result<Exit, Failure> {
        let charge = self.charge()?;
        let Settings { ttl, deactivate_timeout, .. } = charge.settings;
        let times = (ttl, deactivate_timeout);
        tokio::spawn(warn(client.clone(), times, "--deactivate-timeout", log));
        let mut teller = Teller::new(&charge);
        match agent::run(client, charge, None, |told| teller.tell(&told)).await {
            Ok(true) => Ok(Exit::Done),
            Ok(false) => {
                log("guard failed: the messages above say whether the service is inactive");
                Ok(Exit::Lost)
            }
            Err(why) => Err(Failure::Other(anyhow::anyhow!(why))),
        }
    }

    /// # Errors
    /// If the times do not fit together.
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
