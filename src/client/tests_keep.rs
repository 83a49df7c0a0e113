//! Guarantees and their heartbeats, in virtual time.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use super::{
    ClientError, Loss,
    guarantee::{Guarantee, Sent},
    keep::{KeepOutcome, Kept, Pace, keep},
};
use crate::{
    api::Code,
    clock::{Chance, Clock, ManualClock, VirtualClock},
    lease::Moment,
};

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

fn manual(valid_for_ms: u64) -> (ManualClock, Guarantee) {
    let clock = ManualClock::new();
    let sent = Sent::now(&clock);
    (clock.clone(), Guarantee::new(Arc::new(clock), sent, valid_for_ms))
}

#[test]
fn it_is_counted_from_before_the_request_and_ends_on_the_nanosecond() {
    let clock = ManualClock::new();
    let sent = Sent::now(&clock);
    clock.advance(secs(4));
    let guarantee = Guarantee::new(Arc::new(clock.clone()), sent, 10_000);
    assert_eq!(guarantee.remaining(), secs(6));
    assert_eq!(guarantee.deadline().boottime_ms, sent.at.0 / 1_000_000 + 10_000);
    clock.advance(secs(6) - Duration::from_nanos(1));
    assert!(guarantee.valid());
    clock.advance(Duration::from_nanos(1));
    assert!(!guarantee.valid());
    assert_eq!(guarantee.remaining(), Duration::ZERO);
    assert_eq!(guarantee.deadline().lost, Some(Loss::Expired));
}

#[test]
fn once_it_ran_out_nothing_extends_it_whether_or_not_anybody_looked() {
    for looks in [true, false] {
        let (clock, guarantee) = manual(1000);
        let sent = Sent::now(&clock);
        clock.advance(secs(1));
        assert!(!looks || !guarantee.valid());
        assert!(!guarantee.renew(sent, 60_000), "the answer came too late");
        assert!(!guarantee.valid());
        guarantee.lose(Loss::Revoked);
        assert_eq!(guarantee.deadline().lost, Some(Loss::Expired), "the first cause stays");
    }
}

#[test]
fn an_answer_that_was_overtaken_takes_nothing_back() {
    let (clock, guarantee) = manual(1000);
    let early = Sent::now(&clock);
    clock.advance(Duration::from_millis(500));
    let late = Sent::now(&clock);
    assert!(guarantee.renew(late, 1000));
    assert!(guarantee.renew(early, 1000));
    assert_eq!(guarantee.deadline().until, late.at + secs(1));
}

#[test]
fn what_is_lost_early_still_says_until_when_to_stop() {
    let (clock, guarantee) = manual(5000);
    let until = guarantee.deadline().until;
    clock.advance(secs(1));
    assert!(guarantee.lose(Loss::Revoked));
    assert!(!guarantee.valid() && !guarantee.lose(Loss::Fenced));
    let told = guarantee.deadline();
    assert_eq!((told.until, told.lost), (until, Some(Loss::Revoked)));
    guarantee.hand_over(Moment::ZERO);
    guarantee.risk();
    assert_eq!(guarantee.deadline(), told, "nothing changes after the loss");
}

#[test]
fn what_another_process_of_the_owner_took_must_stop_at_once() {
    for loss in [Loss::Reclaimed, Loss::Replaced] {
        let (clock, guarantee) = manual(5000);
        clock.advance(secs(1));
        assert!(guarantee.lose(loss));
        let (now, boottime_ms) = (clock.now(), clock.boottime_ms());
        let told = guarantee.deadline();
        assert_eq!((told.until, told.boottime_ms, told.lost), (now, boottime_ms, Some(loss)));
    }
}

