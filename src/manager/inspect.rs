//! Read-only operations: they start no actor and write nothing.

use futures_util::{StreamExt, TryStreamExt, stream};

use super::{CallError, Manager, looks::Looks};
use crate::{
    lease::{Answer, Key, KeySet, KeyState, Nonce, Owner, Record, Request, Span, Token, View},
    store::{Found, Gate, Health, Range, StoreError},
};

/// How many keys are read at a time.
const PAGE: usize = 256;
/// How many views are requested at a time.
pub(super) const VIEWS_AT_ONCE: usize = 64;
/// The highest number of keys that one listing reads before it returns what it has.
pub(super) const SCAN_MAX: usize = 100_000;

/// Which leases a listing returns.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Only keys with this prefix.
    pub prefix: String,
    /// Only keys of this set, if given. No position names another key.
    pub within: Option<KeySet>,
    /// Only keys of this pool.
    pub pool: Option<String>,
    /// Only leases of this owner.
    pub owner: Option<Owner>,
    /// Only leases in these states, or in any if there are none.
    pub states: Vec<KeyState>,
    /// Only leases that this session keeps.
    pub session: Option<Nonce>,
    /// Only keys that sort after this one.
    pub after: Option<String>,
    /// At most this many leases.
    pub limit: usize,
}

impl Filter {
    /// Whether a lease of this view passes, whose key does.
    pub(super) fn fits(&self, view: &View) -> bool {
        fits(self, view.owner.as_ref())
            && (self.session.is_none() || self.session == view.session)
            && (self.states.is_empty() || self.states.contains(&view.state))
    }
}

/// A page of leases, in byte order of their keys.
#[derive(Clone, Debug, Default)]
pub struct Listing {
    /// Each key with what everybody may see of it.
    pub leases: Vec<(Key, View)>,
    /// The key after which the next page starts, or `None` if this page is the last.
    pub next: Option<String>,
    /// The key before which the previous page ends, or `None` if this page is the first.
    pub previous: Option<String>,
}

impl Manager {
    /// The public view of a key, whether or not it has a record.
    ///
    /// # Errors
    /// [`CallError`] when the store cannot be read.
    pub async fn view(&self, key: &Key) -> Result<View, CallError> {
        if self.coordinator.registry.contains(key.as_str()) {
            let view = self.ask_view(key).await?;
            if self.knows(&view) {
                return Ok(view);
            }
            let found = self.coordinator.store.read(key).await?;
            // Only the actor knows these two.
            let (waiters, granting) = (view.waiters, view.granting);
            return Ok(View { waiters, granting, ..self.coordinator.view_of(key, found) });
        }
        let found = self.coordinator.store.read(key).await?;
        Ok(self.coordinator.view_of(key, found))
    }

    /// Whether this node's view of a key is up to date because no other node can have changed it. When this node let
    /// its own record run out, other nodes may have found it dead and adopted the lease.
    fn knows(&self, view: &View) -> bool {
        let context = self.coordinator.node_context();
        let home = view.node == Some(context.node) && context.may_promise(self.now());
        self.node.is_none() || home
    }

    pub(super) async fn ask_view(&self, key: &Key) -> Result<View, CallError> {
        match self.ask(key.as_str(), self.now().into(), || Request::View).await? {
            Answer::Viewed(view) => Ok(*view),
            other => Err(CallError::of("view", other)),
        }
    }

    /// The public views of some keys, in their order.
    pub(super) async fn views(&self, keys: &[Key]) -> Result<Vec<View>, CallError> {
        let views = stream::iter(keys.iter().map(|key| self.view(key))).buffered(VIEWS_AT_ONCE);
        views.try_collect().await
    }

    pub(super) async fn view_found(&self, key: &Key, found: Found) -> Result<View, CallError> {
        if self.coordinator.registry.contains(key.as_str()) {
            let view = self.ask_view(key).await?;
            if self.knows(&view) {
                return Ok(view);
            }
        }
        Ok(self.coordinator.view_of(key, Some(found)))
    }

    /// Whether `token` belongs to the present holder.
    ///
    /// # Errors
    /// [`CallError`] when the store cannot be read.
    pub async fn check(&self, key: &Key, token: Token) -> Result<(bool, View), CallError> {
        let view = self.view(key).await?;
        let is_current = view.state == KeyState::Held && view.token == token;
        if !is_current {
            self.check_lease(key.as_str())?;
        }
        Ok((is_current, view))
    }

