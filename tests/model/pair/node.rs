//! One node: its membership, and the shells of its leases.

use std::sync::Arc;

use tenure::lease::{
    Effect, Env, Inherited, Key, Lease, Loaded, Membership, Moment, NodeContext, NodeRecord, Nonce,
    Peers, ReadFor, Record, Revision, Token, WriteEffect,
};

use super::{
    Bounds, DIGEST, KEY, NODE_TTL_MS, NOW, OLDEST, SESSION, TICK_MS, TwoNodes, roster::Scan,
};
use crate::{
    harness::{EPOCH, ms},
    model::caller::Number,
};

/// What the store holds under a key.
pub type Found = Option<(Revision, Arc<Record>)>;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Node {
    /// Whether a process runs, awake or not.
    pub runs: bool,
    pub membership: Membership,
    /// What it last told its leases of the other nodes.
    pub peers: Arc<Peers>,
    pub leases: [Lease<Number>; 2],
    pub flights: [Option<WriteEffect>; 2],
    /// Reads of a lease that are not answered yet: what they would have shown when they were asked for.
    pub reads: [Vec<(ReadFor, Found)>; 2],
    /// The same for a read of all nodes' records, and for one of a single node's.
    pub scan: Option<Scan>,
    pub inquiry: Option<NodeRecord>,
    /// The feed has something for it.
    pub news: [bool; 2],
    /// A plugin works for it, to fence this tenure of the key.
    pub fencing: Option<Token>,
}

/// The end of D, as the leases of a node know it.
pub fn until(membership: &Membership, drained_answers: bool) -> Moment {
    if drained_answers && membership.is_leaving() {
        membership.record().until
    } else {
        membership.until()
    }
}

pub fn key_of(which: usize) -> Key {
    if which == SESSION { Key::of_session(DIGEST) } else { Key::new("k").unwrap() }
}

impl Node {
    /// A process starts.
    pub fn new(model: &TwoNodes, incarnation: Nonce, url: &str, there: &[Found; 2]) -> Self {
        let membership = Membership::new(incarnation, url, "", NODE_TTL_MS, EPOCH);
        let mut context = model.context.clone();
        (context.node, context.until) = (incarnation, Moment::ZERO);
        context.peers = Some(Arc::default());
        let mut fencing = None;
        let leases = [KEY, SESSION].map(|which| {
            let (key, mut nonces) = (key_of(which), Nonce::default);
            let mut env =
                Env { now: NOW, wall_ms: 0, key: &key, context: &context, nonces: &mut nonces };
            let inherited = Inherited::FromProcess(NOW);
            let (lease, effects) = Lease::recover(loaded(&there[which]), inherited, &mut env);
            for effect in effects {
                if let Effect::Fence(run) = effect {
                    fencing = Some(run.token);
                }
            }
            lease
        });
        Self {
            runs: true,
            membership,
            peers: Arc::default(),
            leases,
            flights: [None, None],
            reads: [Vec::new(), Vec::new()],
            scan: None,
            inquiry: None,
            news: [false; 2],
            fencing,
        }
    }

    /// What its leases are told of the node.
    pub fn context(&self, model: &TwoNodes) -> NodeContext {
        let mut context = model.context.clone();
        context.node = self.membership.incarnation();
        context.until = until(&self.membership, model.faults.drained_answers);
        context.resumed = self.membership.resumed();
        context.peers = Some(self.peers.clone());
        context
    }

    pub fn publish(&mut self) {
        if *self.peers != *self.membership.peers() {
            self.peers = Arc::new(self.membership.peers().clone());
        }
    }

    /// Its process is gone, and what it asked for.
    pub fn forget(&mut self) {
        self.runs = false;
        self.reads.iter_mut().for_each(Vec::clear);
        (self.scan, self.inquiry) = (None, None);
        (self.news, self.fencing) = ([false; 2], None);
    }

    /// No read of its takes longer than the bounds allow when time passes now.
    pub fn may_wait(&self, bounds: &Bounds) -> bool {
        let longest = NOW - ms(TICK_MS) * u32::from(bounds.scan_ticks);
        self.reads.iter().all(Vec::is_empty)
            && self.scan.as_ref().is_none_or(|scan| scan.asked > longest)
    }

    pub fn age_membership(&mut self, by: std::time::Duration, recent: Moment) {
        let heard = self.heard(recent);
        self.membership.age(by, OLDEST, recent, heard);
    }

    pub fn age(&mut self, oldest: Moment, recent: Moment) {
        let by = ms(TICK_MS);
        self.age_membership(by, recent);
        self.publish();
        for lease in &mut self.leases {
            lease.age(by, oldest);
            lease.for_records(|record| record.age(by, OLDEST));
        }
        for write in self.flights.iter_mut().flatten() {
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
