//! The machines and the processes of nodes. A process is a `LocalSet` of its own: not polled while it is paused,
//! dropped when it crashes.

use std::{
    cell::{Cell, RefCell},
    collections::BTreeSet,
    future::poll_fn,
    pin::Pin,
    rc::Rc,
    sync::Arc,
    task::Poll,
    time::Duration,
};

use tenure::{
    actor::{Arbiters, BusEvent, Limits, Mail, NamedPlugin, Observed, Promise},
    clock::{Chance, Clock, SeededEntropy},
    lease::{Epoch, Key, KeyState, Mutant, Nonce, Policies, Rules},
    manager::{CallLimits, Manager, Parts},
    store::{Found, LeaseStore},
    telemetry::{Metrics, OwnershipLog},
};
use tokio::{
    sync::{broadcast::error::RecvError, mpsc},
    task::{LocalSet, spawn_local},
    time::{sleep, timeout},
};

use super::{
    door::{Door, url},
    history::{Event, Log, Sight},
    memories::{self, Memories},
    net::Net,
    plan::SHARED,
    plugin::SimPlugin,
    signal::Signal,
    store::Server,
    time::{MS, SimClock, ms, now},
};

/// The longest that a caller may wait in a queue.
pub const WAIT_MAX: Duration = Duration::from_secs(120);

/// Between two looks for ghosts.
const LOOKS: Duration = Duration::from_secs(10);

/// Polls of one process at one instant.
const MOST_POLLS: u32 = 5_000;

/// What all nodes share.
pub struct Site {
    pub server: Server,
    pub net: Rc<Net>,
    pub log: Log,
    pub policies: Arc<Policies>,
    pub plugins: Vec<Arc<SimPlugin>>,
    pub node_ttl: Duration,
    pub mutant: Option<Mutant>,
    pub seed: u64,
    pub bus_buffer: usize,
    /// Heartbeats whose thread is stopped: see [`Door::stops`].
    pub stops: (u64, u64),
    pub min_age: Duration,
    pub workers: usize,
}

/// A machine.
pub struct Host {
    pub number: usize,
    pub clock: Arc<SimClock>,
    site: Rc<Site>,
    process: RefCell<Option<Rc<Process>>>,
    starts: Cell<u64>,
    /// What its settings say.
    policies: Rc<RefCell<Arc<Policies>>>,
}

struct Process {
    local: RefCell<Option<LocalSet>>,
    signal: Signal,
    manager: RefCell<Option<Arc<Manager>>>,
    memories: RefCell<Option<Memories>>,
    /// When it was polled last, and how often at that instant.
    polled: Cell<(u64, u32)>,
}

impl Process {
    /// What goes on and on at one instant of virtual time would never end.
    fn watch_for_spinning(&self) {
        let (at, polls) = self.polled.get();
        let polls = if at == now() { polls + 1 } else { 0 };
        assert!(polls < MOST_POLLS, "a process spins at {} ms", now() / MS);
        self.polled.set((now(), polls));
    }

    /// Polls what runs in it, unless it is paused, until it is gone.
    async fn drive(self: Rc<Self>) {
        let life = poll_fn(|cx| {
            let mut local = self.local.borrow_mut();
            let Some(local) = &mut *local else { return Poll::Ready(()) };
            self.watch_for_spinning();
            let _ = Pin::new(local).poll(cx);
            Poll::Pending
        });
        self.signal.obey(life).await;
    }
}

impl Host {
    pub fn new(number: usize, clock: SimClock, site: Rc<Site>) -> Self {
        let clock = Arc::new(clock);
        let policies = Rc::new(RefCell::new(site.policies.clone()));
        Self { number, clock, site, process: RefCell::default(), starts: Cell::new(0), policies }
    }

    pub fn is_up(&self) -> bool {
        self.process.borrow().is_some()
    }

