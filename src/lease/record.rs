//! The durable record of one key, and its self-checking form.

use serde::{Deserialize, Serialize};

use super::{
    Bond, ChangeKind, Epoch, Fence, Handover, Moment, Nonce, Owner, Revision, SessionSpec, Token,
    codec,
};

/// How many request ids a record remembers.
pub const MAX_REQUEST_MARKS: usize = 4;

/// The version of the form that this program writes.
const VERSION: u8 = 5;
/// The forms before, which it reads: without [`Record::spec`], and without [`Record::handover`] as well.
const BEFORE_SPEC: u8 = 4;
const BEFORE_HANDOVER: u8 = 3;

/// What a key is, as stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum State {
    /// Nobody holds it.
    Free,
    /// `tenure` holds it.
    Held,
    /// Kept for the owner that `offer` names.
    Offered,
    /// Its tenure ended, and a fence has yet to be confirmed.
    Fencing,
    /// Its tenure ended, and the lock-delay is not over.
    Cooling,
}

impl State {
    /// The state as the API names it.
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

/// One owner's time with a key, from grant to end.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Tenure {
    /// Names the grant; the lease id is derived from it.
    pub grant_nonce: Nonce,
    /// Who holds the key.
    pub owner: Owner,
    /// The fencing token, or [`Token::OF_THIS_WRITE`] in the record of the grant itself.
    pub token: Token,
    /// Milliseconds that a grant or heartbeat keeps the lease.
    pub ttl_ms: u64,
    /// Wall clock at the grant, milliseconds since 1970; for people only.
    pub acquired_at_ms: u64,
    /// The session that keeps it, in place of heartbeats of its own.
    pub bond: Option<Box<Bond>>,
}

/// A tenure that is over, kept so that its holder hears why, and so that it can revive.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Ended {
    /// The tenure as it was.
    pub tenure: Tenure,
    /// How it ended.
    pub reason: ChangeKind,
    /// Wall clock at the end, milliseconds since 1970; for people only.
    pub ended_at_ms: u64,
    /// Its resource was fenced, or may have been: it can never go on.
    pub fenced: bool,
}

/// A key kept for one successor.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Offer {
    /// Who may take it.
    pub to: Owner,
    /// For how many milliseconds from `written`, or from the restart after it.
    pub span_ms: u64,
}

/// What an ended tenure left to be done before the key is like new.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Aftermath {
    /// For how many milliseconds from `written`, or from the restart after it, the key stays shut.
    pub cooling_ms: u64,
    /// Fences that are not confirmed, oldest first.
    pub fences: Vec<Fence>,
}

/// An administrator's order to end the tenure when its last promise ran out.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Revocation {
    /// Why.
    pub reason: Box<str>,
    /// Who.
    pub actor: Box<str>,
}

/// A request id that was granted, so that repeating the call never grants twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RequestMark {
    /// Digest of the request id.
    pub id: u128,
    /// Digest of the rest of the request.
    pub body: u64,
    /// The grant that it got.
    pub grant_nonce: Nonce,
}

/// The record of one key. Changes in the store only when ownership, value, ttl or pins change.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Record {
    /// Names this write.
    pub nonce: Nonce,
    /// The home: the incarnation of the node that answers for the key. `written` is a reading of its
    /// clock.
    pub node: Nonce,
    /// The generation of tokens under which it was written.
    pub epoch: Epoch,
    /// The home's clock before it sent this write. Spans in the record count from it.
    pub written: Moment,
    /// What the key is.
    pub state: State,
    /// How many changes the key has seen.
    pub seq: u64,
    /// The tenure, when held.
    pub tenure: Option<Tenure>,
    /// The tenure before.
    pub previous: Option<Box<Ended>>,
    /// What the owner wants its successor to read.
    pub value: Option<Box<str>>,
    /// For how many milliseconds a promise under this tenure may still have run when this was written:
    /// what is left of max(S, F).
    pub floor_ms: u64,
    /// Who pinned the key.
    pub pins: Box<[Box<str>]>,
    /// The offer, when offered.
    pub offer: Option<Box<Offer>>,
    /// The order to end the tenure.
    pub revocation: Option<Box<Revocation>>,
    /// The lock-delay, and the fences to be confirmed.
    pub aftermath: Option<Box<Aftermath>>,
    /// The latest granted request ids, oldest first.
    pub request_marks: Box<[RequestMark]>,
    /// The request to hand the lease over. A record of version 3 ends before it.
    pub handover: Option<Box<Handover>>,
    /// What a session said when it was made, while it lives. A record of version 4 ends before it.
    pub spec: Option<Box<SessionSpec>>,
}

/// Why bytes are not a record that this program may judge. Such a key counts as held by somebody
/// unknown: never free.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CodecError {
    /// Fewer bytes than a version and a checksum.
    #[error("the record is truncated")]
    Truncated,
    /// The checksum does not fit.
    #[error("the record's checksum is wrong")]
    Checksum,
    /// Written by another program.
    #[error("the record has version {0}; this program knows 3 to 5")]
    Version(u8),
    /// The checksum fits and the content does not.
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
    /// [`CodecError`]; the checksum is judged before the version, so a version error is the word of
    /// another program and not of a broken disk.
    pub fn decode(bytes: &[u8]) -> Result<Self, CodecError> {
        match codec::checked(bytes)? {
            (VERSION, content) => codec::parse(content),
            // What a record of an earlier form ended before, it has none of.
            (BEFORE_SPEC, content) => codec::parse(&[content, &[0]].concat()).map(Self::of_before),
            (BEFORE_HANDOVER, content) => {
                codec::parse(&[content, &[0, 0]].concat()).map(Self::of_before)
            }
            (version, _) => Err(CodecError::Version(version)),
        }
    }

    /// A session's record had the specification as JSON in its value. Nobody asks for that of another record.
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

    /// Whether all that is to be done about it is its session's to do (R6), and nothing its home's.
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

    /// How many milliseconds from `written` the record's state lasts at least, whatever its home promised.
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
