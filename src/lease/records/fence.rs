//! What an ended tenure leaves in the record: its pending fences and the lock-delay.

use serde::{Deserialize, Serialize};

use super::change::ChangeKind;
use crate::lease::{
    policy::{FenceWhen, OnFenceFailure},
    primitives::{Nonce, Owner, Token},
};

/// How many ended tenures of one key may have fences that run after the next grant. With more of them, the key is not
/// granted until one of them is confirmed.
pub const MAX_LATE_FENCES: usize = 4;

/// The fences of one ended tenure.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Fence {
    /// The tenure's token.
    pub token: Token,
    /// Who held it.
    pub owner: Owner,
    /// How it ended.
    pub reason: ChangeKind,
    /// The session that kept it.
    pub session: Option<Nonce>,
    /// When they run.
    pub when: FenceWhen,
    /// What happens when one fails for good.
    pub on_failure: OnFenceFailure,
    /// The time that each plugin has to confirm, in milliseconds.
    pub timeout_ms: u64,
    /// The plugins that have not confirmed.
    pub pending: Box<[Box<str>]>,
    /// The plugins among them that failed for good: the key waits for an administrator.
    pub failed: Box<[Box<str>]>,
}

impl Fence {
    /// Whether the key must not be granted before this fence is confirmed.
    pub(super) fn blocks(&self) -> bool {
        self.when == FenceWhen::BeforeGrant
            || (!self.failed.is_empty() && self.on_failure == OnFenceFailure::Block)
    }
}

/// The pending fences and the lock-delay that an ended tenure left.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Aftermath {
    /// The lock-delay: how long the key stays shut, in milliseconds from `written` or from the restart after it.
    pub cooling_ms: u64,
    /// Fences that are not confirmed, oldest first.
    pub fences: Vec<Fence>,
}
