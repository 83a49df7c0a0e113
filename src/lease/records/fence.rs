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
    /// The token of the tenure that ended.
    pub token: Token,
    /// The owner of the tenure that ended.
    pub owner: Owner,
    /// The change that ended the tenure, such as [`ChangeKind::Expired`].
    pub reason: ChangeKind,
    /// The session that kept it.
    pub session: Option<Nonce>,
    /// Whether the plugins run before or after the next grant of the key.
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
    /// Nothing is awaited from the plugin any more.
    pub(in crate::lease) fn settled_by(&mut self, plugin: &str) {
        let rest = self.pending.iter().filter(|pending| &***pending != plugin);
        self.pending = rest.cloned().collect();
    }

    /// The plugin failed for good, and the key waits for an administrator.
    pub(in crate::lease) fn failed_at(&mut self, plugin: &str) {
        let others = self.failed.iter().filter(|failed| &***failed != plugin).cloned();
        self.failed = others.chain([Box::from(plugin)]).collect();
    }
}

/// The pending fences and the lock-delay that an ended tenure left.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct FencesAndDelay {
    /// How long the key stays shut to others, in milliseconds from `written` or from the restart after it: the
    /// lock-delay, or while the key is held, the rest of its minimum hold.
    pub cooling_ms: u64,
    /// Fences that are not confirmed, oldest first.
    pub fences: Vec<Fence>,
}
