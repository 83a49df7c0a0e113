//! What a store keeps: the record of a key, the changes that a write reports, and the record of a node.

mod bond;
mod change;
mod codec;
mod fence;
mod handover;
mod node;
mod record;
mod session;
mod tenure;

pub use bond::{Behavior, Bond};
pub use change::{Change, ChangeKind};
pub use codec::CodecError;
pub use fence::{Aftermath, Fence, MAX_LATE_FENCES};
pub use handover::Handover;
pub use node::{MAX_NODE_TTL_MS, NodeRecord, NodeState};
pub use record::{MAX_REQUEST_MARKS, Offer, Record, RequestMark, Revocation};
pub use session::{Check, CheckKind, MAX_CHECKS, NotASessionId, SessionId, SessionSpec, digest_of};
pub use tenure::{Ended, State, Tenure};
