//! The durable record of one key, and its self-checking form.

use serde::{Deserialize, Serialize};

use super::{
    Bond, ChangeKind, Epoch, Fence, Handover, Moment, Nonce, Owner, Revision, SessionSpec, Token,
    codec,
};

/// The most request ids that a record remembers.
pub const MAX_REQUEST_MARKS: usize = 4;

/// The version of the form that this program writes.
const VERSION: u8 = 5;
/// The earlier forms that it reads: without [`Record::spec`], and also without [`Record::handover`].
const BEFORE_SPEC: u8 = 4;
const BEFORE_HANDOVER: u8 = 3;

/// The state of a key, as stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum State {
    /// The key is not held.
    Free,
    /// `tenure` holds the key.
    Held,
    /// The key is offered to the owner that `offer` names.
    Offered,
    /// The last tenure ended, and a fence is not confirmed yet.
    Fencing,
    /// The last tenure ended, and the lock-delay is not over.
    Cooling,
}

impl State {
    /// The name of the state in the API.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Free => "free",
            Self::Held => "held",
            Self::Offered => "offered",
            Self::Fencing => "fencing",
            Self::Cooling => "cooling",
        }
    }
}

/// The time from a grant to its end.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Tenure {
    /// The nonce of the grant. The lease id is derived from it.
    pub grant_nonce: Nonce,
    /// The owner.
    pub owner: Owner,
    /// The fencing token, or [`Token::OF_THIS_WRITE`] in the record of the grant itself.
    pub token: Token,
    /// The ttl in milliseconds: how long a grant or heartbeat keeps the lease.
    pub ttl_ms: u64,
    /// Wall clock at the grant, milliseconds since 1970; for people only.
    pub acquired_at_ms: u64,
    /// The session that keeps the tenure in place of its own heartbeats.
    pub bond: Option<Box<Bond>>,
}

/// A tenure that is over. It is kept so that its holder can be told why, and so that it can be revived.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Ended {
    /// The tenure as it was.
    pub tenure: Tenure,
    /// How it ended.
    pub reason: ChangeKind,
    /// Wall clock at the end, milliseconds since 1970; for people only.
    pub ended_at_ms: u64,
    /// Its resource was fenced or may have been, so it cannot be revived.
    pub fenced: bool,
}

/// An offer of the key to one successor.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Offer {
    /// The owner to whom the key is offered.
    pub to: Owner,
    /// How long the offer stands, in milliseconds from `written` or from the restart after it.
    pub span_ms: u64,
}

/// The pending fences and the lock-delay that an ended tenure left.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Aftermath {
    /// The lock-delay: how long the key stays shut, in milliseconds from `written` or from the restart after it.
    pub cooling_ms: u64,
    /// Fences that are not confirmed, oldest first.
    pub fences: Vec<Fence>,
}

/// An administrator's revocation: the tenure ends when its last promise has run out.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Revocation {
    /// The reason.
    pub reason: Box<str>,
    /// The administrator.
    pub actor: Box<str>,
}

/// A request id that was granted, kept so that a repeated call is never granted twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RequestMark {
    /// Digest of the request id.
    pub id: u128,
    /// Digest of the rest of the request.
    pub body: u64,
    /// The grant that the request got.
    pub grant_nonce: Nonce,
}

/// The record of one key. It changes in the store only when ownership, value, ttl or pins change.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Record {
    /// Names this write.
    pub nonce: Nonce,
    /// The home node: the incarnation that answers for the key. `written` is a reading of its clock.
    pub node: Nonce,
    /// The epoch under which the record was written.
    pub epoch: Epoch,
    /// The home node's clock before it sent this write. Time spans in the record count from it.
    pub written: Moment,
    /// The state of the key.
    pub state: State,
    /// The number of changes that the key has seen.
    pub seq: u64,
    /// The tenure, when held.
    pub tenure: Option<Tenure>,
    /// The previous tenure.
    pub previous: Option<Box<Ended>>,
    /// The value that the owner leaves for its successor.
    pub value: Option<Box<str>>,
    /// How many milliseconds a promise under this tenure may still have run when this was written: what was left of
    /// max(S, F).
    pub floor_ms: u64,
    /// The names of the pins.
    pub pins: Box<[Box<str>]>,
    /// The offer, when the key is offered.
    pub offer: Option<Box<Offer>>,
    /// The revocation of the tenure.
    pub revocation: Option<Box<Revocation>>,
    /// The lock-delay and the pending fences.
    pub aftermath: Option<Box<Aftermath>>,
    /// The latest granted request ids, oldest first.
    pub request_marks: Box<[RequestMark]>,
    /// The request to hand the lease over. A record of version 3 ends before this field.
    pub handover: Option<Box<Handover>>,
    /// What a session specified when it was created; kept while it is alive. A record of version 4 ends before this
    /// field.
    pub spec: Option<Box<SessionSpec>>,
}

