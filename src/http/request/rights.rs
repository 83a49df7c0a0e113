//! The rights of a caller that depend on policies and on what the store holds.

use crate::{
    access::Verb,
    api::Lease,
    http::{answer::Problem, app::App, caller::Caller},
    manager::SessionView,
};

impl Caller {
    /// Requires that a policy names the pool, and that the caller may read or hold some of its keys. Another pool is
    /// refused like one that does not exist. The refusal names the pools that the caller may read, and no others.
    pub fn known_pool(&self, app: &App, pool: &str) -> Result<(), Problem> {
        let prefixes = app.manager.prefixes_of_pool(pool);
        let mut verbs = [Verb::Read, Verb::Hold].into_iter();
        if app.manager.check_pool(pool).is_ok()
            && verbs.any(|verb| prefixes.iter().any(|prefix| self.may_some_of(verb, prefix)))
        {
            return Ok(());
        }
        let mut known = app.manager.pool_names();
        known.retain(|pool| self.reads_pool(app, pool));
        let known = known.join(", ");
        Err(Problem::field(
            "pool",
            format!("is {pool:?}, but no policy of the settings names it; pools: {known}"),
        ))
    }

    /// Requires the right to hold every key of a pool. The refusal names a prefix that the caller lacks only if the
    /// caller may read the pool.
    pub fn may_work_for(&self, app: &App, pool: &str) -> Result<(), Problem> {
        self.known_pool(app, pool)?;
        let prefixes = app.manager.prefixes_of_pool(pool);
        let held = prefixes.iter().try_for_each(|prefix| self.may_all_of(Verb::Hold, prefix));
        held.map_err(|problem| {
            if self.reads_pool(app, pool) {
                problem
            } else {
                self.refuse(Verb::Hold, &format!("for all keys of the pool {pool:?}"))
            }
        })
    }

    /// A lease without what only callers may know that may read its key.
    pub fn shown(&self, lease: Lease) -> Lease {
        if self.reads(&lease.key) {
            return lease;
        }
        Lease { owner: None, value: None, session: None, offered_to: None, ..lease }
    }

    /// Whether the caller may read every key of a pool.
    pub fn reads_pool(&self, app: &App, pool: &str) -> bool {
        app.manager.prefixes_of_pool(pool).iter().all(|prefix| self.reads_all_of(prefix))
    }

    /// Whether the caller is shown a session: its own, or any if it may read all keys.
    pub fn sees(&self, session: &SessionView) -> bool {
        self.reads_all_of("") || session.view.owner.as_ref().is_some_and(|owner| self.is_own(owner))
    }
}
