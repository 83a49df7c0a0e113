//! Which store is simulated, and how it behaves on an ordinary day.

use std::time::Duration;

use tenure::{clock::Chance, lease::Mutant};

/// What takes long takes no longer: connections end before.
pub(super) const TAIL: Duration = Duration::from_secs(3);

/// Which of the real stores it behaves like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// One process, group commit, a log on its disk.
    Embedded,
    /// A replicated stream: global sequence, one feed that every node follows.
    Nats,
    /// A table: a counter for each item, a log that nodes poll.
    DynamoDb,
}

impl Kind {
    pub const ALL: [Self; 3] = [Self::Embedded, Self::Nats, Self::DynamoDb];

    /// As histories name it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Embedded => "embedded",
            Self::Nats => "nats",
            Self::DynamoDb => "dynamodb",
        }
    }

    /// Whether several nodes use it.
    pub fn is_shared(self) -> bool {
        self != Self::Embedded
    }
}

/// Which messages are lost between a process and the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Those of the process.
    Requests,
    /// Those of the store: what was asked for is done, and nobody hears of it.
    Replies,
    /// Both.
    Both,
}

/// How tokens are numbered: rightly, or as a broken store would.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Flaw {
    /// As the protocol demands.
    #[default]
    None,
    /// R7: what nobody holds is deleted, and begins at the first revision when it is made anew.
    TokensRestart,
    /// A change is published when its write is begun, not when it is durable (embedded).
    PublishesEarly,
}

impl Flaw {
    /// The flaw of a broken rule that is the store's to break.
    pub fn of(mutant: Option<Mutant>) -> Self {
        match mutant {
            Some(Mutant::TokenRestarts) => Self::TokensRestart,
            Some(Mutant::PublishedBeforeCommit) => Self::PublishesEarly,
            _ => Self::None,
        }
    }
}

/// How it behaves without faults. Spans are from–to, and every request draws its own.
#[derive(Clone, Debug)]
pub struct Shape {
    /// One way over the network.
    pub hop: (Duration, Duration),
    /// A sync of the disk.
    pub sync: (Duration, Duration),
    /// From a commit until a feed brings it.
    pub lag: (Duration, Duration),
    /// How long changes are gathered before they are logged (DynamoDB).
    pub flush: Duration,
    /// After this a request is given up.
    pub timeout: Duration,
    /// The share of replies that are lost although nothing is wrong.
    pub lost: f64,
    /// The share of reads of all nodes' records that are lost.
    pub deaf: f64,
    /// So much longer may a read of all nodes' records take to the store.
    pub roundabout: Duration,
    /// The share of requests that take a hundred times as long.
    pub tail: f64,
    /// How many writes of a key the stream keeps (NATS).
    pub keep: usize,
    /// How many writes' changes the history keeps.
    pub history: usize,
    /// How it faults.
    pub flaw: Flaw,
}

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

impl Shape {
    /// An ordinary one.
    pub fn of(kind: Kind) -> Self {
        Self {
            hop: (ms(0), ms(4)),
            sync: (ms(0), ms(8)),
            lag: if kind == Kind::DynamoDb { (ms(5), ms(400)) } else { (ms(0), ms(20)) },
            flush: ms(20),
            timeout: ms(2_000),
            lost: 0.0,
            deaf: 0.0,
            roundabout: Duration::ZERO,
            tail: 0.0,
            keep: 64,
            history: 100_000,
            flaw: Flaw::None,
        }
    }

    /// The longest that one way over the network takes on an ordinary day.
    pub fn slowest(&self) -> Duration {
        if self.tail > 0.0 { (self.hop.1 * 100).min(TAIL) } else { self.hop.1 }
    }

    /// One that seeds may meet: faster, slower, with a long tail, with little memory.
    pub fn drawn(kind: Kind, chance: &mut Chance) -> Self {
        let mut shape = Self::of(kind);
        let slower = 1 << below(chance, 4);
        for span in [&mut shape.hop, &mut shape.sync, &mut shape.lag] {
            span.1 *= slower;
        }
        shape.lost = [0.0, 0.0, 0.003, 0.03][index(chance, 4)];
        shape.tail = [0.0, 0.01, 0.03][index(chance, 3)];
        shape.keep = [1, 2, 8, 64][index(chance, 4)];
        shape.history = [64, 1_000, 100_000][index(chance, 3)];
        shape
    }
}

/// A number below `n`.
pub(super) fn below(chance: &mut Chance, n: u64) -> u64 {
    if n == 0 { 0 } else { chance.next_u64() % n }
}

fn index(chance: &mut Chance, n: usize) -> usize {
    usize::try_from(below(chance, n as u64)).unwrap_or(0)
}

/// Whether something happens that does so in this share of cases.
pub(super) fn happens(chance: &mut Chance, share: f64) -> bool {
    #[expect(clippy::cast_precision_loss, reason = "53 bits are exact")]
    let draw = (chance.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
    draw < share
}

/// A span between two.
pub(super) fn span(chance: &mut Chance, (from, to): (Duration, Duration)) -> Duration {
    from + chance.jitter(to.saturating_sub(from))
}
