//! Orders of administrators.

use serde_json::json;

use super::{
    call::Call,
    values::{free, held},
};
use crate::api::{Drained, Forgot, Lease, LeaseAnswer, RetriedFences, Revocations, Revoked};

const NIGHTLY: &str = "jobs/nightly";
const TOKEN: u64 = 430;

/// The examples.
pub fn calls() -> Vec<Call> {
    [ends(), pins(), rest()].into_iter().flatten().collect()
}

fn ends() -> Vec<Call> {
    vec![
        Call::with(
            ["revoke", "in-time"],
            "End a tenure when the last promise to its holder has run out",
            json!({ "key": "shards/19", "reason": "host 12 is to be repaired" }),
            Revoked { revoked: true, ends_in_ms: 14_900 },
        ),
        Call::with(
            ["revoke", "at-once"],
            "End a tenure at once, because its holder is known to be dead",
            json!({ "key": NIGHTLY, "reason": "host 13 has no power", "immediately": true }),
            Revoked { revoked: true, ends_in_ms: 0 },
        ),
    ]
}

fn pins() -> Vec<Call> {
    let value = Some("attempt 1".to_owned());
    let unpinned = Lease { value, ..held(NIGHTLY, "worker-2", TOKEN) };
    let pinned = Lease { expires_in_ms: None, pinned: true, ..unpinned.clone() };
    vec![
        Call::with(
            ["pin", "maintenance"],
            "Keep a lease from expiring",
            json!({ "key": NIGHTLY, "by": "maintenance" }),
            LeaseAnswer { lease: pinned },
        ),
        Call::with(
            ["unpin", "maintenance"],
            "Let a lease expire again",
            json!({ "key": NIGHTLY, "by": "maintenance" }),
            LeaseAnswer { lease: unpinned },
        ),
    ]
}

fn rest() -> Vec<Call> {
    let opened = Lease { value: Some("attempt 1".into()), ..free(NIGHTLY, TOKEN) };
    vec![
        Call::with(
            ["drain_owner", "worker"],
            "End all leases and sessions of an owner; a pinned lease stays",
            json!({ "owner": "worker-2" }),
            Drained { revoked: 1, pinned: 1, draining: 0 },
        ),
        Call::plain(["list_revocations", "none"], "Nothing is revoked", Revocations::default()),
        Call::with(
            ["order_access", "unrevoke"],
            "Let a principal call again, which was not revoked: nothing changes",
            json!({ "action": "unrevoke", "principal": "ci-runner", "reason": "its token was replaced" }),
            Revocations { changed: Some(false), ..Revocations::default() },
        ),
        Call::with(
            ["fence_skip", "skip"],
            "Open a key whose fence cannot be confirmed",
            json!({ "key": NIGHTLY, "reason": "host 13 is off, I looked" }),
            LeaseAnswer { lease: opened },
        ),
        Call::with(
            ["fence_retry", "none"],
            "Run the failed fences of a plugin once more: none has failed",
            json!({ "prefix": "jobs/", "reason": "the switch is repaired" }),
            RetriedFences::default(),
        ),
        Call::with(
            ["forget_keys", "jobs"],
            "Forget the keys that nobody holds; a reserved one is left",
            json!({ "prefix": "jobs/", "reason": "the jobs of last year are done" }),
            Forgot { forgotten: 2, left: 1, next: None },
        ),
    ]
}
