//! What nodes and members do: nodes plan and ask, members prepare, hand over and call for their shares.

use crate::{
    actor::pools::{fact::Cooling, order::Order, pool::Joined},
    lease::{Epoch, Key, Nonce, PoolOrder, Revision, Token},
};

use super::{DAMPING, Member, Parked, Truth, World};

impl World {
    pub(super) fn plan(&mut self, node: usize) {
        let (here, now) = (self.here(node), self.now());
        let pool = &mut self.nodes[node].pool;
        pool.note_versions(now, self.mixed_versions);
        pool.judge(now);
        pool.assign_again();
        let damping = pool.damping(DAMPING);
        let proposal = pool.propose(&here, |_| true, now, damping);
        pool.note_balance(&proposal, now);
        pool.is_rebalancing(proposal.moves, now);
        let mut orders = pool.paused_orders(&here);
        orders.extend(proposal.orders);
        if self.warmups.is_some() {
            orders = pool.warm_moves(orders, |_| false);
        }
        orders.iter().for_each(|order| self.ask(node, order));
    }

    fn ask(&mut self, node: usize, order: &Order) {
        let Order { member, key, .. } = order;
        let truth = &self.keys[key];
        if truth.by != Some(*member) || truth.leaves.is_some() {
            return;
        }
        let revision = truth.revision;
        let leaves = self.round + 1 + self.draw(3);
        self.change(node, key, Cooling::Over, |truth| {
            (truth.leaves, truth.was_asked) = (Some(leaves), true);
        });
        // The node may get the answer when another member has the key already.
        let (comes, token) = (self.round + self.draw(6), Token::of(Epoch(1), Revision(revision)));
        self.answers.push((comes, node, key.clone(), token));
    }

    /// Nodes get answers to their requests.
    pub(super) fn answer(&mut self) {
        let round = self.round;
        for (_, node, key, token) in self.answers.extract_if(.., |(comes, ..)| *comes <= round) {
            self.nodes[node].pool.asked(&key, token);
        }
    }

    pub(super) fn warm(&mut self, node: usize) {
        let Some(warmups) = self.warmups else { return };
        let (here, now) = (self.here(node), self.now());
        let steps = self.nodes[node].pool.warm_steps(&here, self.warmups, now, 0).steps;
        if !steps.is_empty() {
            self.store(node, &PoolOrder::Warm(steps));
        }
        let due = self.nodes[node].pool.warm_due(&here, |_| false, self.warmups, now);
        for due in due {
            let key = &due.order.key;
            if let Some(warming) = self.stored.warming.get(key.as_str()) {
                let took = self.round - self.began[&(key.clone(), warming.token)];
                if !warming.ready && took * 1_000 < warmups.timeout_ms {
                    self.fault(format!("{key} was asked for {took} s after the preparation began"));
                }
            }
            self.ask(node, &due.order);
        }
        for (key, warming) in self.stored.warming.clone() {
            let runs = |member: &&Member| member.node == node && member.dies.is_none();
            if self.members.get(&warming.to).filter(runs).is_some() && self.draw(3) == 0 {
                let key = Key::new(&key).expect("a key");
                self.nodes[node].pool.note_prepared(warming.to, &[key]);
            }
        }
    }

    pub(super) fn hand_over(&mut self) {
        let leaves = |truth: &Truth| truth.leaves.is_some_and(|leaves| leaves <= self.round);
        let due = self.keys.iter().filter(|(_, truth)| leaves(truth));
        let due: Vec<_> = due.filter_map(|(key, truth)| Some((key.clone(), truth.by?))).collect();
        for (key, by) in due {
            let Member { node, dies, .. } = self.members[&by];
            if dies.is_none() {
                self.change(node, &key, Cooling::Over, |truth| {
                    (truth.by, truth.leaves, truth.kept_until) = (None, None, 0);
                });
            }
        }
    }

