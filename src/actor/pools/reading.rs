//! What a scan of the store tells the pools, in addition to the feed.

use std::sync::atomic::Ordering;

use super::{
    Pools,
    fact::{Fact, owner_in},
    pool::{Name, Pool},
    state::Meanwhile,
};
use crate::{
    clock::HashSet,
    lease::{Key, Moment, Nonce, PlaceTable, Record, Revision, Token},
};

impl Pools {
    /// Whether all sessions are known.
    pub(in crate::actor) fn is_searched(&self) -> bool {
        self.state().searched
    }

    /// A search for every session that is alive begins.
    pub(in crate::actor) fn begin_search(&self) {
        let mut state = self.state();
        (state.searched, state.meanwhile) = (true, Some(Meanwhile::default()));
    }

    pub(in crate::actor) fn fail_search(&self) {
        let mut state = self.state();
        (state.searched, state.meanwhile) = (false, None);
    }

    /// The search found these sessions. Those that were added meanwhile have this home node, or are still to be read.
    pub(in crate::actor) fn end_search(
        &self,
        found: impl IntoIterator<Item = Nonce>,
        is_here: impl Fn(Nonce) -> bool,
    ) {
        let mut state = self.state();
        state.meanwhile = None;
        let mut living: HashSet<Nonce> = found.into_iter().collect();
        living.extend(state.joined.keys().filter(|digest| is_here(**digest)));
        state.keep_only(&living);
    }

    /// Notes the record of a living session, unless this node learnt of a change of the session since the read began: the
    /// record may be older. Returns whether the session did not end meanwhile. `returns`: its token, if the members of its
    /// pool come back to their keys.
    pub(in crate::actor) fn read(
        &self,
        digest: Nonce,
        record: &Record,
        returns: Option<Token>,
    ) -> bool {
        let mut state = self.state();
        if let Some(Meanwhile { ended, changed }) = &state.meanwhile
            && (ended.contains(&digest) || changed.contains(&digest))
        {
            return !ended.contains(&digest);
        }
        state.read(digest, record, returns);
        if state.joined.contains_key(&digest) {
            self.in_use.store(true, Ordering::Release);
        }
        true
    }

    /// Takes the sessions of other nodes whose records must be read. `None` if there are none.
    pub(in crate::actor) fn begin_joins(&self) -> Option<HashSet<Nonce>> {
        let mut state = self.state();
        if state.joins.is_empty() {
            return None;
        }
        state.meanwhile = Some(Meanwhile::default());
        Some(std::mem::take(&mut state.joins))
    }

    /// The record of this session could not be read.
    pub(in crate::actor) fn joins_again(&self, digest: Nonce) {
        self.state().joins.insert(digest);
    }

    /// The records of the sessions that were taken have been read.
    pub(in crate::actor) fn end_joins(&self) {
        self.state().meanwhile = None;
    }

    /// The names of the pools that a session joined.
    pub(in crate::actor) fn names(&self) -> Vec<Name> {
        self.state().pools.keys().cloned().collect()
    }

    /// The pools whose keys are not all known.
    pub(in crate::actor) fn unindexed(&self) -> Vec<Name> {
        let state = self.state();
        let unindexed = state.pools.iter().filter(|(_, pool)| !pool.indexed.get());
        unindexed.map(|(name, _)| name.clone()).collect()
    }

    /// How often everything had to be read again.
    pub fn misses(&self) -> u64 {
        self.state().misses
    }

    /// A search for every key of a pool begins.
    /// `by_load`: how far loads may be from their mean, if leases move by load. `table`: where keys go, if policies say so.
    pub(in crate::actor) fn begin_indexing(
        &self,
        name: &str,
        by_load: Option<f64>,
        table: Option<PlaceTable>,
    ) {
        self.change(name, |pool| pool.begin_indexing(by_load, table));
    }

    /// The members of the pools whose leases move by load, with the tolerance of each pool.
    pub(in crate::actor) fn members_by_load(&self) -> Vec<(Nonce, f64)> {
        let state = self.state();
        let by_load = state.pools.values().filter_map(|pool| Some((pool, pool.by_load?)));
        let members = by_load.flat_map(|(pool, tolerance)| {
            pool.members.keys().map(move |digest| (*digest, tolerance))
        });
        members.collect()
    }

    /// The members of other nodes whose loads or labels may have changed. The feed does not say so.
    pub(in crate::actor) fn members_that_change(
        &self,
        is_here: impl Fn(Nonce) -> bool,
    ) -> Vec<Nonce> {
        let state = self.state();
        let changing = state.pools.values().filter(|pool| pool.places_keys() || pool.has_labels());
        let members = changing.flat_map(|pool| pool.members.keys().copied());
        members.filter(|digest| !is_here(*digest)).collect()
    }

    /// Every key of a pool was read.
    pub(in crate::actor) fn end_indexing(&self, name: &str) {
        self.change(name, Pool::end_indexing);
    }

    /// Notes the record of a key of a pool. `misses` is how often changes had been missed before the read began. If some were
    /// missed since, the record may be one that the store has no more, and it is read again.
    pub(in crate::actor) fn learn(
        &self,
        (name, misses): (&str, u64),
        key: &Key,
        record: &Record,
        revision: Revision,
        now: Moment,
    ) {
        let fact = Fact::of_record(record, revision);
        let mut state = self.state();
        if state.misses == misses
            && let Some(pool) = state.pools.get_mut(name)
        {
            pool.learn(key, fact, owner_in(record), now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lease::{Announced, Behavior, ChangeKind, Labels, Owner, SessionSpec, Tenure};

    fn labelled(zone: &str) -> Announced {
        let labels = Labels::from([("zone".into(), zone.into())]);
        Announced { labels, ..Announced::default() }
    }

    /// A record that was read before a change of its session, and that comes after it, undoes nothing.
    #[test]
    fn a_record_that_comes_late_does_not_undo_what_a_session_said_meanwhile() {
        let (pools, session) = (Pools::default(), Nonce(1));
        let owner = Owner::new("w").expect("an owner");
        let spec = SessionSpec {
            behavior: Behavior::Release,
            lock_delay_ms: None,
            pool: Some("p".into()),
            weight: 1,
            capacity: None,
            checks: Vec::new(),
        };
        let record = Record {
            tenure: Some(Tenure {
                grant_nonce: Nonce(2),
                owner: owner.clone(),
                token: Token(1),
                ttl_ms: 5_000,
                acquired_at_ms: 0,
                session_ref: None,
            }),
            value: labelled("a").to_value(),
            spec: Some(Box::new(spec.clone())),
            ..Record::absent()
        };
        let says = |zone| pools.announced(session) == Some(labelled(zone));
        let drains = || pools.state().member(session).is_some_and(|joined| joined.draining);

        pools.joined(session, &owner, &spec, (Nonce(0), None), labelled("a"));
        pools.begin_search();
        pools.announces(session, &labelled("b"));
        assert!(pools.read(session, &record, None) && says("b"));
        pools.end_search([session], |_| true);

        pools.heard_of_session(Nonce(3), ChangeKind::Granted, false);
        assert!(pools.begin_joins().is_some());
        pools.heard_of_session(session, ChangeKind::HandoverRequested, false);
        assert!(pools.read(session, &record, None) && drains());
        pools.end_joins();

        // The record is read again, and counts.
        assert_eq!(pools.begin_joins(), Some(HashSet::from_iter([session])));
        assert!(pools.read(session, &record, None) && says("a") && !drains());
    }
}