    /// Its process starts. To be called outside of all processes.
    pub fn start(&self) {
        if self.is_up() {
            return;
        }
        self.starts.set(self.starts.get() + 1);
        let local = LocalSet::new();
        let process = Rc::new(Process {
            local: RefCell::default(),
            signal: Signal::default(),
            manager: RefCell::default(),
            memories: RefCell::default(),
            polled: Cell::default(),
        });
        let life = Life {
            number: self.number,
            start: self.starts.get(),
            clock: self.clock.clone(),
            site: self.site.clone(),
            policies: self.policies.clone(),
            process: Rc::downgrade(&process),
        };
        local.spawn_local(life.live());
        *process.local.borrow_mut() = Some(local);
        spawn_local(process.clone().drive());
        *self.process.borrow_mut() = Some(process);
    }

    /// Kill -9.
    pub fn crash(&self) {
        if self.is_up() {
            // Before it lets go of the store, which it does not close.
            self.site.server.crashed(self.number);
            self.end();
        }
    }

    fn end(&self) {
        let Some(process) = self.process.borrow_mut().take() else { return };
        self.site.net.listen(self.number, None);
        let local = process.local.borrow_mut().take();
        drop(process.memories.borrow_mut().take());
        drop(process.manager.borrow_mut().take());
        drop(local);
        process.signal.go_on();
        self.saw(Sight::NodeEnded);
    }

    /// It takes no more work, tells the others, and ends; killed when that takes long.
    pub async fn leave(&self) {
        let process = self.process.borrow().clone();
        let manager = process.as_ref().and_then(|process| process.manager.borrow().clone());
        if let (Some(process), Some(manager)) = (process, manager) {
            let left = process.local.borrow().as_ref().map(|local| {
                local.spawn_local(async move {
                    manager.drain();
                    manager.leave().await;
                    sleep(ms(50)).await;
                    manager.close(Duration::from_secs(1)).await;
                })
            });
            if let Some(left) = left
                && timeout(Duration::from_secs(8), left).await.is_ok()
            {
                return self.end();
            }
        }
        self.crash();
    }

    /// Its settings change, and its process reads them again.
    pub fn reload(&self, policies: Arc<Policies>) {
        *self.policies.borrow_mut() = policies;
        let process = self.process.borrow();
        let Some(process) = &*process else { return };
        // One that is opening its store reads them then.
        let Some(manager) = process.manager.borrow().clone() else { return };
        let (site, number, policies) = (self.site.clone(), self.number, self.policies.clone());
        if let Some(local) = &*process.local.borrow() {
            local.spawn_local(async move {
                let policies = policies.borrow().clone();
                apply(&site, number, &manager, policies);
            });
        }
    }

    /// Members of the pool that this node knows of and whose session is over, a while after that.
    pub async fn ghosts(&self) -> Vec<String> {
        let manager = self.process.borrow().as_ref().and_then(|p| p.manager.borrow().clone());
        let Some(manager) = manager else { return Vec::new() };
        let looked = self.process.borrow().as_ref().and_then(|process| {
            let local = process.local.borrow();
            local.as_ref().map(|local| local.spawn_local(ghosts(manager)))
        });
        let Some(looked) = looked else { return Vec::new() };
        let ghosts = timeout(6 * LOOKS, looked).await.ok().and_then(Result::ok);
        let ghosts = ghosts.unwrap_or_default().into_iter();
        ghosts
            .map(|ghost| format!("I8: node {} has the ghost {ghost} in its pool", self.number))
            .collect()
    }

    /// How what this node remembers differs from the store.
    pub fn remembers(&self, truth: &[(Key, Found)]) -> Vec<String> {
        let process = self.process.borrow();
        let wrong = process.as_ref().and_then(|process| {
            process.memories.borrow().as_ref().map(|memories| memories.wrong(truth))
        });
        wrong.unwrap_or_default()
    }

    /// Under which epoch it may promise now.
    pub fn promises_under(&self) -> Option<Epoch> {
        let process = self.process.borrow().clone()?;
        let context = process.manager.borrow().as_ref()?.coordinator().node_context();
        let may = !context.frozen && self.clock.now() < context.until;
        may.then_some(context.epoch)
    }