    /// A member's call for its share, at its home node.
    pub(super) fn call(&mut self, digest: Nonce) {
        let Some(member) = self.members.get_mut(&digest) else { return };
        let (node, parked) = (member.node, member.parked.take());
        let runs = member.dies.is_none() && !member.joined.draining;
        let pool = &mut self.nodes[node].pool;
        if let Some(Parked { places, taking }) = parked {
            if taking {
                pool.takes_no_more(digest);
            }
            pool.give_back(digest, places);
        }
        if !runs {
            return;
        }
        pool.assign();
        let mut given = pool.to_take(digest, &[]);
        given.extend(pool.warm_to_take(digest, &[]));
        if given.into_iter().filter(|key| self.grant(key, digest)).count() > 0 {
            return;
        }
        let pool = &mut self.nodes[node].pool;
        let (places, taking) = pool.reserve(digest, &[], usize::MAX);
        if places == 0 {
            return;
        }
        let (former, inherited) = (pool.former(digest, &[]), pool.inherits(digest));
        pool.assign();
        let mut free = pool.unheld(digest);
        free.retain(|key| !former.contains(key));
        free.sort_unstable();
        self.chance.shuffle(&mut free);
        let mut taken = 0;
        for key in former {
            taken += usize::from(taken < places && self.grant(&key, digest));
        }
        let mut left = places.saturating_sub(taken.max(inherited));
        for key in free {
            left -= usize::from(left > 0 && self.grant(&key, digest));
        }
        // It waits for the next one.
        let pool = &mut self.nodes[node].pool;
        pool.give_back(digest, places - 1);
        self.members.get_mut(&digest).expect("it is there").parked =
            Some(Parked { places: 1, taking });
    }

    /// The store decides whether a key is granted.
    fn grant(&mut self, key: &Key, digest: Nonce) -> bool {
        let Member { joined, node, .. } = &self.members[&digest];
        let (owner, node, truth) = (joined.owner.clone(), *node, &self.keys[key]);
        let is_its_own = truth.owner.as_ref() == Some(&owner);
        let is_free = truth.by.is_none() && truth.kept_until <= self.round;
        if truth.by == Some(digest) || !is_free && !is_its_own {
            return false;
        }
        let (is_first, was_asked) = (truth.owner.is_none(), truth.was_asked);
        self.judge(key, &joined.clone(), is_its_own || is_first, was_asked);
        if !is_first && !is_its_own {
            *self.moves.entry(key.clone()).or_default() += 1;
        }
        self.revision += 1;
        let revision = self.revision;
        let next = owner.clone();
        self.change(node, key, Cooling::Over, |truth| {
            (truth.by, truth.owner, truth.revision) = (Some(digest), Some(next), revision);
            (truth.leaves, truth.was_asked) = (None, false);
        });
        let (token, now) = (Token::of(Epoch(1), Revision(revision)), self.now());
        self.nodes[node].pool.granted(key, digest, token, now);
        if let Some(most) = self.most.filter(|_| self.guards[1] == 0) {
            let held = self.held(&owner);
            if held > most {
                self.fault(format!("{owner} got its lease {held}, {most} are its share"));
            }
        }
        true
    }

    /// A member is about to be granted a key, which is or was its own or nobody's, or whose holder was asked for it.
    fn judge(&mut self, key: &Key, joined: &Joined, is_own: bool, was_asked: bool) {
        let Joined { owner, announced, .. } = joined;
        if announced.unready {
            self.fault(format!("{owner} got {key}, and is not ready"));
        }
        if self.round <= self.ordered + self.late {
            // Some nodes may not know the orders that stand.
            return;
        }
        if self.stored.frozen.is_some() && !is_own && !was_asked {
            self.fault(format!("{owner} got {key} in a frozen pool"));
        }
        if self.stored.is_cordoned(owner) && !is_own {
            self.fault(format!("{owner} got {key}, and is cordoned"));
        }
        if self.stored.paused(key).is_some() {
            self.fault(format!("{owner} got {key}, which is paused"));
        }
    }
}
