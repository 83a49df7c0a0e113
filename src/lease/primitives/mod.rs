//! The names and numbers of the protocol: keys and owners, prefixes of keys, tokens, nonces, readings of a clock, proofs of a holder.

mod drift;
mod hidden;
mod hidden_table;
mod key;
mod key_set;
mod lease_id;
mod moment;
mod nonce;
mod owner;
mod token;

pub(in crate::lease) use drift::ceil_ms;
pub use drift::{CLIENT_DRIFT, Drift, NODE_DRIFT};
pub use hidden::{check_seen, is_hidden};
#[cfg(feature = "server")]
pub(crate) use hidden_table::HIDDEN;
pub(in crate::lease) use key::PERMIT;
pub use key::{InvalidName, Key, MAX_KEY_BYTES, is_plugin_name, is_pool_name, permit_of};
pub use key_set::{KeySet, Span};
pub use lease_id::{ClusterSecret, LeaseId, NotALeaseId};
pub use moment::Moment;
pub use nonce::Nonce;
pub use owner::{MAX_OWNER_BYTES, Owner, Principal, PrincipalDigest};
pub use token::{Epoch, Revision, Token};