/// Why bytes are no record that this program can read. Such a key counts as held by an unknown owner, never as free.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CodecError {
    /// There are fewer bytes than a version and a checksum take.
    #[error("the record is truncated")]
    Truncated,
    /// The checksum does not match.
    #[error("the record's checksum is wrong")]
    Checksum,
    /// Another program wrote the record.
    #[error("the record has version {0}; this program knows 3 to 5")]
    Version(u8),
    /// The checksum matches, but the content is not a record.
    #[error("the record is malformed: {0}")]
    Malformed(postcard::Error),
}

impl Record {
    /// Appends the self-checking form: version, postcard, CRC-32 (little endian) of both.
    pub fn encode_into(&self, out: &mut Vec<u8>) {
        codec::encode(VERSION, self, out);
    }

    /// Reads what [`Self::encode_into`] wrote.
    ///
    /// # Errors
    /// [`CodecError`]. The checksum is verified before the version, so a version error means that another program wrote
    /// the record, not that the disk is damaged.
    pub fn decode(bytes: &[u8]) -> Result<Self, CodecError> {
        match codec::checked(bytes)? {
            (VERSION, content) => codec::parse(content),
            // A field that the earlier form did not have is empty.
            (BEFORE_SPEC, content) => codec::parse(&[content, &[0]].concat()).map(Self::of_before),
            (BEFORE_HANDOVER, content) => {
                codec::parse(&[content, &[0, 0]].concat()).map(Self::of_before)
            }
            (version, _) => Err(CodecError::Version(version)),
        }
    }

    /// An earlier form kept a session's specification as JSON in the record's value. For other records the field is
    /// never used.
    fn of_before(mut self) -> Self {
        let spec = self.value.as_deref().map(serde_json::from_str);
        self.spec = spec.and_then(Result::ok);
        self
    }

    /// The session that keeps the present tenure.
    #[must_use]
    pub fn bond(&self) -> Option<&Bond> {
        self.tenure.as_ref()?.bond.as_deref()
    }

    /// Whether only the lease's session has anything to do for it (R6), and its home node nothing.
    #[must_use]
    pub fn is_left_to_session(&self) -> bool {
        let kept = self.state == State::Held && self.bond().is_some();
        kept && self.fences().is_empty() && self.revocation.is_none()
    }

    /// Whether this session keeps the lease.
    #[must_use]
    pub fn is_kept_by(&self, session: Nonce) -> bool {
        self.state == State::Held && self.bond().is_some_and(|bond| bond.session == session)
    }

    /// The fences that are not confirmed, oldest first.
    #[must_use]
    pub fn fences(&self) -> &[Fence] {
        self.aftermath.as_ref().map_or(&[], |aftermath| &aftermath.fences)
    }

    /// The least time for which the record's state lasts, in milliseconds from `written`, without the promises of its
    /// home node.
    #[must_use]
    pub fn span_ms(&self) -> u64 {
        let offer = self.offer.as_ref().map_or(0, |offer| offer.span_ms);
        let cooling = self.aftermath.as_ref().map_or(0, |aftermath| aftermath.cooling_ms);
        self.floor_ms.max(offer).max(cooling)
    }

    /// The token of the present tenure, or of the last one; 0 for a key that was never held.
    #[must_use]
    pub fn token(&self, revision: Revision) -> Token {
        match (&self.tenure, &self.previous) {
            (Some(tenure), _) => tenure.token.resolve(self.epoch, revision),
            (None, Some(ended)) => ended.tenure.token,
            (None, None) => Token::default(),
        }
    }
}
