//! What a store keeps: the record of a key, the changes that a write reports, and the record of a node.

mod change;
mod codec;
mod contradiction;
mod fence;
mod handover;
mod level;
#[allow(missing_docs)]
mod node;
#[cfg(feature = "testing")]
#[path = "../../../tests/doors/novelty.rs"]
mod novelty;
mod record;
mod session;
mod session_ref;
mod tenure;

pub use change::{Change, ChangeKind};
pub use codec::CodecError;
pub use fence::{Fence, FencesAndDelay, MAX_LATE_FENCES};
pub use handover::Handover;
pub use level::{LEVEL, Level, LevelError};
pub use node::{Common, MAX_NODE_TTL_MS, NodeRecord, NodeState};
pub use record::{Condition, MAX_REQUEST_MARKS, Offer, Record, RequestMark, Revocation};
pub use session::{Check, CheckKind, MAX_CHECKS, NotASessionId, SessionId, SessionSpec, digest_of};
pub use session_ref::{Behavior, SessionRef};
pub use tenure::{Ended, KeyState, Tenure};
