//! Policies: pool, ttls, lock-delay and fences of the keys with a prefix.

use std::sync::Arc;

use super::{
    place_rule::PlaceRule,
    primitives::{PERMIT, permit_of},
};

/// The pool of the keys that no policy names.
pub const DEFAULT_POOL: &str = "default";
/// The time that a holder has to hand over, in milliseconds, where no policy says otherwise.
pub const DEFAULT_HANDOVER_MS: u64 = 30_000;
/// The longest time for which members of two versions are told apart, in milliseconds, where no policy says otherwise.
pub const DEFAULT_MIXED_VERSIONS_MS: u64 = 600_000;
/// How many members of a pool may prepare for keys at once, where no policy says otherwise.
pub const DEFAULT_WARMUPS: u32 = 8;
/// The most that a policy may allow.
pub const MAX_WARMUPS: u32 = 32;
/// How many of the members of a pool must be lost for a mass failure, in percent, where no policy says otherwise.
pub const DEFAULT_MASS_FAILURE_PERCENT: u32 = 30;
/// The longest lock-delay, in milliseconds.
pub const MAX_LOCK_DELAY_MS: u32 = 60_000;
/// The most permits of a key.
pub const MAX_PERMITS: u32 = 256;

/// The policy for the keys with a prefix. It is read when a key is granted and when a tenure ends, so a change does not
/// affect leases that are held.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Policy {
    /// The prefix of its keys. The longest matching prefix decides.
    pub prefix: Box<str>,
    /// The label of its keys in metrics and listings.
    pub pool: Arc<str>,
    /// The ttls that are accepted.
    pub ttl: TtlBounds,
    /// How long a key stays shut after an expiry, in milliseconds. Also after the end of a session that did not specify
    /// another time.
    pub lock_delay_ms: u32,
    /// What must be done to the resource when its tenure ended.
    pub fence: Option<Arc<FencePlan>>,
    /// Whether leases of its pool are moved between the pool's members, and by what.
    pub balance: Balance,
    /// How far the load of a member may be from the mean, if they are moved by load.
    pub tolerance: Tolerance,
    /// Which members of its pool may have its keys, and which should.
    pub place: PlaceRule,
    /// The time that a holder has to hand over, in milliseconds.
    pub handover_timeout_ms: u64,
    /// The time that the next holder has to prepare before a planned move, in milliseconds; 0 if it does not prepare.
    pub warmup_timeout_ms: u64,
    /// How many members of its pool may prepare for keys at once.
    pub warmups: u32,
    /// How long the keys of a member of its pool that went without a drain are kept for the member's owner, in
    /// milliseconds.
    pub rejoin_window_ms: u32,
    /// How long, at most, keys that come free go to the newest version of its pool's members and no others move, in
    /// milliseconds.
    pub mixed_versions_ms: u64,
    /// The time within which the losses of members count together, in milliseconds; 0 if they do not.
    pub mass_failure_within_ms: u64,
    /// How many members must be lost for a mass failure, in percent.
    pub mass_failure_percent: u32,
    /// The most keys that may exist under this policy; `None` for no limit.
    pub keys: Option<u64>,
    /// How many permits each key has, each of which is a lease; 1 if the key itself is one.
    pub permits: u32,
}

/// What a key stands for under its policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Named {
    /// A lease. It may be one of the permits of another key.
    Lease,
    /// This many permits.
    Permits(u32),
    /// No permit of a key, though it is written like one. The key has this many.
    NoPermit(u32),
}

impl Policy {
    /// What a key of this policy stands for.
    #[must_use]
    pub fn named(&self, key: &str) -> Named {
        let permits = self.permits;
        if permits == 1 {
            return Named::Lease;
        }
        match permit_of(key) {
            Some((_, number)) if number <= permits => Named::Lease,
            Some(_) => Named::NoPermit(permits),
            None if key.contains(PERMIT) => Named::NoPermit(permits),
            None => Named::Permits(permits),
        }
    }
}

/// By what the leases of a pool are balanced over its members.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Balance {
    /// They stay where they are.
    #[default]
    No,
    /// By their number.
    Count,
    /// By the loads that the members report.
    Load,
}

/// How far the load of a member may be from the mean before leases move.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Tolerance {
    /// 2.5 % of the mean.
    Tight,
    /// 10 %.
    #[default]
    Default,
    /// 40 %.
    Loose,
}

impl Balance {
    /// Whether they move.
    #[must_use]
    pub fn moves(self) -> bool {
        self != Self::No
    }
}

impl Tolerance {
    /// As a part of the mean.
    #[must_use]
    pub fn part(self) -> f64 {
        match self {
            Self::Tight => 0.025,
            Self::Default => 0.1,
            Self::Loose => 0.4,
        }
    }
}

/// How the members of a pool prepare for keys before planned moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Warmups {
    /// How long a member may take for a key, in milliseconds.
    pub timeout_ms: u64,
    /// How many keys may be prepared for at once.
    pub most: usize,
}

