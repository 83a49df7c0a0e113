//! What a seed decides: the sizes, the times, and the faults with their instants.

use std::{sync::Arc, time::Duration};

use tenure::{
    clock::Chance,
    lease::{
        Balance, FencePlan, FenceWhen, Key, LabelRule, OnFenceFailure, PlaceRule, Policies, Policy,
    },
};

use super::{
    dice::Dice,
    history::Op,
    net::{Place, Weather},
    plugin::Manners,
    store::{Direction, Kind, Shape},
    time::{MS, SECOND, ms},
    worker::ANSWER,
};

/// A fault, and for how long.
#[derive(Clone, Copy, Debug)]
pub enum Fault {
    Weather(Weather, Duration),
    /// Kill -9; it starts again after this, on a machine that may have started anew.
    Crash {
        node: usize,
        down: Duration,
        boot: bool,
    },
    /// It leaves, and starts again.
    Leave {
        node: usize,
        down: Duration,
    },
    Pause {
        node: usize,
        span: Duration,
        missed: bool,
    },
    /// A worker's process is stopped.
    Stop {
        worker: usize,
        span: Duration,
    },
    Cut {
        from: Place,
        to: Place,
        span: Duration,
    },
    /// Both ways, between a node and all other nodes.
    Alone {
        node: usize,
        span: Duration,
    },
    Wall {
        node: usize,
        by_ms: i64,
    },
    StoreCut {
        node: usize,
        way: Direction,
        span: Duration,
    },
    StoreStop(Duration),
    StoreFull(Duration),
    StoreSlow(Duration, Duration),
    Throttle(Duration),
    LateWrites(Duration),
    Gap {
        node: usize,
    },
    /// The actors of all keys panic.
    Panic {
        node: usize,
    },
    /// The store is restored from a copy made a while ago; the epoch is raised after this.
    Regress {
        copied: Duration,
        raised: Duration,
    },
    /// Another server leads the stream.
    StepDown,
    /// A sync fails; the process is started anew after this.
    FailedSync(Duration),
    /// Replies of the store are lost: some, or many.
    LostReplies {
        many: bool,
        span: Duration,
    },
}

/// What is ordered for the pool and stands for long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    Freeze,
    /// Half of the owners are cordoned.
    Cordon,
    /// Half of the keys are paused.
    Pause,
}

/// The settings are read again, with another number of permits for the shared keys.
#[derive(Clone, Debug)]
pub struct Reload {
    pub at: u64,
    pub permits: u32,
    /// How much later each node reads them.
    pub lags: Vec<Duration>,
}

pub struct Plan {
    pub kind: Kind,
    pub shape: Shape,
    pub nodes: usize,
    pub workers: usize,
    pub keys: Vec<Key>,
    /// Times to live that callers ask for, in milliseconds.
    pub ttls: Vec<u64>,
    pub waits: Vec<u64>,
    /// Instants of true time.
    pub faults: Vec<(u64, Fault)>,
    pub calm: u64,
    /// When workers stop.
    pub stop: u64,
    pub policies: Arc<Policies>,
    pub pool: bool,
    /// All keys are the pool's.
    pub only_pool: bool,
    /// Its members say which version they run.
    pub versions: bool,
    /// A lease of the pool is not asked for before it was held for this time.
    pub min_age: Duration,
    /// What an administrator orders for the pool, when, and for how long.
    pub standing: Option<(Standing, u64, Duration)>,
    /// The keys of the pool go to members with certain labels only.
    pub placed: bool,
    pub manners: Manners,
    /// In thousandths of what workers do.
    pub sessions: u64,
    pub anys: u64,
    /// Lists that are taken as a whole, of these keys with permits and of the others.
    pub alls: u64,
    pub shared: Vec<Key>,
    /// When the number of permits of the latter changes.
    pub reloads: Vec<Reload>,
    pub admin_every: Duration,
    pub bus_buffer: usize,
    pub weather: Weather,
    /// At the end an administrator skips fences that are not confirmed.
    pub skips_fences: bool,
    /// In thousandths: calls that a worker does not wait for.
    pub impatience: u64,
    /// In thousandths: heartbeats whose thread is stopped between reading the clock and promising; and for how many
    /// milliseconds at most.
    pub stops: (u64, u64),
    /// The store loses its tail, and its epoch is raised, while nodes run that serve a pool and permits.
    pub goes_back: bool,
    /// Who has no answer to a heartbeat that changes something sends one that does not.
    pub restless: bool,
}

