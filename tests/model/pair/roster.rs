//! Reads that take their time: of the key's record, of its session's, and of those of the nodes.
//!
//! A read shows what was there at some moment between its question and its answer. It begins with what is
//! there when it is asked for, and may be sampled anew, each record by itself, until it is answered.

use std::collections::BTreeMap;

use tenure::lease::{Input, Membership, Moment, NodeRecord, Nonce, Revision};

use super::{
    Bounds, KEY, NOW, OLDEST, SESSION, TwoNodes,
    node::{Node, loaded},
    store::revision_of,
    world::{Action, Broken, Event, World},
};
use crate::harness::ms;

/// A reading of all nodes' records that is under way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Scan {
    pub asked: Moment,
    pub found: BTreeMap<Nonce, NodeRecord>,
}

impl Node {
    /// What hides since when a record has been known: that is only asked by a reading that began before.
    pub fn heard(&self, recent: Moment) -> Moment {
        if self.scan.is_some() { NOW } else { recent }
    }

    /// Whether a reading of this record can teach it anything.
    fn minds(&self, record: &NodeRecord) -> bool {
        let known = self.membership.peers().get(record.incarnation);
        record.incarnation != self.membership.incarnation()
            && known.is_none_or(|peer| !peer.record.state.is_terminal())
    }
}

impl World {
    pub fn actions_of_reads(&self, at: usize, node: &Node, bounds: &Bounds, out: &mut Vec<Action>) {
        for which in [KEY, SESSION] {
            if let Some((_, read)) = node.reads[which].first() {
                out.push(Action::Answer(at, which));
                if *read != self.cells[which] {
                    out.push(Action::Sample(at, which));
                }
            }
        }
        if let Some(scan) = &node.scan {
            out.push(Action::Scanned(at));
            let fresh = |(nonce, record): &(&Nonce, &NodeRecord)| {
                node.minds(record) && scan.found.get(nonce) != Some(record)
            };
            out.extend(self.records.iter().filter(fresh).map(|(n, _)| Action::SampleNode(at, *n)));
        } else if bounds.slow_scans[at] {
            out.push(Action::Scan(at));
        }
        if let Some(asked) = &node.inquiry {
            out.push(Action::Inquired(at));
            if self.records[&asked.incarnation] != *asked {
                out.push(Action::SampleInquiry(at));
            }
        }
    }

    pub fn act_on_nodes(&mut self, model: &TwoNodes, action: &Action) {
        match *action {
            Action::Sample(at, which) => {
                let now = self.cells[which].clone();
                self.nodes[at].reads[which][0].1 = now;
            }
            Action::Scan(at) => self.scan(at),
            Action::SampleNode(at, nonce) => {
                let record = self.records[&nonce].clone();
                let scan = self.nodes[at].scan.as_mut().expect("offered only then");
                scan.found.insert(nonce, record);
            }
            Action::Scanned(at) => self.scanned(model, at),
            Action::SampleInquiry(at) => {
                let asked = self.nodes[at].inquiry.as_mut().expect("offered only then");
                *asked = self.records[&asked.incarnation].clone();
            }
            Action::Inquired(at) => self.inquired(model, at),
            _ => unreachable!("not about reads"),
        }
    }

    fn scan(&mut self, at: usize) {
        let mut found = self.records.clone();
        found.retain(|_, record| self.nodes[at].minds(record));
        self.nodes[at].scan = Some(Scan { asked: NOW, found });
    }

    /// A reading of all nodes' records that takes no time.
    pub fn watch(&mut self, model: &TwoNodes, at: usize) {
        self.scan(at);
        self.scanned(model, at);
    }