    /// A key as it is in the store now, and the condition that an application adds to its own write into the same store
    /// while the key is held (§8). The condition is `None` where [`Self::check`] is the only way.
    ///
    /// # Errors
    /// [`CallError`] when the store cannot be read.
    pub async fn gated(&self, key: &Key) -> Result<(View, Option<Gate>), CallError> {
        let found = self.coordinator.store.read(key).await?;
        let view = self.coordinator.view_of(key, found.clone());
        let held = found.filter(|_| view.state == KeyState::Held && !view.quarantined);
        let gate = held.and_then(|found| self.coordinator.store.gate(key, &found));
        Ok((view, gate))
    }

    /// A page of leases. It may have fewer leases than `limit` and still have a `next`. `looks` counts the records that
    /// the search looks at.
    ///
    /// # Errors
    /// [`CallError`] when the store cannot be read.
    pub async fn list(&self, filter: &Filter, looks: Looks<'_>) -> Result<Listing, CallError> {
        // A page without leases leads back too: a zero byte is in no key, so the page before ends with `after`.
        let previous = filter.after.as_ref().map(|after| format!("{after}\0"));
        let mut listing = Listing { previous, ..Listing::default() };
        let within = filter.within.as_ref();
        let after = filter.after.clone();
        let mut scan = self.scan(filter.pool.clone(), &filter.prefix, after, within, looks);
        while scan.looked_at < SCAN_MAX {
            let Some(page) = scan.page(self).await? else { return Ok(listing) };
            for (key, found) in page {
                if key.is_internal() || !may_match(filter, &found) {
                    continue;
                }
                let view = self.view_found(&key, found).await?;
                if filter.fits(&view) {
                    if listing.leases.is_empty() && filter.after.is_some() {
                        listing.previous = Some(key.as_str().to_owned());
                    }
                    listing.leases.push((key, view));
                    if listing.leases.len() == filter.limit {
                        listing.next =
                            listing.leases.last().map(|(key, _)| key.as_str().to_owned());
                        return Ok(listing);
                    }
                }
            }
        }
        listing.next = scan.after;
        Ok(listing)
    }

    /// At most `limit` keys of a prefix or pool that have a record and that the settings allow, in byte order. If there are more, keys for which
    /// `wanted` holds are preferred, and the search stops once there are `enough` of them. Returns whether some keys
    /// were left out.
    pub(super) async fn keys_of(
        &self,
        (pool, prefix): (Option<&str>, &str),
        limit: usize,
        enough: usize,
        wanted: impl Fn(&Record) -> bool,
        looks: Looks<'_>,
    ) -> Result<(Vec<Key>, bool), StoreError> {
        let mut scan = self.scan(pool.map(str::to_owned), prefix, None, None, looks);
        let (mut keys, mut cut) = (Vec::new(), false);
        while let Some(page) = scan.page(self).await? {
            let allowed = |key: &Key| !key.is_internal() && self.check_named("key", key).is_ok();
            let page = page.into_iter().filter(|(key, _)| allowed(key));
            keys.extend(page.map(|(key, found)| (key, found.record.is_ok_and(|r| wanted(&r)))));
            let mut surplus = keys.len().saturating_sub(limit);
            if surplus > 0 {
                cut = true;
                keys.reverse();
                keys.retain(|(_, wanted)| {
                    let drop = surplus > 0 && !wanted;
                    surplus -= usize::from(drop);
                    !drop
                });
                keys.reverse();
                keys.truncate(limit);
                if keys.iter().filter(|(_, wanted)| *wanted).count() >= enough.min(limit) {
                    break;
                }
            }
        }
        Ok((keys.into_iter().map(|(key, _)| key).collect(), cut))
    }

    pub(super) async fn keys_such(
        &self,
        pool: &str,
        limit: usize,
        mut such: impl FnMut(&Key, &Found) -> bool,
        looks: Looks<'_>,
    ) -> Result<Vec<Key>, StoreError> {
        let mut keys = Vec::new();
        let mut scan = self.scan(Some(pool.to_owned()), "", None, None, looks);
        while scan.looked_at < SCAN_MAX && keys.len() < limit {
            let Some(page) = scan.page(self).await? else { break };
            let fit =
                page.into_iter().filter(|(key, found)| !key.is_internal() && such(key, found));
            keys.extend(fit.map(|(key, _)| key));
        }
        keys.truncate(limit);
        Ok(keys)
    }