/// How long one plugin is given, in milliseconds.
pub const FENCE_MS: u64 = 6_000;
pub const LONGEST_LOCK_DELAY: u64 = 4_000;
pub const HANDOVER_MS: u64 = 3_000;
/// How many permits each of the shared keys has at first.
pub const PERMITS: u32 = 3;
/// What the shared keys begin with.
pub const SHARED: &str = "s/";
/// What members must have to be given keys, in some worlds.
pub const SITE: &str = "site=here";

pub fn plan(seed: u64) -> Plan {
    let mut chance = Chance::of(seed, "plan");
    let dice = &mut chance;
    let kind = *dice.pick(&Kind::ALL);
    let nodes = if kind.is_shared() { *dice.pick(&[1, 2, 2, 3, 3, 3]) } else { 1 };
    let (workers, keys) = match dice.between(0, 99) {
        0..=79 => (dice.between(8, 16), dice.between(1, 8)),
        80..=96 => (dice.between(12, 24), dice.between(4, 32)),
        _ => (50, dice.between(50, 200)),
    };
    let base = *dice.pick(&[1_500, 1_500, 2_000, 2_500, 3_000, 5_000, 10_000, 30_000]);
    let ttls = (0..3).map(|_| base + dice.between(0, base / 2)).collect();
    let calm = dice.between(12, 24) * SECOND;
    let stop = calm + dice.between(3, 6) * SECOND;
    let prefixes = ["a/", "a/", "f/", "g/", "d/", "h/", "p/"];
    let kinds = dice.index(prefixes.len()) + 1;
    let keys: Vec<Key> = (0..keys)
        .map(|n| {
            let prefix = prefixes[dice.index(kinds)];
            Key::new(&format!("{prefix}{n}")).expect("it is a key")
        })
        .collect();
    let pool = keys.iter().any(|key| key.as_str().starts_with("p/"));
    let manners = Manners {
        fails: *dice.pick(&[0, 100, 400]),
        hangs: *dice.pick(&[0, 0, 100, 300]),
        panics: *dice.pick(&[0, 100]),
        slow_ms: *dice.pick(&[0, 50, 800, 3_000]),
    };
    let mut plan = Plan {
        kind,
        shape: Shape::drawn(kind, dice),
        nodes,
        workers: usize::try_from(workers).unwrap_or(8),
        ttls,
        waits: vec![0, 0, 500, base, 3 * base],
        faults: Vec::new(),
        calm,
        stop,
        policies: policies(dice, &calm_pool(seed)),
        pool,
        only_pool: false,
        versions: true,
        min_age: Duration::from_secs(10),
        standing: None,
        placed: false,
        manners,
        sessions: *dice.pick(&[0, 200, 400, 700]),
        anys: *dice.pick(&[0, 100, 400]),
        alls: 0,
        shared: ["s/x", "s/y"].map(|key| Key::new(key).expect("it is a key")).into(),
        reloads: Vec::new(),
        admin_every: ms(*dice.pick(&[300, 1_500, 6_000, 60_000])),
        bus_buffer: *dice.pick(&[16, 1024]),
        weather: weather(dice),
        skips_fences: true,
        impatience: 60,
        stops: (30, 400),
        goes_back: false,
        restless: false,
        keys,
    };
    plan.draw_pool(seed);
    plan.draw_return(seed);
    plan.placed = plan.pool && !plan.policies.of("p/").place.is_empty();
    plan.draw_faults(dice, base);
    plan.draw_regress(seed);
    let mut chance = Chance::of(seed, "permits");
    plan.alls = *chance.pick(&[0, 0, 100, 500]);
    if plan.goes_back {
        plan.alls = plan.alls.max(100);
    }
    let mut chance = Chance::of(seed, "reloads");
    if plan.alls > 0 && chance.per_mille(600) {
        let count = chance.between(1, 5);
        plan.draw_reloads(&mut chance, count);
    }
    plan
}

/// The same policies, with another number of permits for the shared keys.
pub fn with_permits(policies: &Policies, permits: u32) -> Arc<Policies> {
    let mut all: Vec<Policy> = policies.iter().map(|policy| (**policy).clone()).collect();
    let otherwise = all.pop().expect("one for all other keys");
    for policy in all.iter_mut().filter(|policy| &*policy.prefix == SHARED) {
        policy.permits = permits;
    }
    Arc::new(Policies::new(all, otherwise))
}

fn weather(dice: &mut Chance) -> Weather {
    Weather {
        lost: *dice.pick(&[0, 5, 30, 120]),
        twice: *dice.pick(&[0, 10, 50]),
        slow: *dice.pick(&[0, 50, 300]),
        longest_ms: *dice.pick(&[20, 200, 1_500]),
    }
}

