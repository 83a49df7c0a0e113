//! The durable record of one key, and its self-checking form.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{
    codec::{self, CodecError},
    fence::{Fence, FencesAndDelay},
    handover::Handover,
    session::SessionSpec,
    session_ref::SessionRef,
    tenure::{Ended, KeyState, Tenure},
};
#[cfg(feature = "testing")]
use super::{level::Level, novelty};
use crate::lease::primitives::{Epoch, Moment, Nonce, Owner, Revision, Token};

/// The most request ids that a record remembers.
pub const MAX_REQUEST_MARKS: usize = 4;
/// The version of the form that this program writes.
const VERSION: u8 = 5;
/// The earlier forms that it reads: without [`Record::spec`], and also without [`Record::handover`].
const BEFORE_SPEC: u8 = 4;
const BEFORE_HANDOVER: u8 = 3;

/// An offer of the key to one successor.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Offer {
    /// The owner to whom the key is offered.
    pub to: Owner,
    /// How long the offer stands, in milliseconds from `written` or from the restart after it.
    pub span_ms: u64,
}

/// An administrator's revocation: the tenure ends when its last promise has run out.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Revocation {
    /// Why the administrator revoked the tenure, for people.
    pub reason: Box<str>,
    /// The administrator who revoked the tenure, for people.
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

/// The record of one key. Each change of the tenure, its terms, its home node or what an earlier tenure left is a write.
/// A heartbeat that changes nothing is none.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Record {
    /// Drawn anew for each write, so that a write of unknown outcome can be recognised in the store.
    pub nonce: Nonce,
    /// The home node: the incarnation that answers for the key. `written` is a reading of its clock.
    pub node: Nonce,
    /// The epoch under which the record was written.
    pub epoch: Epoch,
    /// The home node's clock before it sent this write. Time spans in the record count from it.
    pub written: Moment,
    /// The state of the key.
    pub state: KeyState,
    /// The number of changes that the key has seen.
    pub seq: u64,
    /// The present tenure, or `None` if the key is not held.
    pub tenure: Option<Tenure>,
    /// The tenure that ended last. Its former holder is told from it why it ended.
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
    pub fences_and_delay: Option<Box<FencesAndDelay>>,
    /// The latest granted request ids, oldest first.
    pub request_marks: Box<[RequestMark]>,
    /// The request to hand the lease over. A record of version 3 ends before this field.
    pub handover: Option<Box<Handover>>,
    /// What a session specified when it was created; kept while it is alive. A record of version 4 ends before this
    /// field.
    pub spec: Option<Box<SessionSpec>>,
    /// What only programs of the second level know, in a test.
    #[cfg(feature = "testing")]
    #[serde(skip)]
    pub novelty: Option<Box<str>>,
}

impl Record {
    /// The record of a key that was never written.
    #[must_use]
    pub fn absent() -> Self {
        Self {
            nonce: Nonce::default(),
            node: Nonce::default(),
            epoch: Epoch::default(),
            written: Moment::ZERO,
            state: KeyState::Free,
            seq: 0,
            tenure: None,
            previous: None,
            value: None,
            floor_ms: 0,
            pins: Box::default(),
            offer: None,
            revocation: None,
            fences_and_delay: None,
            request_marks: Box::default(),
            handover: None,
            spec: None,
            #[cfg(feature = "testing")]
            novelty: None,
        }
    }

    /// Appends the self-checking form: version, postcard, CRC-32 (little endian) of both. It is the oldest form that can
    /// say all of the record, so that a field which no record has yet changes nothing for programs that do not know it.
    pub fn encode_into(&self, out: &mut Vec<u8>) {
        #[cfg(feature = "testing")]
        if let Some(novelty) = &self.novelty {
            return codec::encode(novelty::VERSION, &(self, novelty), out);
        }
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
            #[cfg(feature = "testing")]
            (novelty::VERSION, content) => {
                let (record, novelty): (Self, Box<str>) = codec::parse(content)?;
                Ok(Self { novelty: Some(novelty), ..record })
            }
            (version, _) => Err(CodecError::Version(version)),
        }
    }

    /// Adds what the level of the store allows to say.
    #[cfg(feature = "testing")]
    pub(in crate::lease) fn renew_novelty(&mut self, level: Level) {
        self.novelty = novelty::of(level).or(self.novelty.take());
    }

    /// An earlier form kept a session's specification as JSON in the record's value. For other records the field is
    /// never used.
    fn of_before(mut self) -> Self {
        let spec = self.value.as_deref().map(serde_json::from_str);
        self.spec = spec.and_then(Result::ok);
        self
    }
}

/// What counts of a key where keys are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Condition {
    /// The state of the key.
    pub state: KeyState,
    /// One of its fences failed for good.
    pub fence_failed: bool,
}

impl Condition {
    /// A record that cannot be read: an unknown owner holds the key.
    pub const UNREADABLE: Self = Self { state: KeyState::Held, fence_failed: false };

    /// A number from 1 to 15, for stores to keep.
    #[must_use]
    pub fn to_bits(self) -> u8 {
        let state = match self.state {
            KeyState::Free => 1,
            KeyState::Held => 2,
            KeyState::Offered => 3,
            KeyState::Fencing => 4,
            KeyState::Cooling => 5,
        };
        state | u8::from(self.fence_failed) << 3
    }

