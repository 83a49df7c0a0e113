//! Keys whose next holders prepare for them before the present ones are asked to hand them over.
//!
//! Guarantees: a key that a member prepares for goes to no other member by a fair call, until the preparation is over. That is
//! so when another tenure of the key has begun, when the member that prepares leaves, or when it leaves the key untaken.
//!
//! Does not guarantee: that all nodes know of a preparation at the same moment. It is stored before the holder is asked.

use std::{cmp::Reverse, collections::BTreeMap, time::Duration};

use super::{
    fact::By,
    order::Order,
    pool::{Place, Pool},
    warm::{Due, Preparation, WarmSteps, WarmView},
};
use crate::{
    clock::HashMap,
    lease::{
        Key, Moment, Nonce, Token, WarmStep, Warming, Warmups,
        balance::{Member, UNTAKEN},
    },
};

impl Pool {
    pub fn warmings(&self) -> impl Iterator<Item = (Key, &Warming)> {
        let all = self.controls.warming.iter();
        all.filter_map(|(key, warming)| Some((Key::new(key).ok()?, warming)))
    }

    /// Whether the member may be given the key.
    fn may_get(&self, digest: Nonce, key: &Key) -> bool {
        self.members.get(&digest).is_some_and(|joined| {
            !joined.draining
                && !joined.announced.unready
                && !self.is_cordoned(&joined.owner)
                && self.allows(joined, key)
        })
    }

    /// The member that prepares for a key and is to have it next.
    pub fn warm_to(&self, key: &Key) -> Option<Nonce> {
        let warming = self.controls.warming.get(key.as_str())?;
        let stands = |place: &Place| place.fact.token <= warming.token;
        let stands = self.keys.get(key).is_some_and(stands) && self.may_get(warming.to, key);
        stands.then_some(warming.to)
    }

    /// The keys that the member prepares for and that nobody holds. If keys are named, only those among them.
    pub fn warm_to_take(&self, digest: Nonce, named: &[Key]) -> Vec<Key> {
        let is_meant = |key: &Key| named.is_empty() || named.contains(key);
        let is_for = |key: &Key| self.is_free(key) && self.warm_to(key) == Some(digest);
        self.warmings().map(|(key, _)| key).filter(|key| is_meant(key) && is_for(key)).collect()
    }

    /// How many leases of each member others prepare for, for which it was not asked yet.
    pub fn warm_from(&self) -> HashMap<Nonce, usize> {
        let mut from = HashMap::default();
        for (key, _) in self.warmings() {
            if let Some(place) = self.keys.get(&key)
                && let By::Session(digest) = place.fact.by
                && !place.fact.asked
                && self.warm_to(&key).is_some()
            {
                *from.entry(digest).or_default() += 1;
            }
        }
        from
    }

    /// What members that stay lack of their shares, where leases move by their number. One with more than its share and room
    /// for more lacks less than nothing.
    fn rooms(&mut self) -> BTreeMap<Nonce, (isize, usize)> {
        let targets = self.targets(0);
        let mut to: HashMap<Nonce, usize> = HashMap::default();
        for (key, warming) in self.warmings() {
            let counts = |place: &Place| match place.fact.by {
                By::Session(digest) => digest != warming.to && self.members.contains_key(&digest),
                By::Nobody => true,
                By::Other => false,
            };
            if self.keys.get(&key).is_some_and(counts) && self.warm_to(&key).is_some() {
                *to.entry(warming.to).or_default() += 1;
            }
        }
        let room = |member: &Member| {
            let target = targets.get(&member.id).copied().unwrap_or(0);
            let has = member.held + to.get(&member.id).copied().unwrap_or(0);
            let lacks = isize::try_from(target).unwrap_or(isize::MAX)
                - isize::try_from(has).unwrap_or(isize::MAX);
            (member.id, (lacks, member.capacity.saturating_sub(has)))
        };
        let counted = self.counted(0);
        counted.iter().filter(|member| !member.draining).map(room).collect()
    }