/// What counts as a mass failure of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MassFailure {
    /// The time within which the losses of members count together, in milliseconds.
    pub within_ms: u64,
    /// How many members must be lost, in percent.
    pub percent: u32,
}

impl MassFailure {
    /// How many of these members must be lost: at least two.
    #[must_use]
    pub fn least(self, members: usize) -> usize {
        (members * self.percent as usize).div_ceil(100).max(2)
    }
}

/// The ttls that a coordinator accepts, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TtlBounds {
    /// The shortest ttl that a request may name. A shorter one is refused, never clamped.
    pub min_ms: u64,
    /// The longest ttl that a request may name. A longer one is refused, never clamped.
    pub max_ms: u64,
}

/// What must be done to a resource when its tenure ended.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FencePlan {
    /// The plugins. Each of them must confirm.
    pub plugins: Box<[Box<str>]>,
    /// Whether the plugins run before or after the next grant of the key.
    pub when: FenceWhen,
    /// The time that each plugin has to confirm, in milliseconds, all its tries together.
    pub timeout_ms: u64,
    /// What happens when a plugin does not confirm.
    pub on_failure: OnFenceFailure,
    /// Whether to fence also after a tenure that its owner ended itself.
    pub on_release: bool,
}

/// When the fences of an ended tenure run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub enum FenceWhen {
    /// Before the key is granted.
    BeforeGrant,
    /// Once the key is granted again. Until then they wait, and a revival cancels them.
    AfterGrant,
}

/// What happens when a fence failed for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub enum OnFenceFailure {
    /// The key is not granted until an administrator skips the fence.
    Block,
    /// The key goes on, and an alarm is raised.
    GrantWithAlarm,
}

/// All policies, and the one for keys that none of them names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policies {
    /// In descending order of the prefix's length. The last one matches every key.
    sorted: Box<[Arc<Policy>]>,
}

impl Policies {
    /// Takes these policies, and `otherwise` for all other keys.
    #[must_use]
    pub fn new(policies: Vec<Policy>, otherwise: Policy) -> Self {
        let mut sorted: Vec<_> = policies.into_iter().map(Arc::new).collect();
        sorted.sort_by_key(|policy| std::cmp::Reverse(policy.prefix.len()));
        sorted.push(Arc::new(Policy { prefix: Box::default(), ..otherwise }));
        Self { sorted: sorted.into() }
    }

    /// The key's policy: the one with the longest matching prefix.
    #[must_use]
    pub fn of(&self, key: &str) -> &Arc<Policy> {
        &self.sorted[self.place_of(key)]
    }

    /// The position of a key's policy in [`Self::iter`].
    #[must_use]
    pub fn place_of(&self, key: &str) -> usize {
        let fits = |policy: &Arc<Policy>| key.starts_with(&*policy.prefix);
        self.sorted.iter().position(fits).expect("the last policy fits every key")
    }

    /// The policy at a position that [`Self::place_of`] returned.
    #[must_use]
    pub fn at(&self, place: usize) -> &Arc<Policy> {
        &self.sorted[place]
    }

    /// Whether the leases of a pool are moved between its members.
    #[must_use]
    pub fn balances(&self, pool: &str) -> bool {
        self.of_pool(pool).any(|policy| policy.balance.moves())
    }

    /// How far the loads of a pool's members may be from their mean, as a part of it: the least of its policies. `None` if
    /// its leases are not moved by load.
    #[must_use]
    pub fn load_tolerance(&self, pool: &str) -> Option<f64> {
        let by_load = self.of_pool(pool).filter(|policy| policy.balance == Balance::Load);
        by_load.map(|policy| policy.tolerance.part()).min_by(f64::total_cmp)
    }

    /// How the members of a pool prepare for keys before planned moves: the longest time and the lowest number of its
    /// policies. `None` if they do not.
    #[must_use]
    pub fn warmups(&self, pool: &str) -> Option<Warmups> {
        let warm = || self.of_pool(pool).filter(|policy| policy.warmup_timeout_ms > 0);
        let timeout_ms = warm().map(|policy| policy.warmup_timeout_ms).max()?;
        let most = warm().map(|policy| policy.warmups).min()? as usize;
        Some(Warmups { timeout_ms, most })
    }

    /// The time that a member of a pool has to hand everything over, in milliseconds: the longest for any key of the
    /// pool, after the time in which others prepare for its keys.
    #[must_use]
    pub fn drain_ms(&self, pool: Option<&str>) -> u64 {
        let warm = pool.and_then(|pool| self.warmups(pool));
        self.handover_ms(pool) + warm.map_or(0, |warm| warm.timeout_ms)
    }

