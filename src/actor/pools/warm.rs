//! What is known of keys that members prepare for.

use std::collections::{BTreeMap, BTreeSet};

use super::order::Order;
use crate::{
    clock::HashMap,
    lease::{Key, Moment, Nonce, Token, WarmStep, Warming},
};

/// What this node knows of the preparations of a pool, besides what is stored.
#[derive(Clone, Default)]
pub struct WarmState {
    /// The moves that are planned here and that begin with a preparation by this member.
    pub wanted: BTreeMap<Key, (Order, Nonce)>,
    /// The plans by which preparations began here.
    pub orders: HashMap<Key, Order>,
    /// Since when each preparation is known here.
    pub since: HashMap<Key, (Token, Moment)>,
    /// The values of the keys that members at home here prepare for.
    pub values: HashMap<Key, (Token, Option<Box<str>>)>,
    /// What members at home here said that they are prepared for.
    pub prepared: BTreeSet<(Key, Token)>,
}

/// A lease whose holder must be asked for it, after a preparation.
pub struct Due {
    pub order: Order,
    /// The member that prepares said that it is prepared.
    pub ready: bool,
}

/// A key that a member is to prepare for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Preparation {
    /// The key.
    pub key: Key,
    /// The token of the tenure that is to be handed over.
    pub token: Token,
    /// The owner that holds the key, and where it serves its keys.
    pub from: (Box<str>, Option<Box<str>>),
    /// The value of the key when the preparation began.
    pub value: Option<Box<str>>,
    /// The time that is left for it, in milliseconds.
    pub left_ms: u64,
    /// The member said that it is prepared, and that is stored.
    pub ready: bool,
}

/// A preparation as shown to operators.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WarmView {
    /// The key.
    pub key: Key,
    /// The preparation.
    pub warming: Warming,
    /// The owners of the two members; `None` for one that is gone.
    pub owners: [Option<Box<str>>; 2],
    /// The holder was asked to hand the key over.
    pub asked: bool,
}

/// The changes of the preparations of a pool that this node must store.
#[derive(Debug, Default)]
pub struct WarmSteps {
    pub steps: Vec<WarmStep>,
    /// How many of them end a preparation whose holder was never asked.
    pub cancelled: u64,
}