    /// Keeps those of the planned moves that begin with a preparation, and returns the others. `is_late`: there is no time
    /// left for preparations before this member must have handed over everything.
    pub fn warm_moves(
        &mut self,
        orders: Vec<Order>,
        is_late: impl Fn(Nonce) -> bool,
    ) -> Vec<Order> {
        self.warm.wanted.clear();
        if orders.is_empty() {
            return orders;
        }
        self.assign();
        let (given, mut rooms) = (self.given(), self.rooms());
        let mut cold = Vec::new();
        for order in orders {
            let (key, member) = (order.key.clone(), order.member);
            if is_late(member) {
                cold.push(order);
                continue;
            }
            if self.controls.warming.contains_key(key.as_str()) {
                continue;
            }
            let leaves = self.members.get(&member).is_some_and(|joined| joined.draining);
            let by_order = given.get(&key).copied();
            let is_ordered = self.controls.paused(&key).is_some();
            let by_number = !is_ordered && !self.places_keys();
            let to = if is_ordered {
                by_order
            } else if self.places_keys() {
                order.to.or_else(|| self.placed.get(&key).copied())
            } else {
                let may = |(id, (lacks, room)): &(&Nonce, &mut (isize, usize))| {
                    **id != member && *room > 0 && (leaves || *lacks > 0)
                };
                let others = rooms.iter_mut().filter(may);
                let most = others.max_by_key(|(id, (lacks, _))| (*lacks, Reverse(**id)));
                most.map(|(id, (lacks, room))| {
                    (*lacks, *room) = (*lacks - 1, *room - 1);
                    *id
                })
            };
            match to.filter(|to| *to != member && self.may_get(*to, &key)) {
                Some(to) => drop(self.warm.wanted.insert(key, (order, to))),
                // Members that stay keep what no other one has room for, as this node sees the pool.
                None if by_number && !leaves => {}
                None => cold.push(order),
            }
        }
        cold
    }

    /// Whether the move for which a member prepares must not be made any more.
    fn is_off(&self, key: &Key, warming: &Warming, warmups: Option<Warmups>) -> bool {
        let is_draining = self.members.get(&warming.from).is_some_and(|joined| joined.draining);
        let ordered = self.controls.paused(key).map(|said| said.to.is_some());
        let goes_elsewhere = match ordered {
            Some(true) => self.given().get(key).is_some_and(|to| *to != warming.to),
            Some(false) => true,
            None => self.holds_still() && !is_draining,
        };
        warmups.is_none() || goes_elsewhere
    }

    fn is_over(&self, key: &Key, warming: &Warming, warmups: Option<Warmups>, now: Moment) -> bool {
        let Some(place) = self.keys.get(key) else { return true };
        if place.fact.token > warming.token || !self.may_get(warming.to, key) {
            return true;
        }
        match place.fact.by {
            // It is left untaken, or it is kept for its last owner.
            By::Nobody => now.since(place.since) >= UNTAKEN || place.is_kept(now),
            By::Session(from) if from == warming.from => {
                !place.fact.asked && self.is_off(key, warming, warmups)
            }
            By::Session(_) | By::Other => true,
        }
    }

    /// What the node must store that is the home node of the sessions for which `here` holds.
    pub fn warm_steps(
        &self,
        here: impl Fn(Nonce) -> bool,
        warmups: Option<Warmups>,
        now: Moment,
        wall_ms: u64,
    ) -> WarmSteps {
        let mut all = WarmSteps::default();
        let mut standing = 0;
        for (key, warming) in self.warmings() {
            let was_prepared = self.warm.prepared.contains(&(key.clone(), warming.token));
            if !self.is_over(&key, warming, warmups, now) {
                standing += 1;
                if was_prepared && !warming.ready && here(warming.to) {
                    all.steps.push(WarmStep::Ready(key, warming.token));
                }
                continue;
            }
            let Warming { from, to, token, .. } = *warming;
            let ends = match (self.members.contains_key(&from), self.members.contains_key(&to)) {
                (true, _) => here(from),
                (false, true) => here(to),
                (false, false) => true,
            };
            if ends {
                let is_held =
                    |place: &Place| place.fact.by == By::Session(from) && !place.fact.asked;
                all.cancelled += u64::from(self.keys.get(&key).is_some_and(is_held));
                all.steps.push(WarmStep::End(key, token));
            }
        }
        let Some(Warmups { most, .. }) = warmups else { return all };
        let most = self.rules.preparations_at_a_time(most);
        for (key, (Order { member: from, .. }, to)) in &self.warm.wanted {
            if standing >= most {
                break;
            }
            let is_theirs =
                |place: &&Place| place.fact.by == By::Session(*from) && !place.fact.asked;
            let Some(place) = self.keys.get(key).filter(is_theirs) else { continue };
            if self.controls.warming.contains_key(key.as_str()) || !self.may_get(*to, key) {
                continue;
            }
            let (from, to, token) = (*from, *to, place.fact.token);
            let warming = Warming { from, to, token, at_ms: wall_ms, ready: false };
            standing += 1;
            all.steps.push(WarmStep::Begin(key.clone(), warming, most));
        }
        all
    }