    /// The time that a member of a pool has to hand everything over once it is asked for that, in milliseconds: the
    /// longest for any key of the pool.
    #[must_use]
    pub fn handover_ms(&self, pool: Option<&str>) -> u64 {
        let of_pool = pool.into_iter().flat_map(|pool| self.of_pool(pool));
        of_pool.map(|policy| policy.handover_timeout_ms).max().unwrap_or(DEFAULT_HANDOVER_MS)
    }

    /// How long the members of a pool may have two versions before that no longer counts, in milliseconds: the longest
    /// time for any key of the pool.
    #[must_use]
    pub fn mixed_versions_ms(&self, pool: &str) -> u64 {
        self.of_pool(pool).map(|policy| policy.mixed_versions_ms).max().unwrap_or(0)
    }

    /// What counts as a mass failure of a pool. `None` if nothing does.
    #[must_use]
    pub fn mass_failure(&self, pool: &str) -> Option<MassFailure> {
        let guarded = || self.of_pool(pool).filter(|policy| policy.mass_failure_within_ms > 0);
        let within_ms = guarded().map(|policy| policy.mass_failure_within_ms).max()?;
        let percent = guarded().map(|policy| policy.mass_failure_percent).min()?;
        Some(MassFailure { within_ms, percent })
    }

    /// How long the keys of a member of a pool are kept for its owner after it went without a drain, in milliseconds:
    /// the longest time for any key of the pool; 0 if its members do not come back.
    #[must_use]
    pub fn rejoin_window_ms(&self, pool: &str) -> u32 {
        self.of_pool(pool).map(|policy| policy.rejoin_window_ms).max().unwrap_or(0)
    }

    /// How long the keys of a member stay shut to others after its session's end, in milliseconds, where the session
    /// asks for `own`. `None` if the policies of the keys decide.
    #[must_use]
    pub fn member_lock_delay_ms(&self, pool: &str, own: Option<u32>) -> Option<u32> {
        match self.rejoin_window_ms(pool) {
            0 => own,
            window => {
                let longest = self.of_pool(pool).map(|policy| policy.lock_delay_ms).max();
                Some(own.or(longest).unwrap_or(0).max(window))
            }
        }
    }

    fn of_pool<'a>(&'a self, pool: &'a str) -> impl Iterator<Item = &'a Arc<Policy>> {
        self.sorted.iter().filter(move |policy| *policy.pool == *pool)
    }

    /// All policies, the longest prefix first. The last one is for keys that no other policy names.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Policy>> {
        self.sorted.iter()
    }
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            prefix: Box::default(),
            pool: DEFAULT_POOL.into(),
            ttl: TtlBounds::default(),
            lock_delay_ms: 0,
            fence: None,
            balance: Balance::No,
            tolerance: Tolerance::Default,
            place: PlaceRule::default(),
            handover_timeout_ms: DEFAULT_HANDOVER_MS,
            warmup_timeout_ms: 0,
            warmups: DEFAULT_WARMUPS,
            rejoin_window_ms: 0,
            mixed_versions_ms: DEFAULT_MIXED_VERSIONS_MS,
            mass_failure_within_ms: 0,
            mass_failure_percent: DEFAULT_MASS_FAILURE_PERCENT,
            keys: None,
            permits: 1,
        }
    }
}

impl Default for Policies {
    fn default() -> Self {
        Self::new(Vec::new(), Policy::default())
    }
}

impl TtlBounds {
    /// Whether `ttl_ms` is in the range.
    #[must_use]
    pub fn contains(self, ttl_ms: u64) -> bool {
        (self.min_ms..=self.max_ms).contains(&ttl_ms)
    }
}

impl Default for TtlBounds {
    fn default() -> Self {
        Self { min_ms: 100, max_ms: 86_400_000 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_with_permits_is_no_lease_and_its_permits_are() {
        let policy = Policy { permits: 4, ..Policy::default() };
        assert_eq!(policy.named("gpus/a"), Named::Permits(4));
        assert_eq!(policy.named("gpus/a#4"), Named::Lease);
        for odd in ["gpus/a#5", "gpus/a#0", "gpus/a#01", "gpus/a#", "gpus/a#x"] {
            assert_eq!(policy.named(odd), Named::NoPermit(4), "{odd}");
        }
        let plain = Policy::default();
        assert!(["a", "a#1", "a#9"].iter().all(|key| plain.named(key) == Named::Lease));
    }

    #[test]
    fn the_longest_prefix_that_fits_is_chosen() {
        let policy = |prefix: &str, pool: &str| Policy {
            prefix: prefix.into(),
            pool: pool.into(),
            ..Policy::default()
        };
        let all = vec![policy("a/", "short"), policy("a/b/", "long"), policy("c", "other")];
        let policies = Policies::new(all, Policy::default());
        let pool = |key| policies.of(key).pool.to_string();
        assert_eq!(pool("a/b/c"), "long");
        assert_eq!(pool("a/bc"), "short");
        assert_eq!(pool("a"), "default");
        assert_eq!(pool("cat"), "other");
    }
}
