//! Which right each path needs, and which rate it is charged to. A path that this table lacks needs an account, and the
//! right to nothing.

use actix_web::http::Method;

use crate::access::Verb;

/// What a caller needs before its request reaches a handler. The handlers judge the key, the owner and the prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Nothing: the answer shows no state.
    Nothing,
    /// To be known.
    Account,
    /// A right with one of these verbs.
    Right(&'static [Verb]),
}

/// Which of a caller's two rates a call is charged to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// It keeps or ends leases or sessions.
    Keeps,
    /// Everything else.
    Other,
}

const HOLD: Need = Need::Right(&[Verb::Hold]);
const READ: Need = Need::Right(&[Verb::Read]);
const CHECK: Need = Need::Right(&[Verb::Check]);
const READ_OR_CHECK: Need = Need::Right(&[Verb::Read, Verb::Check]);
const ADMIN: Need = Need::Right(&[Verb::Admin]);
const ADMIN_OR_BREAK: Need = Need::Right(&[Verb::Admin, Verb::Break]);
const BREAK: Need = Need::Right(&[Verb::Break]);
const ACCESS: Need = Need::Right(&[Verb::Access]);
const OBSERVE: Need = Need::Right(&[Verb::Observe]);

/// What a request to this path needs.
pub fn need(method: &Method, path: &str) -> Need {
    let reads = matches!(*method, Method::GET | Method::HEAD);
    match path {
        "/v1/heartbeat" | "/v1/heartbeats" | "/v1/acquire" | "/v1/acquire-all"
        | "/v1/acquire-any" | "/v1/release" | "/v1/releases" | "/v1/transfer" | "/v1/stream" => {
            HOLD
        }
        "/v1/check" => CHECK,
        "/v1/leases" | "/v1/events" | "/v1/pools" | "/v1/top" | "/v1/history" => READ,
        "/v1/sessions" => {
            if reads {
                READ
            } else {
                HOLD
            }
        }
        "/v1/admin/revoke" => ADMIN_OR_BREAK,
        "/v1/admin/fence-skip" => BREAK,
        "/v1/admin/pin"
        | "/v1/admin/unpin"
        | "/v1/admin/drain"
        | "/v1/admin/forget"
        | "/v1/admin/fence-retry"
        | "/v1/admin/pool" => ADMIN,
        "/v1/admin/access" | "/v1/revocations" => ACCESS,
        "/v1/info" | "/v1/nodes" | "/v1/status" | "/v1/status/series" | "/metrics"
        | "/openapi.json" | "/docs" => OBSERVE,
        "/livez" | "/readyz" | "/" | "/sign-in" | "/sign-out" => Need::Nothing,
        _ if path.starts_with("/assets/") => Need::Nothing,
        _ if path.starts_with("/docs/") => OBSERVE,
        _ if path.starts_with("/v1/leases/") => READ_OR_CHECK,
        _ if path.starts_with("/v1/pools/") => READ,
        _ if path.starts_with("/v1/sessions/") => {
            if reads {
                READ
            } else {
                HOLD
            }
        }
        _ => Need::Account,
    }
}

/// Whether a call to this path keeps or ends leases or sessions.
pub fn keeps(path: &str) -> bool {
    match path {
        "/v1/heartbeat" | "/v1/heartbeats" | "/v1/release" | "/v1/releases" => true,
        _ => path.starts_with("/v1/sessions/") && path.ends_with("/heartbeat"),
    }
}

/// What a request is charged to; `None` for a probe, which costs nothing.
pub fn pace(method: &Method, path: &str) -> Option<Pace> {
    match path {
        "/livez" | "/readyz" => None,
        _ if keeps(path) => Some(Pace::Keeps),
        // The end of a session.
        _ if path.starts_with("/v1/sessions/") && method == Method::DELETE => Some(Pace::Keeps),
        _ => Some(Pace::Other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_keeps_and_ends_leases_has_a_rate_of_its_own_and_probes_have_none() {
        let of = |method: &str, path: &str| pace(&method.parse().expect("a method"), path);
        for path in ["/livez", "/readyz"] {
            assert_eq!((of("GET", path), of("HEAD", path)), (None, None), "{path}");
        }
        for (method, path) in [
            ("POST", "/v1/heartbeat"),
            ("POST", "/v1/heartbeats"),
            ("POST", "/v1/release"),
            ("POST", "/v1/releases"),
            ("POST", "/v1/sessions/7/heartbeat"),
            ("DELETE", "/v1/sessions/7"),
        ] {
            assert_eq!(of(method, path), Some(Pace::Keeps), "{path}");
        }
        for (method, path) in [
            ("POST", "/v1/acquire"),
            ("POST", "/v1/sessions"),
            ("GET", "/v1/sessions/7"),
            ("GET", "/v1/leases/k/heartbeat"),
            ("GET", "/metrics"),
            ("GET", "/"),
        ] {
            assert_eq!(of(method, path), Some(Pace::Other), "{path}");
        }
    }
}