    /// The actors of all its keys panic.
    pub fn panic(&self) {
        let process = self.process.borrow();
        if let Some(manager) = process.as_ref().and_then(|process| process.manager.borrow().clone())
        {
            manager.coordinator().registry.tell_all(|| Mail::Panic);
        }
    }

    /// SIGCONT.
    pub fn resume(&self) {
        if let Some(process) = &*self.process.borrow() {
            process.signal.go_on();
        }
    }

    /// SIGSTOP, and SIGCONT; where `missed`, the clock does not know of the time between.
    pub async fn pause(&self, span: Duration, missed: bool) {
        let process = self.process.borrow().clone();
        // One that sleeps already is not put to sleep again.
        let Some(process) = process.filter(|process| !process.signal.is_stopped()) else { return };
        let from = now();
        process.signal.stop();
        sleep(span).await;
        let same = |there: &Rc<Process>| Rc::ptr_eq(there, &process);
        if !process.signal.is_stopped() || !self.process.borrow().as_ref().is_some_and(same) {
            // Somebody woke it, or it died: a clock never goes back under a process.
            return;
        }
        if missed {
            self.clock.missed(now() - from);
        }
        process.signal.go_on();
    }

    fn saw(&self, sight: Sight) {
        self.site.log.push(now(), Event::Seen { sight });
    }
}

/// One process, from the inside.
struct Life {
    number: usize,
    start: u64,
    clock: Arc<SimClock>,
    site: Rc<Site>,
    policies: Rc<RefCell<Arc<Policies>>>,
    process: std::rc::Weak<Process>,
}

impl Life {
    async fn live(self) {
        let manager = loop {
            match self.open().await {
                Ok(manager) => break manager,
                Err(()) => sleep(ms(200)).await,
            }
        };
        let policies = self.policies.borrow().clone();
        apply(&self.site, self.number, &manager, policies);
        self.observe(&manager);
        self.subscribe(&manager);
        let Some(process) = self.process.upgrade() else { return };
        *process.memories.borrow_mut() = Some(self.remember(&manager));
        *process.manager.borrow_mut() = Some(manager.clone());
        drop(process);
        let (inbox, mut parcels) = mpsc::unbounded_channel();
        let net = self.site.net.clone();
        net.listen(self.number, Some(inbox));
        let chance = RefCell::new(Chance::of(self.seed(), "door"));
        let stops = self.site.stops;
        let log = self.site.log.clone();
        let door = Rc::new(Door { manager, net, node: self.number, stops, chance, log });
        while let Some(parcel) = parcels.recv().await {
            spawn_local(door.clone().serve(parcel));
        }
    }

    /// From now on it is known what this process remembers.
    fn remember(&self, manager: &Arc<Manager>) -> Memories {
        memories::count_all(manager, self.site.workers);
        let routes = memories::Routes::default();
        if let Ok(subscriber) = manager.coordinator().bus.subscribe() {
            spawn_local(memories::route(manager.clone(), subscriber, routes.clone()));
        }
        Memories::new(manager, self.site.workers, routes)
    }

    async fn open(&self) -> Result<Arc<Manager>, ()> {
        let clock: Arc<dyn Clock> = self.clock.clone();
        let store = self.site.server.open(self.number, clock.clone()).await.map_err(drop)?;
        let manager = Manager::open(self.parts(store, clock)).await;
        manager.map_err(drop)
    }

    /// No other process has the same.
    fn seed(&self) -> u64 {
        self.site.seed ^ (self.number as u64 + 1) << 48 ^ self.start << 32
    }

    fn parts(&self, store: Arc<dyn LeaseStore>, clock: Arc<dyn Clock>) -> Parts {
        let site = &self.site;
        let plugins: Vec<NamedPlugin> = site.plugins.iter().map(SimPlugin::named).collect();
        Parts {
            store,
            locked_at: clock.now(),
            clock,
            entropy: Arc::new(SeededEntropy::new(self.seed())),
            arbiters: Arc::new(Arbiters::here()),
            url: url(self.number),
            node_ttl: site.node_ttl,
            actors: Limits {
                passivate_after: Duration::from_secs(5),
                bus_buffer: site.bus_buffer,
                min_age: site.min_age,
                ..Limits::default()
            },
            policies: self.policies.borrow().clone(),
            plugins,
            subscriptions: Vec::new(),
            calls: CallLimits {
                wait_max: WAIT_MAX,
                waiting_places: 1000,
                strict_prefixes: false,
                weight: 1000,
            },
            waiters_per_key: 1000,
            inflight_per_key: 1000,
            metrics: Arc::new(Metrics::register("sim")),
            ownership_log: OwnershipLog::new(0),
            rules: Rules::breaking(site.mutant),
        }
    }

