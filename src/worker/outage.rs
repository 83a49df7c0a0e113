//! Warns of a ttl with which a program stops each time that a coordinator dies.

use std::time::Duration;

use super::{margin, usual_grace};
use crate::client::Client;

/// The part of the ttl that a client counts on, in percent. The rest is for the drift of clocks.
const WINDOW_PERCENT: u32 = 98;
/// The longest time to find out how long a coordinator counts as alive.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long an outage of all coordinators may last through which a program goes on. The outage may begin just before a
/// heartbeat, and the program must have ended by the end of the window.
#[must_use]
pub fn goes_on_for(ttl: Duration, grace: Duration) -> Duration {
    let left = (ttl * WINDOW_PERCENT / 100).saturating_sub(ttl / 3 + grace + margin(ttl));
    Duration::from_millis(u64::try_from(left.as_millis()).unwrap_or(u64::MAX))
}

/// The shortest ttl, in whole seconds, with which a program goes on through such an outage, with this grace and with the usual
/// one.
fn least_ttl(outage: Duration, grace: Duration) -> Duration {
    let fits = |ttl: &Duration| goes_on_for(*ttl, grace.max(usual_grace(*ttl))) >= outage;
    let first = outage.as_secs().max(1);
    (first..).map(Duration::from_secs).find(fits).unwrap_or(outage)
}

/// Tells people if a program with this ttl and grace would not go on until another coordinator answers for the leases of a
/// dead one. `option` sets the grace.
pub async fn warn(
    client: Client,
    (ttl, grace): (Duration, Duration),
    option: &str,
    talk: fn(&str),
) {
    let asked = tokio::time::timeout(PATIENCE, client.node_ttl()).await;
    let Ok(Ok(Some(node_ttl))) = asked else { return };
    let goes_on_for = goes_on_for(ttl, grace);
    if goes_on_for < node_ttl {
        talk(&format!(
            "warning: with a ttl of {ttl:?} and {option} {grace:?}, the program goes on for {goes_on_for:?} without a \
             coordinator, and stops each time that a coordinator dies: another one answers for its leases after {node_ttl:?} \
             (node.ttl). Use --ttl {:?} or more",
            least_ttl(node_ttl, grace)
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_program_goes_on_for_the_times_of_the_page() {
        let usual = |ttl| goes_on_for(ttl, usual_grace(ttl)).as_millis();
        assert_eq!([3, 6, 15, 30, 60].map(|s| usual(seconds(s))), [440, 880, 3700, 13_400, 32_800]);
        assert_eq!(goes_on_for(seconds(3), seconds(3)), Duration::ZERO);
    }

    #[test]
    fn the_ttl_that_is_advised_is_the_shortest_that_fits() {
        for outage in [1, 3, 10, 60] {
            let least = least_ttl(seconds(outage), Duration::ZERO);
            let fits = |ttl: Duration| goes_on_for(ttl, usual_grace(ttl)) >= seconds(outage);
            assert!(fits(least) && !fits(least - seconds(1)), "{outage} {least:?}");
        }
        assert_eq!(least_ttl(seconds(3), seconds(2)), seconds(14));
        assert_eq!(least_ttl(seconds(3), seconds(20)), seconds(38));
    }
}