    pub(super) fn scan<'a>(
        &self,
        pool: Option<String>,
        prefix: &str,
        after: Option<String>,
        within: Option<&KeySet>,
        looks: Looks<'a>,
    ) -> Scan<'a> {
        let mut ranges = self.ranges(pool.as_deref(), prefix, within);
        if let Some(after) = &after {
            ranges.retain(|range| !range.is_over_after(after));
        }
        ranges.reverse();
        Scan { pool, within: within.cloned(), ranges, after, looked_at: 0, looks }
    }

    /// The spans, in byte order, that have the keys of a pool that begin with a prefix. They may have keys that are not
    /// in `within`.
    pub(super) fn ranges(
        &self,
        pool: Option<&str>,
        prefix: &str,
        within: Option<&KeySet>,
    ) -> Vec<Span> {
        let ranges = match pool {
            Some(pool) => self.coordinator.policy_table().ranges(pool, prefix),
            None => vec![prefix.to_owned()],
        };
        match within {
            Some(within) => ranges.iter().flat_map(|range| within.part_of(range)).collect(),
            None => ranges.into_iter().map(Span::Under).collect(),
        }
    }

    /// Why this coordinator should get no traffic now. Empty if it should.
    #[must_use]
    pub fn unready(&self) -> Vec<String> {
        let mut reasons = Vec::new();
        if self.is_draining() {
            reasons.push("the coordinator is stopping".to_owned());
        }
        match self.coordinator.store.health() {
            Health::Degraded(why) => reasons.push(why),
            Health::Frozen(why) => reasons.push(format!("frozen, nothing is granted: {why}")),
            Health::Ready => {}
        }
        let context = self.coordinator.node_context();
        if !self.is_draining() && !context.may_promise(self.now()) {
            reasons.push("this node could not renew its record, and may promise nothing".into());
        }
        if !self.coordinator.registry.has_arbiters() {
            reasons.push("the coordinator is starting".to_owned());
        }
        reasons
    }
}

/// Reads the records of some keys, in byte order, page by page.
pub(super) struct Scan<'a> {
    pool: Option<String>,
    within: Option<KeySet>,
    /// The spans that were not read yet, the next one last.
    ranges: Vec<Span>,
    after: Option<String>,
    looked_at: usize,
    /// Counts the records for the caller.
    looks: Looks<'a>,
}

impl Scan<'_> {
    /// The next page, which may be empty. `None` after the last one.
    pub(super) async fn page(
        &mut self,
        manager: &Manager,
    ) -> Result<Option<Vec<(Key, Found)>>, StoreError> {
        let prefix = match self.ranges.last() {
            None => return Ok(None),
            Some(Span::Under(prefix)) => prefix.clone(),
            Some(Span::One(_)) => return self.one(manager).await.map(Some),
        };
        // A position before the prefix is not within it.
        let after = self.after.clone().filter(|after| *after >= prefix);
        let range = Range { prefix, after, limit: PAGE };
        let looks = self.looks;
        let read = async {
            let page = manager.coordinator.store.scan(range).await?;
            // A caller that hangs up in a moment pays for it, too.
            looks(page.len());
            Ok::<_, StoreError>(page)
        };
        let mut page = manager.search_turns.page(read).await?;
        self.looked_at += page.len();
        if page.len() < PAGE {
            self.ranges.pop();
        }
        if let Some((last, _)) = page.last() {
            self.after = Some(last.as_str().to_owned());
        }
        self.leave_out(manager, &mut page);
        Ok(Some(page))
    }

    fn looked(&mut self, records: usize) {
        self.looked_at += records;
        (self.looks)(records);
    }

    /// The next page, which is for a single key.
    async fn one(&mut self, manager: &Manager) -> Result<Vec<(Key, Found)>, StoreError> {
        let key = self.ranges.pop().and_then(|span| Key::new(span.start()).ok());
        let Some(key) = key else { return Ok(Vec::new()) };
        self.looked(1);
        self.after = Some(key.as_str().to_owned());
        let found = manager.coordinator.store.read(&key).await?;
        let mut page: Vec<_> = found.map(|found| (key, found)).into_iter().collect();
        self.leave_out(manager, &mut page);
        Ok(page)
    }

    /// Leaves out the keys that are not of the pool, or not in the set.
    fn leave_out(&self, manager: &Manager, page: &mut Vec<(Key, Found)>) {
        if let Some(within) = &self.within {
            page.retain(|(key, _)| within.allows(key.as_str()));
        }
        if let Some(pool) = &self.pool {
            let table = manager.coordinator.policy_table();
            page.retain(|(key, _)| table.is_of(key.as_str(), pool));
        }
    }
}

/// A cheap check that uses the record alone. A record that cannot be interpreted counts as held.
pub(super) fn may_match(filter: &Filter, found: &Found) -> bool {
    let Ok(record) = &found.record else {
        return filter.owner.is_none() && filter.session.is_none();
    };
    let owner = || record.tenure.as_ref().map(|tenure| &tenure.owner);
    fits(filter, owner())
        && (filter.session.is_none()
            || record.session_ref().map(|session_ref| session_ref.session) == filter.session)
}

/// Whether the filter lets this owner pass.
fn fits(filter: &Filter, owner: Option<&Owner>) -> bool {
    filter.owner.as_ref().is_none_or(|wanted| owner.is_some_and(|it| it.has_name_of(wanted)))
}
