//! `[[policy]]`: the rules for the keys under a prefix.

use std::{collections::BTreeSet, ops::RangeInclusive, sync::Arc, time::Duration};

use config::{ConfigError, Value};
use serde::{Serialize, Serializer};

use super::{
    Fault, Limits,
    load::say,
    rows::{Row, as_setting},
    scalar::{choice, duration, flag, text, texts, whole},
    units::{format_duration, serialize_duration},
};
use crate::lease::{
    self, DEFAULT_HANDOVER_MS, DEFAULT_POOL, FencePlan, FenceWhen, MAX_KEY_BYTES,
    MAX_LOCK_DELAY_MS, OnFenceFailure, Policies, TtlBounds,
};

/// The most policies. Each call searches them for the policy of its key.
const MAX_POLICIES: usize = 256;
/// The most pools, not counting `default`. Each has its own metric series.
const MAX_POOLS: usize = 16;
/// The longest name of a pool, in characters.
const MAX_POOL_CHARS: usize = 64;
/// The allowed values of `keys`.
pub(super) const NUMBERS_OF_KEYS: RangeInclusive<u64> = 1..=1_000_000_000;
const TTLS: RangeInclusive<Duration> =
    Duration::from_millis(10)..=Duration::from_secs(86_400 * 366);
const FENCE_TIMEOUTS: RangeInclusive<Duration> =
    Duration::from_millis(10)..=Duration::from_secs(3600);

/// One `[[policy]]`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Policy {
    /// The prefix of the keys that it applies to. Of several that match a key, the longest wins.
    pub prefix: String,
    /// The pool of these keys.
    pub pool: String,
    /// The shortest ttl; none: `limits.ttl_min`.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "serialize_span")]
    pub ttl_min: Option<Duration>,
    /// The longest ttl; none: `limits.ttl_max`.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "serialize_span")]
    pub ttl_max: Option<Duration>,
    /// How long a key stays closed after an expiry.
    #[serde(serialize_with = "serialize_duration")]
    pub lock_delay: Duration,
    /// The plugins that fence the resource of an ended tenure.
    pub fence: Vec<String>,
    /// When they run.
    #[serde(serialize_with = "serialize_when")]
    pub fence_when: FenceWhen,
    /// How long each plugin may take, over all its attempts.
    #[serde(serialize_with = "serialize_duration")]
    pub fence_timeout: Duration,
    /// What happens if a plugin does not confirm.
    #[serde(serialize_with = "serialize_failure")]
    pub on_fence_failure: OnFenceFailure,
    /// Whether they also run after a tenure that its owner ended itself.
    pub fence_on_release: bool,
    /// Whether the pool's leases are spread evenly over its members.
    pub balance: bool,
    /// How long a holder may take to hand over when asked.
    #[serde(serialize_with = "serialize_duration")]
    pub handover_timeout: Duration,
    /// The most keys with this policy; none: as many as `limits.keys` allows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keys: Option<u64>,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            prefix: String::new(),
            pool: DEFAULT_POOL.to_owned(),
            ttl_min: None,
            ttl_max: None,
            lock_delay: Duration::ZERO,
            fence: Vec::new(),
            fence_when: FenceWhen::BeforeGrant,
            fence_timeout: Duration::from_secs(30),
            on_fence_failure: OnFenceFailure::Block,
            fence_on_release: false,
            balance: false,
            handover_timeout: Duration::from_millis(DEFAULT_HANDOVER_MS),
            keys: None,
        }
    }
}

const KEYS: [&str; 13] = [
    "prefix",
    "pool",
    "ttl_min",
    "ttl_max",
    "lock_delay",
    "fence",
    "fence_when",
    "fence_timeout",
    "on_fence_failure",
    "fence_on_release",
    "balance",
    "handover_timeout",
    "keys",
];

const WHEN: [(&str, FenceWhen); 2] =
    [("before-grant", FenceWhen::BeforeGrant), ("after-grant", FenceWhen::AfterGrant)];
const ON_FAILURE: [(&str, OnFenceFailure); 2] =
    [("block", OnFenceFailure::Block), ("grant-with-alarm", OnFenceFailure::GrantWithAlarm)];

