//! Calls that wait end with the last day of their principal.

use std::{path::Path, sync::Arc, time::Duration};

use tokio::time::timeout;

use super::{
    meter::Meter,
    reading::{Caller, Known},
};
use crate::{
    access::{Access, Current, Date},
    clock::{Clock, ManualClock, VirtualClock},
    telemetry::Metrics,
};

/// Longer than a principal of these tests lasts.
const LONG: Duration = Duration::from_secs(7 * 24 * 3600);

/// A principal with this line in its table, by this clock.
fn caller(line: &str, clock: Arc<dyn Clock>) -> Caller {
    let principal = "[[principal]]\nname = \"w\"\nuid = 1\nmay = [{ verb = \"observe\" }]\n";
    let content = format!("{principal}{line}\n");
    let access = Access::parse(Path::new("a.toml"), &content, 0).unwrap();
    let principal = access.by_name("w").unwrap().clone();
    let current = Arc::new(Current::new(access));
    let generation = current.generation();
    let meter = Arc::new(Meter::new(clock.clone(), Arc::new(Metrics::register("embedded")), 0));
    let usage = Arc::default();
    Caller::known(Arc::new(Known {
        principal,
        jwt: None,
        certificate: None,
        shown: crate::access::Credential::Other,
        current,
        generation,
        usage,
        meter,
        clock,
    }))
}

#[tokio::test(start_paused = true)]
async fn a_call_that_waits_ends_at_midnight_after_the_last_day() {
    // This clock starts in the last day's early morning.
    let clock: Arc<dyn Clock> = Arc::new(VirtualClock::new());
    let midnight = Date::new(2038, 1, 19).unwrap().end_ms();
    assert!(clock.wall_ms() < midnight);
    let problem = timeout(LONG, caller("expires = 2038-01-19", clock.clone()).removed()).await;
    assert_eq!(problem.expect("the wait ends").code, "unauthenticated");
    let late_ms = clock.wall_ms() - midnight;
    assert!(late_ms < 100, "{late_ms}");
    // Whoever calls after that is told at once, and whoever has no last day waits on.
    assert!(
        timeout(Duration::ZERO, caller("expires = 2038-01-19", clock.clone()).removed())
            .await
            .is_ok()
    );
    assert!(timeout(LONG, caller("", clock).removed()).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_wall_clock_that_is_set_ends_the_wait_too() {
    let clock = ManualClock::default();
    let caller = caller("expires = 2038-01-19", Arc::new(clock.clone()));
    let mut waiting = std::pin::pin!(caller.removed());
    assert!(timeout(LONG, &mut waiting).await.is_err(), "this clock stands still");
    clock.set_wall(Date::new(2038, 1, 19).unwrap().end_ms());
    assert!(timeout(Duration::from_secs(6), waiting).await.is_ok());
}