#[test]
fn of_many_threads_none_sees_it_valid_after_another_saw_it_over() {
    for _ in 0..200 {
        let (clock, guarantee) = manual(1000);
        let over = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        let before = over.load(Ordering::SeqCst);
                        let valid = guarantee.valid();
                        assert!(!valid || before == 0, "valid again");
                        over.fetch_max(u64::from(!valid), Ordering::SeqCst);
                    }
                });
            }
            scope.spawn(|| {
                for _ in 0..20 {
                    guarantee.renew(Sent::now(&clock), 1000);
                    clock.advance(Duration::from_millis(300));
                }
                clock.advance(secs(1));
                guarantee.renew(Sent::now(&clock), 1000);
            });
        });
        assert!(!guarantee.valid());
    }
}

/// A lease whose server answers as long as `up` says, after `takes`.
struct Fake {
    guarantee: Guarantee,
    clock: VirtualClock,
    /// The server answers until this long after the start.
    up: Duration,
    takes: Duration,
    start: Moment,
    beats: AtomicU64,
    longest_patience: AtomicU64,
    over: std::sync::Mutex<Option<(Loss, Duration)>>,
    asks: Option<Duration>,
    /// The server denies heartbeats in this span.
    denies: std::ops::Range<Duration>,
    denials: std::sync::Mutex<Vec<(Option<String>, Duration)>>,
}

const TTL: Duration = Duration::from_secs(15);
const VALID_MS: u64 = 14_700;

impl Fake {
    fn new(up: Duration, takes: Duration) -> Self {
        let clock = VirtualClock::new();
        let guarantee = Guarantee::new(Arc::new(clock), Sent::now(&clock), VALID_MS);
        Self {
            guarantee,
            clock,
            up,
            takes,
            start: clock.now(),
            beats: AtomicU64::new(0),
            longest_patience: AtomicU64::new(0),
            over: std::sync::Mutex::default(),
            asks: None,
            denies: Duration::ZERO..Duration::ZERO,
            denials: std::sync::Mutex::default(),
        }
    }

    fn passed(&self) -> Duration {
        self.clock.now().since(self.start)
    }
}

impl Kept for Fake {
    fn guarantee(&self) -> &Guarantee {
        &self.guarantee
    }

    async fn beat(&self, sent: Sent, patience: Duration) -> KeepOutcome {
        self.beats.fetch_add(1, Ordering::Relaxed);
        let millis = u64::try_from(patience.as_millis()).unwrap();
        self.longest_patience.fetch_max(millis, Ordering::Relaxed);
        if self.denies.contains(&self.passed()) {
            let body = br#"{"title":"t","status":401,"code":"lease-lost","detail":"no token"}"#;
            return KeepOutcome::of_failure(&ClientError::refused(401, body), Code::LeaseLost);
        }
        if self.passed() > self.up {
            if self.asks.is_none() {
                tokio::time::sleep(patience).await;
            }
            return KeepOutcome::Failed(self.asks);
        }
        tokio::time::sleep(self.takes.min(patience)).await;
        if self.takes > patience {
            return KeepOutcome::Failed(None);
        }
        self.guarantee.renew(sent, VALID_MS);
        KeepOutcome::Alive(None)
    }

    fn overdue(&self) {
        self.guarantee.risk();
    }

    fn over(&self, loss: Loss) {
        *self.over.lock().unwrap() = Some((loss, self.passed()));
    }

    fn denied(&self, why: Option<&str>) {
        self.denials.lock().unwrap().push((why.map(str::to_owned), self.passed()));
    }
}

#[tokio::test(start_paused = true)]
async fn a_heartbeat_goes_out_every_third_of_the_ttl_and_never_at_risk() {
    let fake = Fake::new(secs(3600), Duration::from_millis(200));
    tokio::select! {
        () = keep(&fake, TTL, Chance::new(7)) => panic!("it is lost"),
        left = fake.guarantee.at_risk() => panic!("at risk with {left:?} left"),
        () = tokio::time::sleep(secs(3000)) => {}
    }
    let beats = fake.beats.load(Ordering::Relaxed);
    // Every 3.5 to 5 seconds.
    assert!((600..=860).contains(&beats), "{beats}");
    assert!(fake.guarantee.valid());
}

