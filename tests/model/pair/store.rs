//! What the two nodes share: their records, the key's, and its session's.

use tenure::lease::{
    ChangeKind, Inquiry, KeyState, NodeRecord, NodeState, Nonce, Renewal, Revision, Token,
    WriteEffect,
};

use super::{
    DIGEST, KEY, NOW, SESSION, TICK_MS, TwoNodes,
    node::{Found, loaded},
    world::{Broken, Event, Fate, World},
};

/// The token of what is there.
fn token_of(found: &Found) -> Token {
    found.as_ref().map_or(Token::default(), |(at, record)| record.token(*at))
}

impl World {
    pub fn revision(&self, which: usize) -> Revision {
        self.cells[which].as_ref().map_or(Revision::ABSENT, |(revision, _)| *revision)
    }

    /// Whether a token is that of the tenure which the store holds.
    pub fn is_durable(&self, which: usize, token: Token) -> bool {
        let held =
            self.cells[which].as_ref().is_some_and(|(_, there)| there.state == KeyState::Held);
        held && token == token_of(&self.cells[which])
    }

    /// Whether the session's tombstone is durable.
    pub fn session_is_dead(&self) -> bool {
        Inquiry::of(DIGEST, &loaded(&self.cells[SESSION])).is_over()
    }

    pub fn meet(&mut self, model: &TwoNodes, at: usize, which: usize, fate: Fate) {
        let Some(write) = self.nodes[at].flights[which].take() else { return };
        match fate {
            Fate::Landed => drop(self.land(model, which, write)),
            Fate::LandsLate => self.stray = Some((which, write)),
            Fate::Lost => {}
        }
    }

    pub fn write_terminal(&mut self, record: NodeRecord) {
        if let Some(there) = self.records.get_mut(&record.incarnation)
            && there.state == NodeState::Alive
        {
            // Its compare-and-set is against the very record that is there.
            *there = record;
        }
    }

    pub fn renew(&mut self, model: &TwoNodes, at: usize) {
        let node = &mut self.nodes[at];
        if node.membership.is_leaving() {
            return;
        }
        let found = self.records.get(&node.membership.incarnation());
        if found.is_some_and(|record| record.state.is_terminal()) {
            if self.incarnations < model.bounds.incarnations {
                self.incarnations += 1;
                node.membership.reborn(
                    Nonce(u128::from(self.incarnations)),
                    crate::harness::EPOCH,
                    NOW,
                );
                node.publish();
                model.saw(Event::Reborn);
            }
            return;
        }
        let (_, record) = node.membership.renewal(NOW, Nonce::default(), 0);
        self.records.insert(record.incarnation, record.clone());
        if node.membership.renewed(record, Revision(1), NOW) == Renewal::Resumed {
            let resumed = node.membership.resumed();
            node.leases.iter_mut().for_each(|lease| lease.extend_by_one_ttl(resumed));
        }
    }

    pub fn crash(&mut self, model: &TwoNodes, at: usize, fates: [Fate; 2]) {
        self.crashes += 1;
        for which in [KEY, SESSION] {
            self.meet(model, at, which, fates[which]);
        }
        self.nodes[at].forget();
        for client in &mut self.clients {
            client.call = client.call.filter(|call| call.at != at);
        }
        self.session.forsaken(at);
    }

    /// Compare-and-set; `None` is a conflict.
    pub fn land(&mut self, model: &TwoNodes, which: usize, write: WriteEffect) -> Option<Revision> {
        if write.expected != self.revision(which) {
            return None;
        }
        let revision = Revision(self.revision(which).0 + 1);
        self.check(which, &write, revision);
        if which == KEY {
            self.check_fences_and_delay(model, &write);
        } else if self.session_is_dead() && write.record.state == KeyState::Held {
            self.broken = Some(Broken::Risen);
        }
        if let Some(event) = self.event_of(which, &write) {
            model.saw(event);
        }
        for node in self.nodes.iter_mut().filter(|node| node.runs) {
            node.news[which] = write.record.node != node.membership.incarnation();
        }
        self.cells[which] = Some((revision, write.record));
        Some(revision)
    }

    fn check(&mut self, which: usize, write: &WriteEffect, revision: Revision) {
        let there = self.cells[which].as_ref().map(|(_, record)| record);
        let mut seq = there.map_or(0, |record| record.seq);
        let mut owner = there.and_then(|record| record.tenure.as_ref().map(|t| t.owner.clone()));
        let mut holes = false;
        for change in &write.changes {
            seq += 1;
            owner.clone_from(&change.owner);
            holes |= change.seq != seq;
        }
        let record = &write.record;
        if holes || record.seq != seq || owner != record.tenure.as_ref().map(|t| t.owner.clone()) {
            self.broken = Some(Broken::History);
        }
        let granted = matches!(write.changes.last(), Some(c) if c.kind == ChangeKind::Granted);
        let revived = granted && write.changes.last().is_some_and(|c| c.reason.is_some());
        let (before, token) = (token_of(&self.cells[which]), record.token(revision));
        if granted && !revived && token <= before || (revived || !granted) && token != before {
            self.broken = Some(Broken::Tokens);
        }
    }

    /// I5 and I6: what lies between the end of a tenure of the key and the next grant.
    fn check_fences_and_delay(&mut self, model: &TwoNodes, write: &WriteEffect) {
        let dead = self.session_is_dead();
        for change in &write.changes {
            let willing = matches!(change.kind, ChangeKind::Released | ChangeKind::Transferred);
            match change.kind {
                kind if kind.ends_tenure() && !willing => {
                    if change.session.is_some() && !dead {
                        self.broken = Some(Broken::BeforeTombstone);
                    }
                    let token = change.previous.as_ref().map(|(_, token)| *token);
                    self.fence = token.filter(|_| model.bounds.fence).map(|token| (token, false));
                }
                ChangeKind::Fenced => {
                    if self.fence.is_none_or(|(_, confirmed)| !confirmed) {
                        self.broken = Some(Broken::Unfenced);
                    }
                    self.fence = None;
                    model.saw(Event::Fenced);
                }
                ChangeKind::Granted => {
                    if self.fence.is_some() {
                        self.broken = Some(Broken::Unfenced);
                    }
                    if change.session.is_some() && dead {
                        model.saw(Event::LandedAfterTombstone);
                    }
                }
                _ => {}
            }
        }
    }

    fn event_of(&self, which: usize, write: &WriteEffect) -> Option<Event> {
        let (_, before) = self.cells[which].as_ref()?;
        let other = before.state == KeyState::Held && before.node != write.record.node;
        let home = self.records.get(&before.node);
        let dead = home.is_some_and(|record| record.state.is_terminal());
        match write.changes.first().map(|change| change.kind) {
            Some(ChangeKind::Expired) if other && dead => Some(Event::TakenOver),
            Some(ChangeKind::Expired) if before.floor_ms > TICK_MS => Some(Event::FloorMattered),
            Some(ChangeKind::Released) if other && !dead => Some(Event::ReleasedByConsent),
            Some(ChangeKind::SessionEnded) if other && dead => Some(Event::SweptElsewhere),
            None if other && which == SESSION => Some(Event::SessionAdopted),
            None if other => Some(Event::Adopted),
            _ => None,
        }
    }
}

/// Living records have one revision, terminal ones another: every write is made on what is there.
pub fn revision_of(record: &NodeRecord) -> Revision {
    Revision(if record.state.is_terminal() { 2 } else { 1 })
}
