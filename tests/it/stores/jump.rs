//! A clock that had stood still: no thread promises by it before the jump is handled.

use std::{
    sync::{
        Arc,
        mpsc::{Receiver, Sender, channel},
    },
    time::Duration,
};

use tenure::{
    clock::{Clock, Entropy, ManualClock, SystemEntropy},
    lease::{Heartbeat, Key, LeaseId, Moment, Mutant, Owner, Rules},
    manager::{AcquireOne, Manager, Parts},
};

use crate::stores::meddled::parts;

/// Says when it is refreshed, in the midst of what a jump has done, and takes its time.
struct Slow {
    inner: SystemEntropy,
    refreshed: Sender<()>,
    done: std::sync::Mutex<Receiver<()>>,
}

impl Entropy for Slow {
    fn fill(&self, buffer: &mut [u8]) {
        self.inner.fill(buffer);
    }

    fn refresh(&self) {
        let _ = self.refreshed.send(());
        let _ = self.done.lock().unwrap().recv_timeout(Duration::from_millis(300));
    }
}

/// A lease whose heartbeats need not visit its actor any more.
async fn held(manager: &Manager) -> LeaseId {
    let one = AcquireOne {
        key: Key::new("k").expect("a key"),
        owner: Owner::new("a").expect("an owner"),
        ttl_ms: 60_000,
        value: None,
        reclaim: false,
        allow_stale: false,
        min_hold_ms: 0,
        wait_ms: 0,
        mark: None,
        session: None,
    };
    let id = manager.acquire(&one, manager.now()).await.expect("a grant").lease_id;
    manager.heartbeat("k", Heartbeat::new(id), manager.now()).await.expect("it goes on");
    id
}

/// What a second thread knows of the jump when it acted while the first one was handling it.
fn resumed_as_seen_by_another(
    broken: Option<Mutant>,
    act: impl FnOnce(&Manager, LeaseId) + Send,
) -> Moment {
    let dir = tempfile::tempdir().expect("a directory");
    let store = crate::stores::embedded::open(dir.path());
    actix::System::new().block_on(async {
        let clock = Arc::new(ManualClock::new());
        clock.advance(Duration::from_secs(100));
        let (refreshed, hears) = channel();
        let (done, waits) = channel();
        let entropy =
            Slow { inner: SystemEntropy::new(), refreshed, done: std::sync::Mutex::new(waits) };
        let (clock, entropy): (Arc<ManualClock>, Arc<dyn Entropy>) = (clock, Arc::new(entropy));
        let manager = Manager::open(Parts {
            clock: clock.clone(),
            entropy,
            locked_at: clock.now(),
            rules: Rules::breaking(broken),
            ..parts(store)
        });
        let manager = manager.await.expect("the manager opens");
        let id = held(&manager).await;
        clock.pause_unseen(Duration::from_secs(10));
        std::thread::scope(|scope| {
            let manager = &*manager;
            let world = manager.coordinator();
            scope.spawn(|| world.now());
            let other = scope.spawn(move || {
                hears.recv().expect("a refresh");
                act(manager, id);
                let resumed = world.node_context().resumed;
                let _ = done.send(());
                resumed
            });
            other.join().expect("no panic")
        })
    })
}

/// Reads the clock as a lease's actor does.
fn reads(manager: &Manager, _: LeaseId) {
    manager.coordinator().now();
}

/// Answers a heartbeat beside the lease's actor.
fn promises(manager: &Manager, id: LeaseId) {
    let (beat, received) = (Heartbeat::new(id), manager.now());
    let alive = manager.heartbeat_at_once("k", &beat, received, manager.decide());
    assert!(alive.is_some(), "the actor is not needed");
}

#[test]
fn no_thread_promises_before_the_jump_is_handled() {
    let acts: [fn(&Manager, LeaseId); 2] = [reads, promises];
    for act in acts {
        assert_ne!(resumed_as_seen_by_another(None, act), Moment::ZERO);
        let broken = Some(Mutant::JumpHandledAfterTheReading);
        let resumed = resumed_as_seen_by_another(broken, act);
        assert_eq!(resumed, Moment::ZERO, "the broken variant is noticed");
    }
}
