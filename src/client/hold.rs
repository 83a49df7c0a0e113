//! What to acquire.

use std::{fmt, time::Duration};

use serde_json::{Value, json};

use super::{
    Acquire, AcquireAll, AcquireAny, ClientError, Count, Order, Owner, WantedKey,
    ask::{ALL, Ask},
};
use crate::clock::{Entropy, SystemEntropy};

/// How long a lease lasts without a heartbeat, by default.
const TTL: Duration = Duration::from_secs(15);

#[derive(Clone, Debug)]
enum What {
    Key(String),
    Any(Vec<String>),
    All(Vec<WantedKey>),
    Prefix(String),
    Pool(String),
}

/// What to acquire, for whom, and how long to wait for it.
#[derive(Clone, Debug)]
pub struct Hold {
    what: What,
    owner: Option<String>,
    pub(super) ttl: Duration,
    pub(super) wait: Duration,
    order: Order,
    count: Option<Count>,
    value: Option<String>,
    reclaim: bool,
    min_hold: Duration,
    outwaits_its_own: bool,
}

impl Hold {
    fn of(what: What) -> Self {
        let (wait, order, count) = (Duration::ZERO, Order::Random, None);
        let (value, reclaim, min_hold) = (None, false, Duration::ZERO);
        let outwaits_its_own = false;
        Self {
            what,
            owner: None,
            ttl: TTL,
            wait,
            order,
            count,
            value,
            reclaim,
            min_hold,
            outwaits_its_own,
        }
    }

    /// This key and no other.
    #[must_use]
    pub fn key(key: impl Into<String>) -> Self {
        Self::of(What::Key(key.into()))
    }

    /// Any of these keys: one lease, unless [`count`](Self::count) asks for more.
    #[must_use]
    pub fn any<K: Into<String>>(keys: impl IntoIterator<Item = K>) -> Self {
        Self::of(What::Any(keys.into_iter().map(Into::into).collect()))
    }

    /// Every one of these keys, or none: for [`Client::hold_many`](super::Client::hold_many) and
    /// [`Session::acquire_any`](super::Session::acquire_any).
    #[must_use]
    pub fn all<K: Into<WantedKey>>(keys: impl IntoIterator<Item = K>) -> Self {
        Self::of(What::All(keys.into_iter().map(Into::into).collect()))
    }

    /// Any known key with this prefix.
    #[must_use]
    pub fn prefix(prefix: impl Into<String>) -> Self {
        Self::of(What::Prefix(prefix.into()))
    }

    /// Any known key of this pool.
    #[must_use]
    pub fn pool(pool: impl Into<String>) -> Self {
        Self::of(What::Pool(pool.into()))
    }

    /// The owner. By default, each call uses a new name. Under a session, the owner is the session's.
    #[must_use]
    pub fn owner(self, owner: impl Into<String>) -> Self {
        Self { owner: Some(owner.into()), ..self }
    }

    /// How long it lasts without a heartbeat; by default 15 s. Under a session, the ttl is the session's.
    #[must_use]
    pub fn ttl(self, ttl: Duration) -> Self {
        Self { ttl, ..self }
    }

    /// How long to wait for it; by default, not at all.
    #[must_use]
    pub fn wait(self, wait: Duration) -> Self {
        Self { wait, ..self }
    }

    /// For several candidates: the order in which they are tried.
    #[must_use]
    pub fn order(self, order: Order) -> Self {
        Self { order, ..self }
    }

    /// For several candidates: the most leases to acquire.
    #[must_use]
    pub fn count(self, count: u32) -> Self {
        Self { count: Some(Count::UpTo(count)), ..self }
    }

    /// For a pool or its keys, under a session that joined the pool: as many leases as the session's share has left.
    #[must_use]
    pub fn fair(self) -> Self {
        Self { count: Some(Count::Fair), ..self }
    }

    /// For one key: the value that its next owner reads, unless it is replaced later.
    #[must_use]
    pub fn value(self, value: impl Into<String>) -> Self {
        Self { value: Some(value.into()), ..self }
    }

