//! What holds for the keys under a prefix: their pool, ttls, lock-delay and fences.

use std::sync::Arc;

use super::TtlBounds;

/// The pool of keys that no policy names.
pub const DEFAULT_POOL: &str = "default";
/// How long a holder that is asked to hand over has, in milliseconds, where no policy says it.
pub const DEFAULT_HANDOVER_MS: u64 = 30_000;
/// Longest lock-delay, in milliseconds.
pub const MAX_LOCK_DELAY_MS: u32 = 60_000;

/// What holds for the keys under a prefix. Read when a key is granted, and when a tenure ends: a change
/// touches no lease that is held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// The keys that it is for; of several that fit, the longest.
    pub prefix: Box<str>,
    /// Their label in metrics and listings.
    pub pool: Arc<str>,
    /// The ttls that are accepted.
    pub ttl: TtlBounds,
    /// How long a key stays shut after an expiry, in milliseconds; after the end of a session that did
    /// not say otherwise, too.
    pub lock_delay_ms: u32,
    /// What is to be done to the resource when its tenure ended.
    pub fence: Option<Arc<FencePlan>>,
    /// Whether leases of its pool are moved between the pool's members.
    pub balance: bool,
    /// How long a holder that is asked to hand over has, in milliseconds.
    pub handover_timeout_ms: u64,
    /// How many keys may exist whose policy it is; none: any number.
    pub keys: Option<u64>,
}

/// What is to be done to a resource when its tenure ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FencePlan {
    /// The plugins, each of which is to confirm.
    pub plugins: Box<[Box<str>]>,
    /// When they run.
    pub when: FenceWhen,
    /// In how many milliseconds each is to confirm, all its tries together.
    pub timeout_ms: u64,
    /// What happens when one does not.
    pub on_failure: OnFenceFailure,
    /// Also after a tenure that its owner ended itself.
    pub on_release: bool,
}

/// When the fences of an ended tenure run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub enum FenceWhen {
    /// Before anybody is granted the key.
    BeforeGrant,
    /// Once the key is granted again; until then they wait, and a revival strikes them.
    AfterGrant,
}

/// What happens when a fence failed for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub enum OnFenceFailure {
    /// Nobody is granted the key until an administrator says so.
    Block,
    /// The key goes on, and people are told.
    GrantWithAlarm,
}

/// Every policy, and what holds for keys that none names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policies {
    /// By descending length of the prefix; the last one fits every key.
    sorted: Box<[Arc<Policy>]>,
}

impl Policies {
    /// These policies, and `otherwise` for all other keys.
    #[must_use]
    pub fn new(policies: Vec<Policy>, otherwise: Policy) -> Self {
        let mut sorted: Vec<_> = policies.into_iter().map(Arc::new).collect();
        sorted.sort_by_key(|policy| std::cmp::Reverse(policy.prefix.len()));
        sorted.push(Arc::new(Policy { prefix: Box::default(), ..otherwise }));
        Self { sorted: sorted.into() }
    }

    /// What holds for a key: the policy with the longest prefix that fits.
    #[must_use]
    pub fn of(&self, key: &str) -> &Arc<Policy> {
        &self.sorted[self.place_of(key)]
    }

    /// The place of a key's policy in [`Self::iter`].
    #[must_use]
    pub fn place_of(&self, key: &str) -> usize {
        let fits = |policy: &Arc<Policy>| key.starts_with(&*policy.prefix);
        self.sorted.iter().position(fits).expect("the last policy fits every key")
    }

    /// The policy at a place that [`Self::place_of`] told.
    #[must_use]
    pub fn at(&self, place: usize) -> &Arc<Policy> {
        &self.sorted[place]
    }

    /// Whether the leases of a pool are moved between its members.
    #[must_use]
    pub fn balances(&self, pool: &str) -> bool {
        self.of_pool(pool).any(|policy| policy.balance)
    }

    /// How long a member of a pool that is asked to hand everything over has, in milliseconds: as long as
    /// for any key of the pool.
    #[must_use]
    pub fn handover_ms(&self, pool: Option<&str>) -> u64 {
        let of_pool = pool.into_iter().flat_map(|pool| self.of_pool(pool));
        of_pool.map(|policy| policy.handover_timeout_ms).max().unwrap_or(DEFAULT_HANDOVER_MS)
    }

    fn of_pool<'a>(&'a self, pool: &'a str) -> impl Iterator<Item = &'a Arc<Policy>> {
        self.sorted.iter().filter(move |policy| *policy.pool == *pool)
    }

    /// All of them, the longest prefix first; the last one holds for keys that no other names.
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
            balance: false,
            handover_timeout_ms: DEFAULT_HANDOVER_MS,
            keys: None,
        }
    }
}

impl Default for Policies {
    fn default() -> Self {
        Self::new(Vec::new(), Policy::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