/// What else holds for the pool: members prepare for keys, and the loss of many members is guarded against.
fn calm_pool(seed: u64) -> Policy {
    let mut chance = Chance::of(seed, "calm pool");
    Policy {
        warmup_timeout_ms: *chance.pick(&[0, 0, 500, 3_000]),
        warmups: *chance.pick(&[1, 3]),
        mass_failure_within_ms: *chance.pick(&[0, 0, 0, 5_000]),
        ..Policy::default()
    }
}

fn policies(dice: &mut Chance, pool: &Policy) -> Arc<Policies> {
    let fence = |when, plugins: &[&str], on_failure, on_release| {
        Some(Arc::new(FencePlan {
            plugins: plugins.iter().map(|name| Box::from(*name)).collect(),
            when,
            timeout_ms: FENCE_MS,
            on_failure,
            on_release,
        }))
    };
    let policy = |prefix: &str| Policy {
        prefix: prefix.into(),
        handover_timeout_ms: HANDOVER_MS,
        ..Policy::default()
    };
    let on_failure = *dice.pick(&[OnFenceFailure::Block, OnFenceFailure::GrantWithAlarm]);
    let on_release = dice.per_mille(500);
    let both: &[&str] = if dice.per_mille(300) { &["one", "two"] } else { &["one"] };
    let before = fence(FenceWhen::BeforeGrant, both, on_failure, on_release);
    let after = fence(FenceWhen::AfterGrant, &["one"], OnFenceFailure::GrantWithAlarm, on_release);
    let delay = u32::try_from(dice.between(500, LONGEST_LOCK_DELAY)).unwrap_or(500);
    let rejoin_window_ms = if dice.per_mille(500) { delay } else { 0 };
    let balance = if delay % 3 == 0 { Balance::Load } else { Balance::Count };
    let place = if delay % 5 < 2 { place_rule() } else { PlaceRule::default() };
    let all = vec![
        Policy { fence: before, ..policy("f/") },
        Policy { fence: after, ..policy("g/") },
        Policy { lock_delay_ms: delay, ..policy("d/") },
        Policy { permits: PERMITS, ..policy(SHARED) },
        Policy {
            prefix: "p/".into(),
            handover_timeout_ms: HANDOVER_MS,
            pool: "pool".into(),
            balance,
            rejoin_window_ms,
            place,
            ..pool.clone()
        },
    ];
    Arc::new(Policies::new(all, Policy::default()))
}

/// A key goes to members of one site, and keys are spread over their zones.
fn place_rule() -> PlaceRule {
    let rule = |text| LabelRule::parse(text).expect("a rule");
    let (require, prefer) = ([rule(SITE)].into(), [rule("disk=ssd")].into());
    PlaceRule { require, prefer, spread: Some("zone".into()) }
}

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

impl Plan {
    /// In some worlds all keys are the pool's, most workers are members, and balancing is faster.
    fn draw_pool(&mut self, seed: u64) {
        let mut chance = Chance::of(seed, "pool");
        if !chance.per_mille(250) {
            return;
        }
        let keys = chance.between(6, 24);
        self.keys = (0..keys).map(|n| Key::new(&format!("p/{n}")).expect("it is a key")).collect();
        (self.pool, self.only_pool) = (true, true);
        self.sessions = *chance.pick(&[700, 950]);
        self.versions = chance.per_mille(300);
        self.min_age = ms(*chance.pick(&[500, 1_000, 10_000]));
        let standing = *chance.pick(&[
            None,
            Some(Standing::Freeze),
            Some(Standing::Cordon),
            Some(Standing::Pause),
        ]);
        let (at, span) = (chance.between(2, 6) * SECOND, ms(chance.between(8_000, 20_000)));
        self.standing = standing.map(|standing| (standing, at, span));
    }

    /// In some worlds the store loses its tail, and its epoch is raised, under running nodes with a pool and permits.
    fn draw_return(&mut self, seed: u64) {
        let mut chance = Chance::of(seed, "goes back");
        self.goes_back = self.kind.is_shared() && chance.per_mille(60);
        if !self.goes_back {
            return;
        }
        if !self.pool {
            let keys = chance.between(4, 12);
            let key = |n| Key::new(&format!("p/{n}")).expect("it is a key");
            self.keys.extend((100..100 + keys).map(key));
            self.pool = true;
        }
        self.sessions = self.sessions.max(400);
    }