    /// What [`Self::to_bits`] gave. `None` for other numbers.
    #[must_use]
    pub fn from_bits(bits: u8) -> Option<Self> {
        let state = match bits & 7 {
            1 => KeyState::Free,
            2 => KeyState::Held,
            3 => KeyState::Offered,
            4 => KeyState::Fencing,
            5 => KeyState::Cooling,
            _ => return None,
        };
        (bits < 16).then_some(Self { state, fence_failed: bits & 8 != 0 })
    }
}

impl Record {
    /// The state of the key, and whether a fence failed.
    #[must_use]
    pub fn condition(&self) -> Condition {
        let fence_failed = self.fences().iter().any(|fence| !fence.failed.is_empty());
        Condition { state: self.state, fence_failed }
    }

    /// When the tenure before ended, in milliseconds since 1970.
    #[must_use]
    pub fn ended_at_ms(&self) -> Option<u64> {
        self.previous.as_ref().map(|ended| ended.ended_at_ms)
    }

    /// The session that keeps the present tenure.
    #[must_use]
    pub fn session_ref(&self) -> Option<&SessionRef> {
        self.tenure.as_ref()?.session_ref.as_deref()
    }

    /// Whether only the lease's session has anything to do for it (R6), and its home node nothing.
    #[must_use]
    pub fn is_left_to_session(&self) -> bool {
        let kept = self.state == KeyState::Held && self.session_ref().is_some();
        kept && self.fences().is_empty() && self.revocation.is_none()
    }

    /// Whether this session keeps the lease.
    #[must_use]
    pub fn is_kept_by(&self, session: Nonce) -> bool {
        self.state == KeyState::Held
            && self.session_ref().is_some_and(|session_ref| session_ref.session == session)
    }

    /// The fences that are not confirmed, oldest first.
    #[must_use]
    pub fn fences(&self) -> &[Fence] {
        self.fences_and_delay.as_ref().map_or(&[], |fences_and_delay| &fences_and_delay.fences)
    }

    /// Whether the plugin's fence of the tenure with this token failed for good.
    #[must_use]
    pub fn has_failed(&self, token: Token, plugin: &str) -> bool {
        let failed = |fence: &Fence| fence.failed.iter().any(|failed| **failed == *plugin);
        self.fences().iter().any(|fence| fence.token == token && failed(fence))
    }

    /// The least time for which the record's state lasts, in milliseconds from `written`, without the promises of its
    /// home node.
    #[must_use]
    pub fn span_ms(&self) -> u64 {
        if self.state == KeyState::Held {
            return self.floor_ms;
        }
        let offer = self.offer.as_ref().map_or(0, |offer| offer.span_ms);
        let cooling = self
            .fences_and_delay
            .as_ref()
            .map_or(0, |fences_and_delay| fences_and_delay.cooling_ms);
        self.floor_ms.max(offer).max(cooling)
    }

    /// How long the key stays shut to others, in milliseconds from `written`: the rest of the minimum hold of a tenure,
    /// or the time for which the record's state lasts.
    #[must_use]
    pub fn shut_ms(&self) -> u64 {
        if self.state == KeyState::Held { self.cooling_ms() } else { self.span_ms() }
    }

    /// Whether this record, which follows `before`, grants the key with a minimum hold.
    #[must_use]
    pub(in crate::lease) fn begins_minimum_hold(&self, before: &Self) -> bool {
        let granted = |record: &Self| record.tenure.as_ref().map(|tenure| tenure.grant_nonce);
        self.state == KeyState::Held && self.cooling_ms() > 0 && granted(self) != granted(before)
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

    /// The longest promise that a holder may miss because of a lapse. A lease that a session keeps has no promise of its
    /// own.
    #[must_use]
    pub(in crate::lease) fn own_ttl(&self) -> Duration {
        let own = self.tenure.as_ref().filter(|tenure| tenure.session_ref.is_none());
        Duration::from_millis(own.map_or(0, |tenure| tenure.ttl_ms))
    }

    /// The longest promise that can stand on the record: its ttl, or the longer one from before the ttl was shortened.
    #[must_use]
    pub(in crate::lease) fn promise_span(&self) -> Duration {
        self.own_ttl().max(Duration::from_millis(self.floor_ms))
    }
}

impl Record {
    pub(in crate::lease) fn cooling_ms(&self) -> u64 {
        self.fences_and_delay.as_ref().map_or(0, |fences_and_delay| fences_and_delay.cooling_ms)
    }

    /// Sets the time for which nobody else is granted the key, in milliseconds from `written`: the lock-delay of an
    /// ended tenure, or the rest of the minimum hold of the present one.
    pub(in crate::lease) fn shut_for(&mut self, span_ms: u64) {
        if span_ms > 0 {
            self.fences_and_delay.get_or_insert_default().cooling_ms = span_ms;
        } else {
            self.cool();
        }
    }

    pub(in crate::lease) fn cool(&mut self) {
        if let Some(left) = &mut self.fences_and_delay {
            left.cooling_ms = 0;
        }
        self.fences_and_delay.take_if(|left| left.fences.is_empty());
    }

    /// R11: the tenure goes on and must not be fenced. What is left of its lock-delay may be its minimum hold, so that
    /// is kept.
    pub(in crate::lease) fn cancel_fences(&mut self, token: Token) {
        if let Some(left) = &mut self.fences_and_delay {
            left.fences.retain(|fence| fence.token != token);
        }
        self.shut_for(self.cooling_ms());
    }
}
