//! One node: its keeper, and the shell of one lease.

use std::sync::Arc;

use tenure::lease::{
    Env, Inherited, Keeper, Key, Lease, Loaded, Moment, NodeRecord, Nonce, Peers, Record, Revision,
    Terms, WriteEffect,
};

use super::{Bounds, NODE_TTL_MS, NOW, OLDEST, TICK_MS, TwoNodes, roster::Scan};
use crate::{
    harness::{EPOCH, ms},
    model::caller::Number,
};

/// What the store holds for the key.
pub type Found = Option<(Revision, Arc<Record>)>;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Node {
    /// Whether a process runs, awake or not.
    pub runs: bool,
    pub keeper: Keeper,
    /// What it last told its lease of the other nodes.
    pub peers: Arc<Peers>,
    pub lease: Lease<Number>,
    pub flight: Option<WriteEffect>,
    /// Reads of the lease that are not answered yet: what they would have shown when they were asked for.
    pub reads: Vec<Found>,
    /// The same for a read of all nodes' records, and for one of a single node's.
    pub scan: Option<Scan>,
    pub inquiry: Option<NodeRecord>,
    /// The feed has something for it.
    pub news: bool,
}

/// The end of D, as the lease of a node knows it.
pub fn until(keeper: &Keeper, drained_answers: bool) -> Moment {
    if drained_answers && keeper.is_leaving() { keeper.record().until } else { keeper.until() }
}

impl Node {
    /// A process starts.
    pub fn new(model: &TwoNodes, incarnation: Nonce, url: &str, there: &Found) -> Self {
        let keeper = Keeper::new(incarnation, url, "", NODE_TTL_MS, EPOCH);
        let mut terms = model.terms.clone();
        (terms.node, terms.until) = (incarnation, Moment::ZERO);
        terms.peers = Some(Arc::default());
        let key = Key::new("k").unwrap();
        let mut nonces = Nonce::default;
        let mut env = Env { now: NOW, wall_ms: 0, key: &key, terms: &terms, nonces: &mut nonces };
        let inherited = Inherited::FromProcess(NOW);
        let (lease, _) = Lease::recover(loaded(there), inherited, &mut env);
        Self {
            runs: true,
            keeper,
            peers: Arc::default(),
            lease,
            flight: None,
            reads: Vec::new(),
            scan: None,
            inquiry: None,
            news: false,
        }
    }

    /// What its lease is told of the node.
    pub fn terms(&self, model: &TwoNodes) -> Terms {
        let mut terms = model.terms.clone();
        terms.node = self.keeper.incarnation();
        terms.until = until(&self.keeper, model.sins.drained_answers);
        terms.resumed = self.keeper.resumed();
        terms.peers = Some(self.peers.clone());
        terms
    }

    pub fn publish(&mut self) {
        if *self.peers != *self.keeper.peers() {
            self.peers = Arc::new(self.keeper.peers().clone());
        }
    }

    /// Its process is gone, and what it asked for.
    pub fn forget_reads(&mut self) {
        self.reads.clear();
        (self.scan, self.inquiry) = (None, None);
    }

    /// No read of its takes longer than the bounds allow when time passes now.
    pub fn may_wait(&self, bounds: &Bounds) -> bool {
        let longest = NOW - ms(TICK_MS) * u32::from(bounds.scan_ticks);
        self.reads.is_empty() && self.scan.as_ref().is_none_or(|scan| scan.asked > longest)
    }

    pub fn age_keeper(&mut self, by: std::time::Duration, recent: Moment) {
        let heard = self.heard(recent);
        self.keeper.age(by, OLDEST, recent, heard);
    }

    pub fn age(&mut self, oldest: Moment, recent: Moment) {
        let by = ms(TICK_MS);
        self.age_keeper(by, recent);
        self.publish();
        self.lease.age(by, oldest);
        self.lease.for_records(|record| record.age(by, OLDEST));
        if let Some(write) = &mut self.flight {
            write.record.age(by, OLDEST);
        }
        if let Some(scan) = &mut self.scan {
            scan.asked = scan.asked - by;
            scan.found.values_mut().for_each(|record| record.age(by, OLDEST));
        }
        self.inquiry.iter_mut().for_each(|record| record.age(by, OLDEST));
    }
}

pub fn loaded(found: &Found) -> Loaded {
    match found {
        None => Loaded::Absent,
        Some((revision, record)) => Loaded::Record(*revision, record.clone()),
    }
}