#[tokio::test(start_paused = true)]
async fn a_silent_server_is_tried_several_times_and_the_holder_is_warned_before_the_end() {
    for asks in [None, Some(Duration::ZERO), Some(secs(60))] {
        let fake = Fake { asks, ..Fake::new(secs(20), Duration::ZERO) };
        let warned = async {
            let left = fake.guarantee.at_risk().await;
            let beats = fake.beats.load(Ordering::Relaxed);
            (fake.passed(), left, beats)
        };
        let ((), (at, left, beats)) = tokio::join!(keep(&fake, TTL, Chance::new(7)), warned);
        let (loss, ended) = fake.over.lock().unwrap().take().unwrap();
        assert_eq!(loss, Loss::Unreachable);
        let until = fake.guarantee.deadline().until.since(fake.start);
        assert!(ended >= until && ended < until + Duration::from_millis(20), "{ended:?} {until:?}");
        assert!(at < until && left >= secs(4), "{left:?} left");
        let tries = fake.beats.load(Ordering::Relaxed) - beats;
        assert!(tries >= 2, "{tries} tries after the warning, asked to wait for {asks:?}");
        assert!(tries < 3000, "{tries}");
        assert!(fake.longest_patience.load(Ordering::Relaxed) <= 2500);
    }
}

#[tokio::test(start_paused = true)]
async fn a_denied_heartbeat_is_told_once_and_ends_nothing_before_the_deadline() {
    for (denies, lasts) in [(secs(20)..secs(26), true), (secs(20)..secs(3600), false)] {
        let fake = Fake { denies, ..Fake::new(secs(3600), Duration::ZERO) };
        tokio::select! {
            () = keep(&fake, TTL, Chance::new(7)) => {}
            () = tokio::time::sleep(secs(100)) => {}
        }
        assert_eq!(fake.guarantee.valid(), lasts);
        let told = fake.denials.lock().unwrap().clone();
        let (why, at) = &told[0];
        assert!(why.as_ref().is_some_and(|why| why.contains("no token")), "{told:?}");
        // With the first heartbeat that was denied.
        assert!((secs(20)..secs(26)).contains(at), "{told:?}");
        assert_eq!((told.len(), told.last().unwrap().0.is_none()), (1 + usize::from(lasts), lasts));
        if !lasts {
            let (loss, ended) = fake.over.lock().unwrap().take().unwrap();
            let until = fake.guarantee.deadline().until.since(fake.start);
            assert!(ended >= until && ended < until + Duration::from_millis(20), "{loss}");
            // It is tried again until the end, and not all the time.
            assert!(fake.beats.load(Ordering::Relaxed) < 60);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_slower_than_the_patience_is_no_help() {
    let fake = Fake::new(secs(3600), secs(3));
    keep(&fake, TTL, Chance::new(1)).await;
    assert_eq!(fake.over.lock().unwrap().unwrap().0, Loss::Unreachable);
}

#[tokio::test(start_paused = true)]
async fn what_was_given_back_has_no_heartbeat_any_more() {
    let fake = Fake::new(secs(3600), Duration::ZERO);
    let giving_back = async {
        tokio::time::sleep(secs(8)).await;
        fake.guarantee.lose(Loss::Released);
    };
    tokio::join!(keep(&fake, TTL, Chance::new(1)), giving_back);
    assert_eq!(fake.over.lock().unwrap().unwrap(), (Loss::Released, secs(8)));
}

#[test]
fn the_pace_leaves_time_at_every_ttl() {
    for ttl_ms in [100, 1000, 15_000, 86_400_000] {
        let (ttl, mut chance) = (Duration::from_millis(ttl_ms), Chance::new(3));
        let (pace, until) = (Pace::new(ttl), Moment::ZERO + secs(1_000_000));
        for _ in 0..100 {
            let due = pace.due(until, &mut chance);
            assert!(due < pace.overdue(until) && pace.overdue(until) < until);
            assert!(until.since(due) <= ttl * 3 / 4 + Duration::from_millis(1));
            let pause = pace.pause(Some(secs(3600)), ttl / 2, &mut chance);
            assert!(pace.patience(ttl / 2) + pause <= ttl / 3);
        }
    }
}
