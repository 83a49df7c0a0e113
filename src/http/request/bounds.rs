//! The longest body of each call, and the calls whose bodies are still read while others are refused.

use super::body::{BATCH_BODY_BYTES, Bounded};
use crate::api::{
    AccessOrderBody, AcquireAllBody, AcquireAnyBody, AcquireBody, BatchBody, BeatBody, CheckBody,
    DrainBody, FenceRetryBody, FenceSkipBody, ForgetBody, HeartbeatBody, PinBody, PoolOrderBody,
    ReleaseBody, RevokeBody, SessionBody, SessionDrainBody, TransferBody,
};
use crate::telemetry::audit::{Ordered, Subject};

impl Bounded for AcquireBody {}
impl Bounded for TransferBody {}
impl Bounded for CheckBody {}
impl Bounded for SessionBody {}
impl Bounded for SessionDrainBody {}

/// What the bodies of some calls say.
macro_rules! given {
    () => {
        None
    };
    ($what:expr) => {
        Some($what)
    };
}

/// Administrators' calls, which the audit log has.
macro_rules! orders {
    ($($body:ident $subject:ident $field:ident $(because $reason:ident)? $(does $action:expr)?,)*) => {
        $(impl Bounded for $body {
            fn subject(&self) -> Option<Subject> {
                Some(Subject::$subject(self.$field.clone()))
            }

            fn ordered(&self) -> Ordered {
                Ordered {
                    reason: given!($(self.$reason.clone())?),
                    action: given!($($action(self))?),
                }
            }
        })*
    };
}

orders! {
    RevokeBody Key key because reason,
    FenceSkipBody Key key because reason,
    PinBody Key key,
    ForgetBody Prefix prefix because reason,
    DrainBody Owner owner,
    PoolOrderBody Pool pool because reason does ordered,
}

/// The order as a user would say it, such as `pause shards/7 for 60000 ms`.
fn ordered(body: &PoolOrderBody) -> String {
    let named = body.owner.as_deref().or(body.key.as_deref());
    let named = named.map(|named| format!(" {named}")).unwrap_or_default();
    let lasts = body.for_ms.map(|for_ms| format!(" for {for_ms} ms")).unwrap_or_default();
    format!("{}{named}{lasts}", body.action.as_str())
}

/// The key or the prefix is the subject, and the order names the plugin.
impl Bounded for FenceRetryBody {
    fn subject(&self) -> Option<Subject> {
        let key = self.key.clone().map(Subject::Key);
        key.or_else(|| self.prefix.clone().map(Subject::Prefix))
    }

    fn ordered(&self) -> Ordered {
        let action = self.plugin.as_ref().map(|plugin| format!("retry the fences of {plugin}"));
        Ordered { reason: Some(self.reason.clone()), action }
    }
}

/// The audit log says what is revoked in the words of the order.
impl Bounded for AccessOrderBody {
    fn ordered(&self) -> Ordered {
        let Self { action, principal, token, certificate, for_ms, reason } = self;
        let named = [("principal", principal), ("token", token), ("certificate", certificate)];
        let named = named.iter().find_map(|(kind, name)| Some((kind, name.as_deref()?)));
        let named = named.map(|(kind, name)| format!(" {kind} {}", no_token(name)));
        let lasts = for_ms.map(|for_ms| format!(" for {for_ms} ms")).unwrap_or_default();
        let action = format!("{}{}{lasts}", action.as_str(), named.unwrap_or_default());
        Ordered { reason: Some(reason.clone()), action: Some(action) }
    }
}

/// A caller may have sent a token where its digest belongs.
fn no_token(text: &str) -> &str {
    if text.starts_with("tnr_") { "(a token, which is refused)" } else { text }
}

impl Bounded for AcquireAllBody {
    const MOST: usize = BATCH_BODY_BYTES;
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
