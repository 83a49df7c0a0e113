//! Sheds load: refuses new work in time, so that the leases that are held can be kept.
//!
//! Each worker thread measures how late it runs. If it is late all the time, or if too many writes wait for the store,
//! it refuses the calls of [`class`] with 503 `overloaded`, before it reads their bodies. A call that another node
//! forwards is judged again here: the work is done here. The other node passes the refusal on.
//!
//! Guarantees: a call without a class is never refused here. A refused call had no effect. Its connection stays usable.
//!
//! Does not guarantee: a share for each caller; that a call that was accepted is answered soon.
//!
//! Assumes: the calls of one worker are served on its thread alone.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use actix_web::dev::ServiceRequest;
use tokio::sync::Notify;

use super::{classes::class, lag::Lag};
use crate::{
    clock::{Chance, Entropy as _, SystemEntropy},
    http::{answer::Problem, percent::path_of},
    manager::Manager,
};

/// How often a thread measures how late it is.
const PERIOD: Duration = Duration::from_millis(5);
/// After so many readings without a call, about one second, a thread measures nothing until the next call.
const QUIET: u32 = 200;
/// The shortest and the longest pause that a refused caller is asked for. Callers that were refused together come back
/// at different times.
const PAUSE: [Duration; 2] = [Duration::from_millis(500), Duration::from_secs(3)];

/// When to shed load.
#[derive(Clone)]
pub struct Shedding {
    manager: Arc<Manager>,
    /// How late a thread may be; zero: any time.
    lag: Duration,
    /// How many writes may wait for the store; 0: any number.
    writes: usize,
    longest: Arc<LongestLag>,
}

/// The longest lag of all threads since it was last asked for.
#[derive(Debug, Default)]
pub struct LongestLag(AtomicU64);

/// What one worker thread knows of its load.
pub struct Overload {
    shedding: Option<Shedding>,
    lag: Cell<Lag>,
    chance: RefCell<Chance>,
    /// Whether a call has come since the last reading.
    is_used: Cell<bool>,
    /// Whether the thread measures nothing until the next call.
    is_resting: Cell<bool>,
    wake: Notify,
}

impl Shedding {
    /// Sheds load while a thread is late by more than `lag`, or more than `writes` writes wait. Zero switches either
    /// off.
    pub fn new(
        manager: Arc<Manager>,
        lag: Duration,
        writes: usize,
        longest: Arc<LongestLag>,
    ) -> Self {
        Self { manager, lag, writes, longest }
    }
}

impl LongestLag {
    /// The longest lag since the last call of this.
    pub fn take(&self) -> Duration {
        Duration::from_nanos(self.0.swap(0, Relaxed))
    }

    fn note(&self, lag: Duration) {
        self.0.fetch_max(u64::try_from(lag.as_nanos()).unwrap_or(u64::MAX), Relaxed);
    }
}

impl Overload {
    /// The load of this thread, which is measured from now on. Without `shedding`, nothing is measured or shed.
    pub fn start(shedding: Option<Shedding>) -> Rc<Self> {
        let lag = shedding.as_ref().map_or(Duration::ZERO, |shedding| shedding.lag);
        let overload = Rc::new(Self {
            shedding,
            lag: Cell::new(Lag::new(lag)),
            chance: RefCell::new(SystemEntropy::new().chance()),
            is_used: Cell::new(false),
            is_resting: Cell::new(false),
            wake: Notify::new(),
        });
        if overload.shedding.is_some() {
            actix_web::rt::spawn(overload.clone().measure());
        }
        overload
    }

    /// Refuses the call if there is too much load and it is of a kind that is shed.
    pub fn judge(&self, request: &ServiceRequest) -> Result<(), Problem> {
        self.is_used.set(true);
        if self.is_resting.take() {
            self.wake.notify_one();
        }
        let Some(shedding) = &self.shedding else { return Ok(()) };
        let Some(class) = class(request.method(), path_of(request.request())) else {
            return Ok(());
        };
        let is_late = !shedding.lag.is_zero() && self.lag.get().is_over();
        let is_full = shedding.writes > 0 && shedding.manager.writes_waiting() > shedding.writes;
        if !is_late && !is_full {
            return Ok(());
        }
        shedding.manager.count_shed(class);
        let pause = PAUSE[0] + self.chance.borrow_mut().jitter(PAUSE[1] - PAUSE[0]);
        Err(Problem::overloaded(is_late, pause))
    }

    /// Measures, again and again, by how much a short sleep is too long: for so long other tasks of the thread kept
    /// this one waiting.
    async fn measure(self: Rc<Self>) {
        let Some(Shedding { manager, longest, .. }) = self.shedding.clone() else { return };
        let mut quiet = 0;
        loop {
            quiet = if self.is_used.take() { 0 } else { quiet + 1 };
            if quiet > QUIET {
                self.is_resting.set(true);
                self.wake.notified().await;
                quiet = 0;
            }
            let due = manager.now() + PERIOD;
            tokio::time::sleep(PERIOD).await;
            let now = manager.now();
            let mut lag = self.lag.get();
            lag.read(now, now.since(due));
            self.lag.set(lag);
            longest.note(now.since(due));
        }
    }
}