    fn draw_regress(&mut self, seed: u64) {
        if !self.goes_back {
            return;
        }
        let mut chance = Chance::of(seed, "regress");
        let at = chance.between(2, 8) * SECOND;
        let (copied, raised) = (ms(chance.between(500, 4_000)), ms(chance.between(0, 3_000)));
        // Who restores a store stops its old leader before.
        self.faults.retain(|(_, fault)| !matches!(fault, Fault::StepDown | Fault::Regress { .. }));
        self.faults.push((at, Fault::Regress { copied, raised }));
        self.faults.sort_by_key(|(at, _)| *at);
        self.calm = self.calm.max(at + 22 * SECOND);
        self.stop = self.stop.max(self.calm + 3 * SECOND);
    }

    /// The number of permits changes this often, at each node at a moment of its own.
    pub fn draw_reloads(&mut self, chance: &mut Chance, count: u64) {
        let nodes = self.nodes;
        for _ in 0..count {
            let at = chance.between(SECOND, self.calm - SECOND);
            let permits = *chance.pick(&[1, 1, 2, 2, 3, 4, 5]);
            let lag = |_| ms(*chance.pick(&[0, 0, 20, 300, 1_500]));
            let lags = (0..nodes).map(lag).collect();
            self.reloads.push(Reload { at, permits, lags });
        }
        self.reloads.sort_by_key(|reload| reload.at);
    }

    /// When nodes may not know for long what others stored: from and to. `None` where the store is slow, or loses
    /// replies, on an ordinary day.
    pub fn troubles(&self, grace: u64) -> Option<Vec<(u64, u64)>> {
        if self.shape.slowest() > ms(500) || self.shape.lost > 0.0 || self.shape.deaf > 0.0 {
            return None;
        }
        let trouble = |(at, fault): &(u64, Fault)| {
            let span = match fault {
                Fault::Weather(..) | Fault::Stop { .. } | Fault::Wall { .. } => return None,
                Fault::Cut { .. } | Fault::Alone { .. } => return None,
                Fault::Crash { down, .. } | Fault::Leave { down, .. } => *down + ms(10_000),
                Fault::FailedSync(down) => *down + ms(5_000),
                Fault::Pause { span, .. } | Fault::StoreCut { span, .. } => *span,
                Fault::StoreStop(span) | Fault::StoreFull(span) | Fault::StoreSlow(_, span) => {
                    *span
                }
                Fault::Throttle(span) | Fault::LateWrites(span) => *span,
                Fault::LostReplies { span, .. } => *span,
                Fault::Gap { .. } | Fault::Panic { .. } | Fault::StepDown => ms(2_000),
                Fault::Regress { .. } => ms(120_000),
            };
            Some((*at, at.saturating_add(nanos(span)).saturating_add(grace)))
        };
        Some(self.faults.iter().filter_map(trouble).collect())
    }

    /// Whether an old leader may answer with what a restored store forgot. Who restores a real one stops it before.
    pub fn recalls(&self) -> bool {
        let has = |such: fn(&Fault) -> bool| self.faults.iter().any(|(_, fault)| such(fault));
        has(|fault| matches!(fault, Fault::Regress { .. }))
            && has(|fault| matches!(fault, Fault::StepDown))
    }

    /// How long a call without a wait may take: longer where the store loses one request in thirty for good, and where
    /// one of two requests that it waits for may be slow both ways. Who asks for any of many keys that others keep is
    /// refused after a look at each of them.
    pub fn answer_within(&self, op: Op) -> u64 {
        let looks = if op == Op::AcquireAny { self.keys.len() as u64 } else { 0 };
        let lost = if self.shape.lost > 0.01 { ANSWER } else { 0 };
        ANSWER + lost + 2 * nanos(self.shape.slowest()) + looks * 50 * MS
    }

    /// The disk of the embedded store hangs at some time between: calls are answered later, but they are.
    pub fn disk_hangs(&self, from: u64, to: u64) -> bool {
        let hangs = |at: u64, span: Duration| at < to && from < at.saturating_add(nanos(span));
        let stops = |(at, fault): &(u64, Fault)| matches!(fault, Fault::StoreStop(span) if hangs(*at, *span));
        !self.kind.is_shared() && self.faults.iter().any(stops)
    }

    /// The store forgot a part of what was written before this moment, perhaps a node.
    pub fn forgets(&self, before: u64) -> bool {
        let forgot =
            |(at, fault): &(u64, Fault)| matches!(fault, Fault::Regress { .. }) && *at < before;
        self.faults.iter().any(forgot)
    }

