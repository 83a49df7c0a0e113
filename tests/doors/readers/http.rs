//! The doors' readers, for fuzz targets and tests. Not in a released binary.

use serde::de::DeserializeOwned;

use super::{
    answer::Problem,
    caller::Caller,
    events::Filter,
    handlers::{acquire, acquire_any, batch, fences::check_retry, heartbeats, leases, releases},
    request::{key, owner, parse, parse_optional, parse_query, read_spec},
};
use crate::{
    actor::{Limits, Reach},
    api::{
        AcquireAnyBody, AcquireBody, BatchBody, BeatBody, CheckBody, DrainBody, EventsQuery,
        FenceRetryBody, FenceSkipBody, HeartbeatBody, LeaseQuery, ListQuery, PinBody, ReleaseBody,
        RevokeBody, SessionBody, SessionDrainBody, SessionsQuery, TransferBody,
        limits::MAX_REASON_BYTES,
    },
    lease::MAX_PIN_BYTES,
    manager::{Invalid, check_progress, check_text, check_value},
    settings::CheckTargets,
};

/// Those of a coordinator that runs every kind of check.
fn limits() -> Limits {
    let reach = Reach::new(&CheckTargets::Auto, None, false);
    Limits { exec_checks: true, reach, ..Limits::default() }
}

/// Why a door did not take what was sent.
#[derive(Debug)]
pub struct Refused {
    /// The status of the answer.
    pub status: u16,
    /// The field that the answer names.
    pub field: Option<String>,
    /// Its sentence.
    pub detail: String,
}

impl From<Problem> for Refused {
    fn from(Problem { status, field, detail, .. }: Problem) -> Self {
        Self { status, field, detail }
    }
}

type Read = Result<(), Refused>;

/// A way in: the path as `openapi.json` has it, and what is judged of a body or query before any state is
/// looked at.
pub struct Door {
    /// The path.
    pub path: &'static str,
    /// Reads a body.
    pub read: fn(&[u8]) -> Read,
}

fn body<T: DeserializeOwned>(bytes: &[u8], judge: fn(&T) -> Result<(), Problem>) -> Read {
    Ok(judge(&parse(bytes)?)?)
}

/// Every door that takes a body.
pub const BODIES: [Door; 17] = [
    Door {
        path: "/v1/acquire",
        read: |bytes| {
            body::<AcquireBody>(bytes, |body| {
                acquire::read_acquire(&Caller::anyone(), body)?;
                value(&body.value)
            })
        },
    },
    Door {
        path: "/v1/acquire-any",
        read: |bytes| {
            body::<AcquireAnyBody>(bytes, |body| {
                acquire_any::read_any(&Caller::anyone(), body)?.count.check().map_err(invalid)
            })
        },
    },
    Door {
        path: "/v1/heartbeat",
        read: |bytes| {
            body::<HeartbeatBody>(bytes, |body| {
                heartbeats::read_heartbeat(&Caller::anyone(), body)?;
                value(&body.value)
            })
        },
    },
    Door { path: "/v1/heartbeats", read: |bytes| body(bytes, read_batch) },
    Door {
        path: "/v1/release",
        read: |bytes| {
            body::<ReleaseBody>(bytes, |body| {
                releases::read_release(&Caller::anyone(), body)?;
                value(&body.value)
            })
        },
    },
    Door { path: "/v1/releases", read: |bytes| body(bytes, read_batch) },
    Door {
        path: "/v1/transfer",
        read: |bytes| {
            body::<TransferBody>(bytes, |body| {
                releases::read_transfer(&Caller::anyone(), body)?;
                value(&body.value)
            })
        },
    },
    Door {
        path: "/v1/check",
        read: |bytes| body::<CheckBody>(bytes, |body| leases::read_check(body).map(drop)),
    },
    Door {
        path: "/v1/sessions",
        read: |bytes| {
            body::<SessionBody>(bytes, |body| {
                owner("owner", &body.owner)?;
                read_spec(&limits(), body).map(drop)
            })
        },
    },
    Door {
        path: "/v1/sessions/{id}/heartbeat",
        read: |bytes| {
            let body = parse_optional::<BeatBody>(bytes)?;
            Ok(check_progress(body.progress.as_deref()).map_err(invalid)?)
        },
    },
    Door {
        path: "/v1/sessions/{id}/drain",
        read: |bytes| Ok(parse_optional::<SessionDrainBody>(bytes).map(drop)?),
    },
    Door {
        path: "/v1/admin/revoke",
        read: |bytes| body::<RevokeBody>(bytes, |body| reasoned(&body.key, &body.reason)),
    },
    Door { path: "/v1/admin/pin", read: |bytes| body(bytes, read_pin) },
    Door { path: "/v1/admin/unpin", read: |bytes| body(bytes, read_pin) },
    Door {
        path: "/v1/admin/drain",
        read: |bytes| body::<DrainBody>(bytes, |body| owner("owner", &body.owner).map(drop)),
    },
    Door {
        path: "/v1/admin/fence-skip",
        read: |bytes| body::<FenceSkipBody>(bytes, |body| reasoned(&body.key, &body.reason)),
    },
    Door {
        path: "/v1/admin/fence-retry",
        read: |bytes| body::<FenceRetryBody>(bytes, check_retry),
    },
];

fn invalid(why: Invalid) -> Problem {
    Problem::invalid(&why)
}

fn value(text: &Option<String>) -> Result<(), Problem> {
    check_value(text.as_deref()).map_err(invalid)
}

fn reasoned(named: &str, reason: &str) -> Result<(), Problem> {
    key(named)?;
    check_text("reason", reason, MAX_REASON_BYTES).map_err(invalid)
}

fn read_pin(body: &PinBody) -> Result<(), Problem> {
    key(&body.key)?;
    check_text("by", &body.by, MAX_PIN_BYTES).map_err(invalid)
}

fn read_batch(body: &BatchBody) -> Result<(), Problem> {
    batch::check_size(body)?;
    for lease in &body.leases {
        // A verdict of its own, and not the end of the others.
        if let Err(problem) = batch::read(&Caller::anyone(), lease) {
            assert!(problem.field.is_some(), "{problem}");
        }
    }
    Ok(())
}

/// Reads a query as the doors do that take one, and a key of a path.
///
/// # Errors
/// Why it is refused.
pub fn read_query(door: usize, text: &str) -> Result<(), Refused> {
    match door % 5 {
        0 => leases::read_filter(parse_query::<ListQuery>(text)?).map(drop)?,
        1 => Filter::of(Caller::anyone(), &parse_query::<EventsQuery>(text)?).map(drop)?,
        2 => parse_query::<SessionsQuery>(text).map(drop)?,
        3 => parse_query::<LeaseQuery>(text).map(drop)?,
        _ => leases::key_of_path(&format!("/v1/leases/{text}")).map(drop)?,
    }
    Ok(())
}

pub use crate::manager::{read_cursor, write_cursor};