impl Policy {
    fn set(&mut self, key: &str, value: Value) -> Result<(), ConfigError> {
        match key {
            "prefix" => self.prefix = text(value)?,
            "pool" => self.pool = text(value)?,
            "ttl_min" => self.ttl_min = Some(duration(value)?),
            "ttl_max" => self.ttl_max = Some(duration(value)?),
            "lock_delay" => self.lock_delay = duration(value)?,
            "fence" => self.fence = texts(value)?,
            "fence_when" => {
                self.fence_when = choice(value, &WHEN, "\"before-grant\" or \"after-grant\"")?;
            }
            "fence_timeout" => self.fence_timeout = duration(value)?,
            "on_fence_failure" => {
                self.on_fence_failure =
                    choice(value, &ON_FAILURE, "\"block\" or \"grant-with-alarm\"")?;
            }
            "fence_on_release" => self.fence_on_release = flag(value)?,
            "balance" => self.balance = flag(value)?,
            "handover_timeout" => self.handover_timeout = duration(value)?,
            "keys" => self.keys = Some(whole(value)?),
            _ => {
                let problem = format!("no such key; [[policy]] has {}", KEYS.join(", "));
                return Err(ConfigError::Message(problem));
            }
        }
        Ok(())
    }

    fn bounds(&self, limits: &Limits) -> (Duration, Duration) {
        (self.ttl_min.unwrap_or(limits.ttl_min), self.ttl_max.unwrap_or(limits.ttl_max))
    }
}

/// Reads the tables of the file. A fault of one value hides no other fault.
pub(super) fn read(rows: &[Row], faults: &mut Vec<Fault>) -> Vec<Policy> {
    let read_one = |row: &Row| {
        let mut policy = Policy::default();
        for (name, value) in row.cells() {
            if let Err(error) = policy.set(name, as_setting(value)) {
                let key = Some(format!("policy.{name}"));
                faults.push(Fault { origin: row.origin(name), key, problem: say(&error) });
            }
        }
        if !row.has("prefix") {
            let (key, problem) = (Some("policy.prefix".to_owned()), "must be given".to_owned());
            faults.push(Fault { origin: row.origin("prefix"), key, problem });
        }
        policy
    };
    rows.iter().map(read_one).collect()
}

/// Checks policies whose values have the right types. Each fault names the policy, the key, and what is wrong.
/// `known_plugins` are the names of the `[[plugin]]` tables.
pub(super) fn faults(
    policies: &[Policy],
    limits: &Limits,
    known_plugins: &[String],
) -> Vec<(usize, &'static str, String)> {
    let mut found = Vec::new();
    let mut pools = BTreeSet::from([DEFAULT_POOL]);
    for (at, policy) in policies.iter().enumerate() {
        let mut add = |key, problem: String| found.push((at, key, problem));
        if at == MAX_POLICIES {
            add("prefix", format!("is one too many; at most {MAX_POLICIES} policies are allowed"));
        }
        if policies[..at].iter().any(|other| other.prefix == policy.prefix) {
            add("prefix", format!("is {:?}, as that of another policy", policy.prefix));
        }
        if policy.prefix.len() > MAX_KEY_BYTES {
            add("prefix", format!("is longer than any key: {MAX_KEY_BYTES} bytes"));
        }
        let named = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' || c == '-';
        let length = policy.pool.chars().count();
        if !(1..=MAX_POOL_CHARS).contains(&length) || !policy.pool.chars().all(named) {
            add("pool", format!("must be 1 to {MAX_POOL_CHARS} of a-z, 0-9, _ and -"));
        }
        if pools.insert(&policy.pool) && pools.len() == MAX_POOLS + 2 {
            add("pool", format!("is one too many; at most {MAX_POOLS} pools are allowed"));
        }
        if let Some(keys) = policy.keys.filter(|keys| !NUMBERS_OF_KEYS.contains(keys)) {
            let (least, most) = NUMBERS_OF_KEYS.into_inner();
            add("keys", format!("is {keys}; must be from {least} to {most}"));
        }
        let mut span = |key, value: Duration, allowed: RangeInclusive<Duration>| {
            if !allowed.contains(&value) {
                let [value, least, most] =
                    [value, *allowed.start(), *allowed.end()].map(format_duration);
                add(key, format!("is {value}; must be from {least} to {most}"));
            }
        };
        policy.ttl_min.into_iter().for_each(|ttl| span("ttl_min", ttl, TTLS));
        policy.ttl_max.into_iter().for_each(|ttl| span("ttl_max", ttl, TTLS));
        let delays = Duration::ZERO..=Duration::from_millis(MAX_LOCK_DELAY_MS.into());
        span("lock_delay", policy.lock_delay, delays);
        span("fence_timeout", policy.fence_timeout, FENCE_TIMEOUTS);
        span("handover_timeout", policy.handover_timeout, FENCE_TIMEOUTS);
        let (min, max) = policy.bounds(limits);
        if min > max && (policy.ttl_min.is_some() || policy.ttl_max.is_some()) {
            let of_min = policy.ttl_min.map_or("limits.ttl_min", |_| "ttl_min");
            let of_max = policy.ttl_max.map_or("limits.ttl_max", |_| "ttl_max");
            let key = policy.ttl_min.map_or("ttl_max", |_| "ttl_min");
            let [min, max] = [min, max].map(format_duration);
            add(key, format!("leaves no ttl: {of_min} is {min}, and {of_max} is {max}"));
        }
        for (place, plugin) in policy.fence.iter().enumerate() {
            if !known_plugins.contains(plugin) {
                add("fence", format!("names {plugin:?}, and no [[plugin]] has that name"));
            }
            if policy.fence[..place].contains(plugin) {
                add("fence", format!("names {plugin:?} twice"));
            }
        }
    }
    found
}