    /// I7, and what a run is to have enough of.
    fn observe(&self, manager: &Arc<Manager>) {
        let (log, node) = (self.site.log.clone(), format!("n{}.{}", self.number, self.start));
        manager.coordinator().observe(move |observed| {
            let event = match observed {
                Observed::Promised(promise) => promised(&node, &promise),
                Observed::Adopted => Event::Seen { sight: Sight::Adoption },
                Observed::Lapsed => Event::Seen { sight: Sight::Lapse },
            };
            log.push(now(), event);
        });
    }

    /// I4: one listener on the bus, who sometimes is slow.
    fn subscribe(&self, manager: &Arc<Manager>) {
        let (log, name) = (self.site.log.clone(), format!("s{}.{}", self.number, self.start));
        let Ok(mut subscriber) = manager.coordinator().bus.subscribe() else { return };
        // It begins somewhere.
        log.push(now(), Event::Reset { subscriber: name.clone() });
        spawn_local(async move {
            loop {
                let event = match subscriber.changes.recv().await {
                    Ok(BusEvent::Change(change)) => {
                        let committed = &change.committed;
                        Event::Heard {
                            subscriber: name.clone(),
                            key: committed.key.as_str().to_owned(),
                            seq: committed.change.seq,
                            kind: committed.change.kind.as_str().to_owned(),
                            token: committed.change.token.0,
                        }
                    }
                    Ok(BusEvent::Lost(_)) | Err(RecvError::Lagged(_)) => {
                        Event::Reset { subscriber: name.clone() }
                    }
                    Ok(BusEvent::Frozen(_)) => continue,
                    Err(RecvError::Closed) => return,
                };
                log.push(now(), event);
            }
        });
    }
}

/// A node grants by these policies from now on.
fn apply(site: &Site, number: usize, manager: &Manager, policies: Arc<Policies>) {
    let permits = policies.of(SHARED).permits;
    if !Arc::ptr_eq(&manager.coordinator().node_context().policies, &policies) {
        manager.coordinator().set_policies(policies);
    }
    let (node, prefix) = (format!("n{number}"), SHARED.to_owned());
    site.log.push(now(), Event::InForce { node, prefix, permits });
}

/// Members that are over at every look of a while.
async fn ghosts(manager: Arc<Manager>) -> BTreeSet<Nonce> {
    let world = manager.coordinator();
    let mut ghosts: Option<BTreeSet<Nonce>> = None;
    for _ in 0..3 {
        let mut over = BTreeSet::new();
        for member in
            world.pools.view("pool", manager.now()).map(|pool| pool.members).unwrap_or_default()
        {
            let there = world.store.read(&Key::of_session(member.digest)).await;
            let lives =
                |found: Found| found.record.is_ok_and(|record| record.state == KeyState::Held);
            if there.is_ok_and(|found| !found.is_some_and(lives)) {
                over.insert(member.digest);
            }
        }
        let left = match &ghosts {
            Some(before) => before & &over,
            None => over,
        };
        if left.is_empty() {
            return left;
        }
        ghosts = Some(left);
        sleep(LOOKS).await;
    }
    ghosts.unwrap_or_default()
}

fn promised(node: &str, promise: &Promise<'_>) -> Event {
    let (ttl, decided) = (promise.ttl_ms * MS, promise.decided.0);
    Event::Promised {
        node: node.to_owned(),
        key: promise.key.as_str().to_owned(),
        token: promise.token.0,
        decided,
        until: decided + ttl,
        d: promise.until.0,
        ttl,
    }
}
