//! One node: its keeper, and the shell of one lease.

use std::sync::Arc;

use tenure::lease::{
    Env, Inherited, Keeper, Key, Lease, Loaded, Moment, Nonce, Peers, Record, Revision, Terms,
    WriteEffect,
};

use super::{NODE_TTL_MS, NOW, OLDEST, RECENT, TICK_MS, TwoNodes};
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
            news: false,
        }
    }

    /// What its lease is told of the node.
    pub fn terms(&self, model: &TwoNodes) -> Terms {
        let mut terms = model.terms.clone();
        terms.node = self.keeper.incarnation();
        terms.until = until(&self.keeper, model.drained_answers);
        terms.resumed = self.keeper.resumed();
        terms.peers = Some(self.peers.clone());
        terms
    }

    pub fn publish(&mut self) {
        if *self.peers != *self.keeper.peers() {
            self.peers = Arc::new(self.keeper.peers().clone());
        }
    }

    pub fn age(&mut self, oldest: Moment) {
        let by = ms(TICK_MS);
        self.keeper.age(by, OLDEST, RECENT);
        self.publish();
        self.lease.age(by, oldest);
        self.lease.for_records(|record| record.age(by, OLDEST));
        if let Some(write) = &mut self.flight {
            write.record.age(by, OLDEST);
        }
        for (_, record) in self.reads.iter_mut().flatten() {
            record.age(by, OLDEST);
        }
    }
}

pub fn loaded(found: &Found) -> Loaded {
    match found {
        None => Loaded::Absent,
        Some((revision, record)) => Loaded::Record(*revision, record.clone()),
    }
}
