//! What the span of a call says of its lease, if the call is traced.

use super::app::App;
use crate::{lease::Token, telemetry::trace};

/// The call is about this key, for this owner.
pub fn about(app: &App, key: &str, owner: Option<&str>) {
    let Some(trace) = trace::current() else { return };
    trace.note("tenure.key", key);
    trace.note("tenure.pool", &*app.manager.pool_of(key));
    if let Some(owner) = owner {
        trace.note("tenure.owner", owner);
    }
}

/// The call is about several keys, for this owner.
pub fn about_any(owner: &str) {
    if let Some(trace) = trace::current() {
        trace.note("tenure.owner", owner);
    }
}

/// The call granted or kept the tenure with this token.
pub fn about_tenure(token: Token) {
    if let Some(trace) = trace::current() {
        trace.note("tenure.token", token.0);
    }
}
