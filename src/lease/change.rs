//! A change of ownership, as events tell it.

use serde::{Deserialize, Serialize};

use super::{Epoch, Nonce, Owner, Revision, Token};

/// What happened to a key. The short types of the event stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ChangeKind {
    /// A tenure began, or (with reason `revived`) goes on after it had run out.
    Granted,
    /// The owner gave the lease back.
    Released,
    /// The ttl ran out.
    Expired,
    /// An administrator ended the tenure.
    Revoked,
    /// The owner took its own lease anew; its earlier tenure ended.
    Reclaimed,
    /// The owner handed the lease over, to a named successor or to any; its tenure ended.
    Transferred,
    /// An administrator pinned the key.
    Pinned,
    /// An administrator took a pin off the key.
    Unpinned,
    /// The session that the tenure was held under ended.
    SessionEnded,
    /// The tenure that ended is being fenced; nobody is granted the key before that is confirmed.
    Fencing,
    /// Every fence of an ended tenure was confirmed.
    Fenced,
    /// A fence of an ended tenure failed for good.
    FenceFailed,
    /// An administrator struck the fences that were not confirmed.
    FenceSkipped,
    /// The lock-delay is over.
    Cooled,
    /// The holder was asked to hand the lease over.
    HandoverRequested,
    /// An administrator had the free key forgotten: its record goes, and its numbers begin anew.
    Forgotten,
}

impl ChangeKind {
    /// Every kind, in the order of its declaration.
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

    /// Whether a tenure ended with it.
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

    /// Whether anybody may be granted the key after it who was not before.
    #[must_use]
    pub fn may_open(self) -> bool {
        let opens = [Self::Fenced, Self::FenceFailed, Self::FenceSkipped, Self::Cooled];
        self.ends_tenure() || opens.contains(&self)
    }

    /// The kind as events, metrics and errors name it.
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

/// One entry of a key's history. A write carries those that it makes true; they become public when
/// it is committed, never before.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Change {
    /// What happened.
    pub kind: ChangeKind,
    /// The key's entries are numbered 1, 2, 3…
    pub seq: u64,
    /// Who holds the key after this change.
    pub owner: Option<Owner>,
    /// The key's token after this change; [`Token::OF_THIS_WRITE`] until the write is committed.
    pub token: Token,
    /// Who held the key before it, and under which token.
    pub previous: Option<(Owner, Token)>,
    /// Why, in the words of the protocol or of the administrator.
    pub reason: Option<Box<str>>,
    /// Which administrator, where it was one.
    pub actor: Option<Box<str>>,
    /// The digest of the session that the tenure is or was held under.
    pub session: Option<Nonce>,
}

impl Change {
    /// The change as committed by `revision`: a grant's token is known now. Every other kind carries
    /// its token as it is, and 0 on a key that was never held.
    pub fn resolve(&mut self, epoch: Epoch, revision: Revision) {
        if self.kind == ChangeKind::Granted {
            self.token = self.token.resolve(epoch, revision);
        }
    }
}
