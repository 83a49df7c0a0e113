//! The longest body of each call, and the calls whose bodies are still read while others are refused.

use super::body::{BATCH_BODY_BYTES, Bounded};
use crate::api::{
    AcquireAnyBody, AcquireBody, BatchBody, BeatBody, CheckBody, DrainBody, FenceSkipBody,
    ForgetBody, HeartbeatBody, PinBody, PoolOrderBody, ReleaseBody, RevokeBody, SessionBody,
    SessionDrainBody, TransferBody,
};
use crate::telemetry::audit::Subject;

impl Bounded for AcquireBody {}
impl Bounded for TransferBody {}
impl Bounded for CheckBody {}
impl Bounded for SessionBody {}
impl Bounded for SessionDrainBody {}

/// Administrators' calls, which the audit log has.
macro_rules! orders {
    ($($body:ident $subject:ident $field:ident,)*) => {
        $(impl Bounded for $body {
            fn subject(&self) -> Option<Subject> {
                Some(Subject::$subject(self.$field.clone()))
            }
        })*
    };
}

orders! {
    RevokeBody Key key,
    FenceSkipBody Key key,
    PinBody Key key,
    ForgetBody Prefix prefix,
    DrainBody Owner owner,
    PoolOrderBody Pool pool,
}

impl Bounded for AcquireAnyBody {
    const MOST: usize = BATCH_BODY_BYTES;
}

/// Heartbeats and releases, which are served while other calls are refused.
impl Bounded for BatchBody {
    const MOST: usize = BATCH_BODY_BYTES;
    const IS_VITAL: bool = true;
}

impl Bounded for HeartbeatBody {
    const IS_VITAL: bool = true;
}

impl Bounded for BeatBody {
    const IS_VITAL: bool = true;
}

impl Bounded for ReleaseBody {
    const IS_VITAL: bool = true;
}
