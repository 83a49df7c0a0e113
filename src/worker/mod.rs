//! The worker's side: programs that run while a lease is held, and end before the guarantee of the lease ends.
//!
//! Guarantees: a program that was started here, and all of its process group, is dead before the deadline that was set
//! last. This holds even if this process is killed or stopped, because another process, the [`guardian`], watches the
//! deadline.
//!
//! Does not guarantee: anything while the whole machine stands still, or if this process and the guardian are stopped
//! at the same time. Then only the fencing token helps.
//!
//! Assumes: deadlines are readings of the machine's `CLOCK_BOOTTIME` ([`crate::clock::boottime_ms`]).

#[cfg(feature = "server")]
pub mod agent;
pub mod company;
mod cpu;
#[cfg(feature = "server")]
pub mod cron;
mod group;
pub mod guard;
pub mod guardian;
mod lease_file;
pub mod outage;
mod private_dir;
pub mod restart;
pub mod run;
pub mod signals;
mod tenancy;
mod terminal;
pub mod work;

pub use group::Group;
pub use lease_file::LeaseFile;
pub use private_dir::PrivateDir;
pub use tenancy::Tenancy;

use std::time::Duration;

/// The shortest margin before a deadline.
const LEAST_MARGIN: Duration = Duration::from_millis(100);
/// The longest margin before a deadline.
const MOST_MARGIN: Duration = Duration::from_secs(1);

/// The time between the end of a program and the end of the guarantee. It allows for a late scheduler: a tenth of the
/// ttl, at least 100 ms and at most 1 s.
#[must_use]
pub fn margin(ttl: Duration) -> Duration {
    (ttl / 10).clamp(LEAST_MARGIN, MOST_MARGIN)
}

/// The default time that a program gets to end: 5 s, or what [`fits`] into the ttl.
#[must_use]
pub fn usual_grace(ttl: Duration) -> Duration {
    (ttl / 2).saturating_sub(margin(ttl)).min(Duration::from_secs(5))
}

/// Checks that programs can be stopped in time: grace and margin must fit into half of the ttl, so that one lost
/// heartbeat stops nothing.
///
/// # Errors
/// A message for people that says which values fit.
pub fn fits(ttl: Duration, grace: Duration) -> Result<(), String> {
    let (half, margin) = (ttl / 2, margin(ttl));
    if grace + margin <= half {
        return Ok(());
    }
    let most = half.saturating_sub(margin).as_millis();
    let least = [(grace + LEAST_MARGIN) * 2, (grace * 5).div_f64(2.0), (grace + MOST_MARGIN) * 2];
    let least = least.into_iter().filter(|&ttl| grace + self::margin(ttl) <= ttl / 2).min();
    let least = least.map_or(0, |ttl| ttl.as_nanos().div_ceil(1_000_000));
    let (ttl, grace, margin) = (ttl.as_millis(), grace.as_millis(), margin.as_millis());
    Err(format!(
        "a program cannot be stopped in time: its grace of {grace}ms (--grace) and the margin of \
         {margin}ms must fit into half of the ttl of {ttl}ms. Use --grace {most}ms or less, or --ttl \
         {least}ms or more"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn the_margin_follows_the_ttl_within_bounds() {
        assert_eq!([300, 4000, 60_000].map(|ttl| margin(ms(ttl))), [ms(100), ms(400), ms(1000)]);
    }

    #[test]
    fn the_usual_grace_fits_into_every_ttl_that_leaves_any() {
        for ttl in [200, 250, 300, 1000, 5000, 15_000, 86_400_000] {
            assert_eq!(fits(ms(ttl), usual_grace(ms(ttl))), Ok(()), "{ttl}");
        }
        assert_eq!([5000, 15_000].map(|ttl| usual_grace(ms(ttl))), [ms(2000), ms(5000)]);
    }

    #[test]
    fn grace_and_margin_fit_into_half_of_the_ttl_and_what_is_advised_fits() {
        assert!(fits(ms(15_000), ms(5000)).is_ok() && fits(ms(1000), ms(400)).is_ok());
        for (ttl, grace) in [(1000, 401), (15_000, 6501), (400, 300), (2000, 5000), (100, 0)] {
            let refusal = fits(ms(ttl), ms(grace)).unwrap_err();
            let advised: Vec<u64> = refusal
                .split("--")
                .skip(2)
                .map(|advice| {
                    advice.chars().filter(char::is_ascii_digit).collect::<String>().parse().unwrap()
                })
                .collect();
            let [most, least] = advised[..] else { panic!("{refusal}") };
            assert!(fits(ms(least), ms(grace)).is_ok(), "{refusal}");
            assert!(most == 0 || fits(ms(ttl), ms(most)).is_ok(), "{refusal}");
        }
    }
}