    fn scanned(&mut self, model: &TwoNodes, at: usize) {
        let Some(Scan { asked, mut found }) = self.nodes[at].scan.clone() else { return };
        // What it knows to be so forever is in every reading.
        let known = self.records.values().filter(|record| !self.nodes[at].minds(record));
        for record in known {
            found.entry(record.incarnation).or_insert_with(|| record.clone());
        }
        let stale = found
            .iter()
            .any(|(nonce, record)| self.nodes[at].minds(record) && self.records[nonce] != *record);
        let now = if model.faults.counts_from_before { asked } else { NOW };
        let mut found: Vec<_> =
            found.into_values().map(|record| (revision_of(&record), record)).collect();
        let membership = &mut self.nodes[at].membership;
        if model.faults.older_copy {
            found.iter_mut().for_each(|(_, record)| take_older(membership, record));
        }
        let findings = membership.read(&found, asked, now, Nonce::default);
        let mut gone = !findings.gone.is_empty();
        for (_, mut tombstone) in findings.dead {
            let mut before =
                NodeRecord { state: tenure::lease::NodeState::Alive, ..tombstone.clone() };
            before.nonce = Nonce::default();
            let there = self.records.get(&tombstone.incarnation) == Some(&before);
            if !there {
                model.saw(Event::TooLateToMarkDead);
            }
            if !there && !model.faults.blind_tombstone {
                continue;
            }
            if model.faults.own_instants {
                let span = tombstone.until.since(tombstone.written);
                (tombstone.written, tombstone.until) = (OLDEST, OLDEST + span);
            }
            self.write_terminal(tombstone.clone());
            self.nodes[at].membership.marked_dead(tombstone, Revision(2), now);
            gone = true;
        }
        for lost in findings.lost {
            self.inquire(model, at, lost);
        }
        if stale {
            model.saw(Event::StaleScan);
        }
        self.nodes[at].scan = None;
        self.made_known(model, at);
        if gone {
            self.tick(model, at);
        }
    }

    /// What the membership knows is everybody's.
    fn made_known(&mut self, model: &TwoNodes, at: usize) {
        let recent = model.recent();
        self.nodes[at].age_membership(ms(0), recent);
        self.nodes[at].publish();
    }

    /// A lease names a node that its own does not know.
    pub fn inquire(&mut self, model: &TwoNodes, at: usize, node: Nonce) {
        let Some(record) = self.records.get(&node).cloned() else {
            self.broken = Some(Broken::Homeless);
            return;
        };
        if self.nodes[at].inquiry.is_none() {
            self.nodes[at].inquiry = Some(record);
        }
        if !model.bounds.slow_scans[at] {
            self.inquired(model, at);
        }
    }

    fn inquired(&mut self, model: &TwoNodes, at: usize) {
        let Some(record) = self.nodes[at].inquiry.take() else { return };
        let revision = revision_of(&record);
        self.nodes[at].membership.marked_dead(record, revision, NOW);
        self.made_known(model, at);
        if model.bounds.slow_scans[at] {
            self.tick(model, at);
        }
    }

    /// What is known of the nodes has changed.
    fn tick(&mut self, model: &TwoNodes, at: usize) {
        self.step(model, at, KEY, Input::Tick);
        if model.bounds.session {
            self.step(model, at, SESSION, Input::Tick);
        }
    }

    /// The read of a lease's record is answered.
    pub fn answer(&mut self, model: &TwoNodes, at: usize, which: usize) {
        let (read_for, found) = self.nodes[at].reads[which].remove(0);
        if found != self.cells[which] {
            model.saw(Event::StaleRead);
        }
        let mine = self.nodes[at].flights[which].is_none();
        let nonce = found.as_ref().map(|(_, record)| record.nonce);
        let waited = self.nodes[at].leases[which].is_writing();
        self.step(model, at, which, Input::Loaded(read_for, Ok(loaded(&found))));
        let settled = mine && waited && !self.nodes[at].leases[which].is_writing();
        if settled
            && nonce.is_some_and(|nonce| nonce.0 / 64 == self.nodes[at].membership.incarnation().0)
        {
            model.saw(Event::Settled);
        }
    }
}

/// D of a node that was found dead, from the copy that was read before.
fn take_older(membership: &Membership, record: &mut NodeRecord) {
    if let Some(known) = membership.peers().get(record.incarnation)
        && record.state.is_terminal()
    {
        record.until = known.record.until;
    }
}