/// [`faults`], with their places in the file.
pub(super) fn placed_faults(
    (policies, rows): (&[Policy], &[Row]),
    limits: &Limits,
    known_plugins: &[String],
) -> Vec<Fault> {
    let place = |(at, key, problem): (usize, &str, String)| Fault {
        origin: rows[at].origin(key),
        key: Some(format!("policy.{key}")),
        problem,
    };
    faults(policies, limits, known_plugins).into_iter().map(place).collect()
}

/// The policies of all keys. Keys without a policy have the bounds of `[limits]`. The bounds of a policy may be wider
/// or narrower.
pub(super) fn to_lease(policies: &[Policy], limits: &Limits) -> Policies {
    let convert = |policy: &Policy| lease::Policy {
        prefix: policy.prefix.as_str().into(),
        pool: policy.pool.as_str().into(),
        ttl: bounds(policy.bounds(limits)),
        lock_delay_ms: u32::try_from(policy.lock_delay.as_millis()).unwrap_or(MAX_LOCK_DELAY_MS),
        fence: fence_plan(policy),
        balance: policy.balance,
        handover_timeout_ms: millis(policy.handover_timeout),
        keys: policy.keys,
    };
    let otherwise =
        lease::Policy { ttl: bounds((limits.ttl_min, limits.ttl_max)), ..Default::default() };
    Policies::new(policies.iter().map(convert).collect(), otherwise)
}

fn fence_plan(policy: &Policy) -> Option<Arc<FencePlan>> {
    let plan = FencePlan {
        plugins: policy.fence.iter().map(|name| name.as_str().into()).collect(),
        when: policy.fence_when,
        timeout_ms: millis(policy.fence_timeout),
        on_failure: policy.on_fence_failure,
        on_release: policy.fence_on_release,
    };
    (!plan.plugins.is_empty()).then(|| Arc::new(plan))
}

fn bounds((min, max): (Duration, Duration)) -> TtlBounds {
    TtlBounds { min_ms: millis(min), max_ms: millis(max) }
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

fn serialize_span<S: Serializer>(span: &Option<Duration>, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&format_duration(span.unwrap_or_default()))
}

fn serialize_when<S: Serializer>(when: &FenceWhen, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(name_of(&WHEN, *when))
}

fn serialize_failure<S: Serializer>(what: &OnFenceFailure, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(name_of(&ON_FAILURE, *what))
}

fn name_of<T: PartialEq>(names: &[(&'static str, T)], value: T) -> &'static str {
    names.iter().find(|(_, named)| *named == value).map_or("", |(name, _)| name)
}