    /// For one key: whether to end an earlier tenure of the same owner.
    #[must_use]
    pub fn reclaim(self, reclaim: bool) -> Self {
        Self { reclaim, ..self }
    }

    /// For one key: whether to wait, too, for the end of an earlier tenure of the same owner. By default, the call is
    /// refused with `held-by-you` then. For a process that has the name of its predecessor, which may have crashed.
    #[must_use]
    pub fn outwait_own(self, outwaits_its_own: bool) -> Self {
        Self { outwaits_its_own, ..self }
    }

    /// For one key: for how long from the grant nobody else is granted it, even if the lease is released or runs out.
    #[must_use]
    pub fn min_hold(self, min_hold: Duration) -> Self {
        Self { min_hold, ..self }
    }

    /// The key, if this is for one key.
    #[must_use]
    pub fn one_key(&self) -> Option<&str> {
        match &self.what {
            What::Key(key) => Some(key),
            What::Any(_) | What::All(_) | What::Prefix(_) | What::Pool(_) => None,
        }
    }

    /// Whether this is the owner to acquire for.
    pub(crate) fn is_of(&self, owner: &str) -> bool {
        self.owner.as_deref() == Some(owner)
    }

    /// The same, but for one lease.
    pub(super) fn one(self) -> Result<Self, ClientError> {
        if let What::All(_) = self.what {
            let problem = "a list of keys stands for several leases, and this call returns one";
            return Err(ClientError::not_understood(problem));
        }
        Ok(Self { count: None, ..self })
    }

    /// The request without its id and wait.
    pub(super) fn ask(&self, session: Option<(&str, &str)>) -> Ask {
        let owner = match session {
            Some((id, owner)) => {
                Owner { owner: owner.to_owned(), ttl_ms: None, session: Some(id.to_owned()) }
            }
            None => Owner {
                owner: self.owner.clone().unwrap_or_else(nameless),
                ttl_ms: Some(millis(self.ttl)),
                session: None,
            },
        };
        if let What::Key(key) = &self.what {
            let body = Acquire {
                key: key.clone(),
                owner,
                value: self.value.clone(),
                reclaim: self.reclaim.then_some(true),
                min_hold_ms: (!self.min_hold.is_zero()).then(|| millis(self.min_hold)),
                ..Acquire::default()
            };
            return self.of_path("acquire", json!(body));
        }
        if let What::All(keys) = &self.what {
            let body = AcquireAll { keys: keys.clone(), owner, ..AcquireAll::default() };
            return self.of_path(ALL, json!(body));
        }
        let mut body = AcquireAny {
            owner,
            count: self.count,
            order: Some(self.order.as_str().to_owned()),
            ..AcquireAny::default()
        };
        match &self.what {
            What::Any(keys) => body.keys.clone_from(keys),
            What::Prefix(prefix) => body.prefix = Some(prefix.clone()),
            What::Pool(pool) => body.pool = Some(pool.clone()),
            What::Key(_) | What::All(_) => {}
        }
        self.of_path("acquire-any", json!(body))
    }

    fn of_path(&self, path: &'static str, body: Value) -> Ask {
        Ask { path, body, outwaits_its_own: self.outwaits_its_own }
    }
}

/// A description on one line.
impl fmt::Display for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.what {
            What::Key(key) => write!(f, "{}", key.escape_debug()),
            What::Any(keys) => write!(f, "one of {} keys", keys.len()),
            What::All(keys) => write!(f, "all of {} keys", keys.len()),
            What::Prefix(prefix) => write!(f, "a key that starts with {}", prefix.escape_debug()),
            What::Pool(pool) => write!(f, "a key of the pool {}", pool.escape_debug()),
        }
    }
}

/// A duration in whole milliseconds.
pub(super) fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

pub(super) fn nameless() -> String {
    format!("{}-{:016x}", std::process::id(), SystemEntropy::new().next_u64())
}
