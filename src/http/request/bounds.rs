//! The longest body of each call, and the calls whose bodies are still read while others are refused.

use super::body::{BATCH_BODY_BYTES, Bounded};
use crate::api::{
    AcquireAnyBody, AcquireBody, BatchBody, BeatBody, CheckBody, DrainBody, FenceSkipBody,
    ForgetBody, HeartbeatBody, PinBody, ReleaseBody, RevokeBody, SessionBody, SessionDrainBody,
    TransferBody,
};

impl Bounded for AcquireBody {}
impl Bounded for TransferBody {}
impl Bounded for CheckBody {}
impl Bounded for SessionBody {}
impl Bounded for SessionDrainBody {}
impl Bounded for RevokeBody {}
impl Bounded for FenceSkipBody {}
impl Bounded for ForgetBody {}
impl Bounded for PinBody {}
impl Bounded for DrainBody {}

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