    /// A node or this worker stands still, or the store does not answer as it should, at some time between.
    pub fn delays(&self, place: Place, from: u64, to: u64) -> bool {
        let slow_store = self.shape.hop.1 > ms(500);
        slow_store
            || self.faults.iter().any(|(at, fault)| {
                let span = match fault {
                    Fault::Pause { span, .. } | Fault::StoreCut { span, .. } => *span,
                    Fault::StoreStop(_) if !self.kind.is_shared() => return false,
                    Fault::StoreStop(span) | Fault::StoreSlow(_, span) => *span,
                    Fault::Throttle(span) | Fault::LateWrites(span) => *span,
                    Fault::LostReplies { span, .. } => *span,
                    Fault::Stop { worker, span } if place == Place::Worker(*worker) => *span,
                    _ => return false,
                };
                *at < to && from < at.saturating_add(nanos(span))
            })
    }

    fn draw_faults(&mut self, dice: &mut Chance, ttl: u64) {
        let count = dice.between(0, 10);
        for _ in 0..count {
            let at = dice.between(SECOND, self.calm - SECOND);
            let left = (self.calm - at) / MS;
            let longest = (3 * ttl).min(left);
            let span = ms(dice.between(longest.min(100), longest));
            let fault = self.draw_fault(dice, at, span);
            if let Fault::Regress { .. } = fault {
                // Operators take their time.
                self.calm = self.calm.max(at + 22 * SECOND);
                self.stop = self.stop.max(self.calm + 3 * SECOND);
            }
            self.faults.push((at, fault));
        }
        self.faults.sort_by_key(|(at, _)| *at);
        self.leave_out_hidden_stops();
    }

    /// A wall clock that is set back by as much as the node's clock stands still hides that (docs/protocol.md, §2).
    fn leave_out_hidden_stops(&mut self) {
        let stops: Vec<(usize, Duration)> = self
            .faults
            .iter()
            .filter_map(|(_, fault)| match fault {
                Fault::Pause { node, span, missed: true } => Some((*node, *span)),
                _ => None,
            })
            .collect();
        let hides = |by_ms: i64, span: Duration| {
            by_ms < 0 && span.abs_diff(ms(by_ms.unsigned_abs())) <= ms(2_000)
        };
        self.faults.retain(|(_, fault)| match fault {
            Fault::Wall { node, by_ms } => {
                !stops.iter().any(|(stopped, span)| stopped == node && hides(*by_ms, *span))
            }
            _ => true,
        });
    }

    fn draw_fault(&self, dice: &mut Chance, at: u64, span: Duration) -> Fault {
        let node = dice.index(self.nodes);
        let way = *dice.pick(&[Direction::Requests, Direction::Replies, Direction::Both]);
        let way = if self.kind.is_shared() { way } else { Direction::Both };
        let year = 365 * 86_400_000;
        match dice.between(0, 99) {
            0..=19 => Fault::Crash { node, down: span / 2, boot: dice.per_mille(300) },
            20..=33 => {
                // A stop of a second or less goes unnoticed (docs/protocol.md, §2), and eats into what κ leaves.
                let missed = dice.per_mille(300) && span > ms(1_100);
                Fault::Pause { node, span, missed }
            }
            34..=37 => Fault::Stop { worker: dice.index(self.workers), span },
            38..=44 => Fault::Leave { node, down: span / 2 },
            45..=51 => Fault::Weather(weather(dice), span),
            52..=59 => Fault::Alone { node, span },
            60..=66 => {
                let other = if dice.per_mille(500) || self.nodes == 1 {
                    Place::Worker(dice.index(self.workers))
                } else {
                    Place::Node((node + 1) % self.nodes)
                };
                let (from, to) = (Place::Node(node), other);
                if dice.per_mille(500) {
                    Fault::Cut { from, to, span }
                } else {
                    Fault::Cut { from: to, to: from, span }
                }
            }
            67..=69 => Fault::Wall { node, by_ms: *dice.pick(&[-year, year, -5_000, 900, 5_000]) },
            70..=79 if self.kind.is_shared() => Fault::StoreCut { node, way, span },
            70..=73 => Fault::FailedSync(span / 2),
            74..=82 => Fault::StoreStop(span),
            83..=84 => Fault::StepDown,
            85..=86 => Fault::LostReplies { many: dice.per_mille(300), span },
            87 => Fault::StoreFull(span),
            88..=90 => Fault::StoreSlow(ms(dice.between(20, 800)), span),
            91..=92 if self.kind == Kind::Nats => Fault::StepDown,
            91..=92 => Fault::Throttle(span),
            93..=95 => Fault::LateWrites(span),
            96 => Fault::Panic { node },
            97 => Fault::Gap { node },
            _ if at < 6 * SECOND => Fault::Regress {
                copied: ms(dice.between(200, 3_000)),
                raised: ms(dice.between(0, 3_000)),
            },
            _ => Fault::Gap { node },
        }
    }
}
