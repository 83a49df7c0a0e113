//! A lease that a heartbeat kept, as a part of a batch's answer.

use crate::{api::Verdict, manager::Alive};

/// The verdict on a lease that was kept.
pub fn kept<'a>(key: &'a str, alive: &Alive) -> Verdict<'a> {
    let Alive { token, valid_for_ms, revived } = *alive;
    Verdict {
        key,
        status: 200,
        token: Some(token.0),
        valid_for_ms: Some(valid_for_ms),
        revived,
        ..Verdict::default()
    }
}
