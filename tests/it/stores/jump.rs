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
    lease::{Moment, Mutant, Rules},
    manager::{Manager, Parts},
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

/// What a second thread knows of the jump when it read the clock while the first one was handling it.
fn resumed_as_seen_by_another(broken: Option<Mutant>) -> Moment {
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
        clock.pause_unseen(Duration::from_secs(10));
        std::thread::scope(|scope| {
            let world = manager.coordinator();
            scope.spawn(|| world.now());
            let other = scope.spawn(move || {
                hears.recv().expect("a refresh");
                world.now();
                let resumed = world.node_context().resumed;
                let _ = done.send(());
                resumed
            });
            other.join().expect("no panic")
        })
    })
}

#[test]
fn no_thread_promises_before_the_jump_is_handled() {
    assert_ne!(resumed_as_seen_by_another(None), Moment::ZERO);
    let broken = Some(Mutant::JumpHandledAfterTheReading);
    assert_eq!(resumed_as_seen_by_another(broken), Moment::ZERO, "the broken variant is noticed");
}
