//! What the two nodes share: their records, and the key's.

use tenure::lease::{
    ChangeKind, NodeRecord, NodeState, Nonce, Renewal, Revision, State, Token, WriteEffect,
};

use super::{
    NOW, TICK_MS, TwoNodes,
    world::{Broken, Event, Fate, World},
};

impl World {
    pub fn revision(&self) -> Revision {
        self.cell.as_ref().map_or(Revision::ABSENT, |(revision, _)| *revision)
    }

    pub fn token(&self) -> Token {
        self.cell.as_ref().map_or(Token::default(), |(at, record)| record.token(*at))
    }

    pub fn meet(&mut self, model: &TwoNodes, at: usize, fate: Fate) {
        let Some(write) = self.nodes[at].flight.take() else { return };
        match fate {
            Fate::Landed => drop(self.land(model, write)),
            Fate::LandsLate => self.stray = Some(write),
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
        if node.keeper.is_leaving() {
            return;
        }
        let found = self.records.get(&node.keeper.incarnation());
        if found.is_some_and(|record| record.state.is_terminal()) {
            if self.incarnations < model.bounds.incarnations {
                self.incarnations += 1;
                node.keeper.reborn(
                    Nonce(u128::from(self.incarnations)),
                    crate::harness::EPOCH,
                    NOW,
                );
                node.publish();
                model.saw(Event::Reborn);
            }
            return;
        }
        let (_, record) = node.keeper.renewal(NOW, Nonce::default(), 0);
        self.records.insert(record.incarnation, record.clone());
        if node.keeper.renewed(record, Revision(1), NOW) == Renewal::Resumed {
            node.lease.void_promises(node.keeper.resumed());
        }
    }

    pub fn crash(&mut self, model: &TwoNodes, at: usize, fate: Fate) {
        self.crashes += 1;
        self.meet(model, at, fate);
        self.nodes[at].runs = false;
        self.nodes[at].forget_reads();
        self.nodes[at].news = false;
        for client in &mut self.clients {
            client.call = client.call.filter(|call| call.at != at);
        }
    }

    /// Compare-and-set; `None` is a conflict.
    pub fn land(&mut self, model: &TwoNodes, write: WriteEffect) -> Option<Revision> {
        if write.expected != self.revision() {
            return None;
        }
        let revision = Revision(self.revision().0 + 1);
        self.check(&write, revision);
        if let Some(event) = self.event_of(&write) {
            model.saw(event);
        }
        for node in self.nodes.iter_mut().filter(|node| node.runs) {
            node.news = write.record.node != node.keeper.incarnation();
        }
        self.cell = Some((revision, write.record));
        Some(revision)
    }

    fn check(&mut self, write: &WriteEffect, revision: Revision) {
        let there = self.cell.as_ref().map(|(_, record)| record);
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
        let (before, token) = (self.token(), record.token(revision));
        if granted && !revived && token <= before || (revived || !granted) && token != before {
            self.broken = Some(Broken::Tokens);
        }
    }

    fn event_of(&self, write: &WriteEffect) -> Option<Event> {
        let (_, before) = self.cell.as_ref()?;
        let other = before.state == State::Held && before.node != write.record.node;
        let home = self.records.get(&before.node);
        let dead = home.is_some_and(|record| record.state.is_terminal());
        match write.changes.first().map(|change| change.kind) {
            Some(ChangeKind::Expired) if other && dead => Some(Event::TakenOver),
            Some(ChangeKind::Expired) if before.floor_ms > TICK_MS => Some(Event::FloorMattered),
            Some(ChangeKind::Released) if other && !dead => Some(Event::ReleasedByConsent),
            None if other => Some(Event::Adopted),
            _ => None,
        }
    }
}

/// Living records have one revision, terminal ones another: every write is made on what is there.
pub fn revision_of(record: &NodeRecord) -> Revision {
    Revision(if record.state.is_terminal() { 2 } else { 1 })
}
