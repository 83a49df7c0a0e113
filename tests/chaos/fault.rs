//! The twelve faults, and what stands for them where a store has no such thing.

use serde::{Deserialize, Serialize};

use crate::stores::Kind;

/// What is done to a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fault {
    /// SIGSTOP of a node, of a process of workers, or of the leading server of the store, for up to three ttls.
    Stop,
    /// kill -9 of one of them, which is started again after a while.
    Kill,
    /// One node is cut off from the store.
    CutOff,
    /// One node is cut off from the workers and the other nodes, not from the store.
    Island,
    /// In one direction alone: requests pass and answers do not, or a node is heard by nobody; or two nodes do
    /// not reach each other, and both reach the third.
    OneWay,
    /// What a place sends and is sent arrives late, and in another order.
    Delay,
    /// Of that, a part is lost.
    Loss,
    /// A node's wall clock is set, forward or back, by two seconds or a year, and set back later.
    Clock,
    /// Every node is stopped and started again, one after the other.
    Roll,
    /// The leader of the stream has to give up its place.
    Leader,
    /// The store goes back to what it held some time ago. It freezes, until an operator raises the epoch.
    Restore,
    /// The disk of a server is full for a while.
    FullDisk,
}

impl Fault {
    pub const ALL: [Self; 12] = [
        Self::Stop,
        Self::Kill,
        Self::CutOff,
        Self::Island,
        Self::OneWay,
        Self::Delay,
        Self::Loss,
        Self::Clock,
        Self::Roll,
        Self::Leader,
        Self::Restore,
        Self::FullDisk,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::Kill => "kill",
            Self::CutOff => "cut-off",
            Self::Island => "island",
            Self::OneWay => "one-way",
            Self::Delay => "delay",
            Self::Loss => "loss",
            Self::Clock => "clock",
            Self::Roll => "roll",
            Self::Leader => "leader",
            Self::Restore => "restore",
            Self::FullDisk => "full-disk",
        }
    }

    /// What is done in its place, where this kind of store has no such thing.
    pub fn stand_in(self, kind: Kind) -> Option<&'static str> {
        match (self, kind) {
            (Self::CutOff, Kind::Embedded) => Some("cut off from half of the workers"),
            (Self::Leader, Kind::Embedded) => Some("the node is killed and started at once"),
            (Self::Leader, Kind::Dynamodb) => Some("the endpoint is killed and started at once"),
            (Self::Restore, Kind::Embedded) => Some("restored from a backup, by the command"),
            _ => None,
        }
    }
}