    /// Notes that a member is prepared for these keys. Returns whether that is new and must be stored.
    pub fn note_prepared(&mut self, digest: Nonce, keys: &[Key]) -> bool {
        let mut is_new = false;
        for key in keys {
            let warming = self.controls.warming.get(key.as_str());
            let meant = warming.filter(|warming| warming.to == digest && !warming.ready);
            if let Some(token) = meant.map(|warming| warming.token) {
                is_new |= self.warm.prepared.insert((key.clone(), token));
            }
        }
        is_new
    }

    /// The preparations that are stored are others now.
    pub fn warm_changed(&mut self, now: Moment) {
        let Self { warm, controls, .. } = self;
        let is_known = |key: &Key, token: Token| {
            controls.warming.get(key.as_str()).is_some_and(|known| known.token == token)
        };
        warm.since.retain(|key, (token, _)| is_known(key, *token));
        warm.values.retain(|key, (token, _)| is_known(key, *token));
        warm.prepared.retain(|(key, token)| is_known(key, *token));
        warm.orders.retain(|key, _| controls.warming.contains_key(key.as_str()));
        for (name, warming) in &controls.warming {
            let Ok(key) = Key::new(name) else { continue };
            if let Some((order, _)) = warm.wanted.remove(&key) {
                warm.orders.insert(key.clone(), order);
            }
            warm.since.entry(key).or_insert((warming.token, now));
        }
    }

    /// The time that is left for a preparation, on this node's clock.
    fn warm_left(&self, key: &Key, timeout_ms: u64, now: Moment) -> Duration {
        let since = self.warm.since.get(key).map_or(now, |(_, since)| *since);
        (since + Duration::from_millis(timeout_ms)).since(now)
    }

    /// The leases that members at home here must be asked for now: those that prepare for them are prepared, or had their
    /// time for that.
    pub fn warm_due(
        &self,
        here: impl Fn(Nonce) -> bool,
        is_late: impl Fn(Nonce) -> bool,
        warmups: Option<Warmups>,
        now: Moment,
    ) -> Vec<Due> {
        let Some(Warmups { timeout_ms, .. }) = warmups else { return Vec::new() };
        let due = self.warmings().filter_map(|(key, warming)| {
            let Warming { from, ready, .. } = *warming;
            let is_held = |place: &Place| place.fact.by == By::Session(from) && !place.fact.asked;
            let waits = here(from)
                && self.keys.get(&key).is_some_and(is_held)
                && !self.is_over(&key, warming, warmups, now);
            let is_due =
                || ready || is_late(from) || self.warm_left(&key, timeout_ms, now).is_zero();
            let is_due = || self.rules.a_holder_is_asked_after_the_preparation(is_due());
            (waits && is_due()).then(|| {
                let planned = self.warm.orders.get(&key).cloned();
                let anew = || Order { member: from, key: key.clone(), shift: None, to: None };
                Due { order: planned.unwrap_or_else(anew), ready }
            })
        });
        due.collect()
    }

    /// The preparations by members for which `here` holds whose values must be read.
    pub fn unread(&self, here: impl Fn(Nonce) -> bool) -> Vec<(Key, Token)> {
        let unread = self.warmings().filter(|(key, warming)| {
            here(warming.to) && !self.warm.values.contains_key(key) && self.warm_to(key).is_some()
        });
        unread.map(|(key, warming)| (key, warming.token)).collect()
    }

    /// What a member is to prepare for.
    pub fn preparations(&self, digest: Nonce, timeout_ms: u64, now: Moment) -> Vec<Preparation> {
        let of_member = self
            .warmings()
            .filter(|(key, warming)| warming.to == digest && self.warm_to(key).is_some());
        let preparation = |(key, warming): (Key, &Warming)| {
            let (_, value) = self.warm.values.get(&key)?.clone();
            let holder = self.members.get(&warming.from);
            let owner = holder.map_or_else(Box::default, |joined| joined.owner.as_str().into());
            let address = holder.and_then(|joined| joined.announced.address.clone());
            let left = self.warm_left(&key, timeout_ms, now);
            Some(Preparation {
                token: warming.token,
                from: (owner, address),
                value,
                left_ms: u64::try_from(left.as_millis()).unwrap_or(u64::MAX),
                ready: warming.ready,
                key,
            })
        };
        of_member.filter_map(preparation).collect()
    }

    pub fn warm_view(&self) -> Vec<WarmView> {
        let view = |(key, warming): (Key, &Warming)| {
            let owner = |digest| self.members.get(&digest).map(|it| it.owner.as_str().into());
            let owners = [owner(warming.from), owner(warming.to)];
            // A holder that has handed it over has no more to hear.
            let asked = |place: &Place| place.fact.asked || place.fact.by == By::Nobody;
            let asked = self.keys.get(&key).is_some_and(asked);
            WarmView { key, warming: warming.clone(), owners, asked }
        };
        self.warmings().map(view).collect()
    }
}
