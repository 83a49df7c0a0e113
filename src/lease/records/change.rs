//! A change of ownership, as events report it.

use serde::{Deserialize, Serialize};

use crate::lease::primitives::{Epoch, Nonce, Owner, Revision, Token};

/// What happened to a key: the short event types of the event stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ChangeKind {
    /// A tenure began, or (with the reason `revived`) an expired tenure goes on.
    Granted,
    /// The owner gave the lease back.
    Released,
    /// The ttl ran out.
    Expired,
    /// An administrator ended the tenure.
    Revoked,
    /// The owner took its own lease again; its earlier tenure ended.
    Reclaimed,
    /// The owner transferred the lease, to a named successor or to any; its tenure ended.
    Transferred,
    /// An administrator pinned the key.
    Pinned,
    /// An administrator removed a pin from the key.
    Unpinned,
    /// The session that kept the tenure ended.
    SessionEnded,
    /// The tenure ended and is being fenced; the key is not granted before the fence is confirmed.
    Fencing,
    /// Every fence of an ended tenure was confirmed.
    Fenced,
    /// A fence of an ended tenure failed for good.
    FenceFailed,
    /// An administrator skipped the fences that were not confirmed.
    FenceSkipped,
    /// The lock-delay, or the minimum hold, is over.
    Cooled,
    /// The holder was asked to hand the lease over.
    HandoverRequested,
    /// An administrator had the free key forgotten: its record is removed, and the numbers of its changes begin again.
    Forgotten,
}

impl ChangeKind {
    /// Every kind, in the order of declaration.
    pub const ALL: [Self; 16] = [
        Self::Granted,
        Self::Released,
        Self::Expired,
        Self::Revoked,
        Self::Reclaimed,
        Self::Transferred,
        Self::Pinned,
        Self::Unpinned,
        Self::SessionEnded,
        Self::Fencing,
        Self::Fenced,
        Self::FenceFailed,
        Self::FenceSkipped,
        Self::Cooled,
        Self::HandoverRequested,
        Self::Forgotten,
    ];

    /// Whether a tenure ends with it.
    #[must_use]
    pub fn ends_tenure(self) -> bool {
        matches!(
            self,
            Self::Released
                | Self::Expired
                | Self::Revoked
                | Self::Reclaimed
                | Self::Transferred
                | Self::SessionEnded
        )
    }

    /// Whether the key may be granted after it to a caller to whom it could not be granted before.
    #[must_use]
    pub fn may_open(self) -> bool {
        let opens = [Self::Fenced, Self::FenceFailed, Self::FenceSkipped, Self::Cooled];
        self.ends_tenure() || opens.contains(&self)
    }

    /// The name of the kind in events, metrics and errors.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Granted => "granted",
            Self::Released => "released",
            Self::Expired => "expired",
            Self::Revoked => "revoked",
            Self::Reclaimed => "reclaimed",
            Self::Transferred => "transferred",
            Self::Pinned => "pinned",
            Self::Unpinned => "unpinned",
            Self::SessionEnded => "session-ended",
            Self::Fencing => "fencing",
            Self::Fenced => "fenced",
            Self::FenceFailed => "fence-failed",
            Self::FenceSkipped => "fence-skipped",
            Self::Cooled => "cooled",
            Self::HandoverRequested => "handover-requested",
            Self::Forgotten => "forgotten",
        }
    }
}

/// One entry of a key's history. A write carries the changes that it causes. They become public when the write is
/// committed, never before.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Change {
    /// What happened: the short event type of the entry.
    pub kind: ChangeKind,
    /// The key's entries are numbered 1, 2, 3…
    pub seq: u64,
    /// The owner after this change.
    pub owner: Option<Owner>,
    /// The key's token after this change; [`Token::OF_THIS_WRITE`] until the write is committed.
    pub token: Token,
    /// The owner before this change, and its token.
    pub previous: Option<(Owner, Token)>,
    /// The reason, in the words of the protocol or of the administrator.
    pub reason: Option<Box<str>>,
    /// The administrator or the principal, where one caused the change.
    pub actor: Option<Box<str>>,
    /// The digest of the session that keeps or kept the tenure.
    pub session: Option<Nonce>,
}

impl Change {
    /// Completes the change with the `revision` that committed it: from now on the token of a grant is known. Every
    /// other kind already carries its token, which is 0 on a key that was never held.
    pub fn resolve(&mut self, epoch: Epoch, revision: Revision) {
        if self.kind == ChangeKind::Granted {
            self.token = self.token.resolve(epoch, revision);
        }
    }
}
