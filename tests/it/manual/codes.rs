//! The page of problem codes is written from the table in the code; `UPDATE=1` writes it anew.
//!
//! What a caller should do stands here: a code without advice does not compile.

use std::fmt::Write as _;

use tenure::api::Code;

use super::{read, root};

const PAGE: &str = "docs/errors.md";
const BEGIN: &str = "<!-- The table is generated: make openapi -->\n";
const END: &str = "<!-- End of the table. -->\n";

/// Whether a call may be repeated as it is, with the same request id if it has one.
fn repeat(code: Code) -> &'static str {
    match code {
        Code::RequestIdSpent => "no: use a new id",
        Code::Held | Code::NoneAvailable | Code::Cooling | Code::Fencing => "yes, with any id",
        code if code.is_retryable() => "yes, with the same id",
        _ => "no",
    }
}

/// What the caller should do.
fn advice(code: Code) -> &'static str {
    match code {
        Code::MalformedRequest => "Correct the request. `detail` says what cannot be read.",
        Code::InvalidField => "Correct the field that `field` names.",
        Code::ForgedHeader => "Send no header that begins with `x-tenure-`.",
        Code::Unauthenticated => "Show a valid token or certificate.",
        Code::Forbidden => "Ask for the right, or use keys that the access file allows.",
        Code::ForeignOrigin => "Call from a page of the coordinator itself, or from a program.",
        Code::NoSuchPath => "Correct the path. Keys in a path are percent-encoded.",
        Code::UnknownKey => "Nobody was ever granted this key, or it was forgotten.",
        Code::UnknownSession => "The session ended long ago, or never existed.",
        Code::UnknownPool => "No policy has a pool of this name.",
        Code::MethodNotAllowed => "Use a method that the header `Allow` names.",
        Code::RequestTimeout => "Send the body faster.",
        Code::Held => "Wait in the queue with `wait_ms`, or ask again after `retry_after_ms`.",
        Code::HeldByYou => "Use the grant that you have. If it is lost, acquire with `reclaim`.",
        Code::NoneAvailable => "Wait with `wait_ms`, or ask again later.",
        Code::RequestInFlight => "Another call with this id is not answered yet. Repeat the call.",
        Code::RequestIdSpent => {
            "The grant of this id has ended. Acquire anew if you still want it."
        }
        Code::LeaseLost => "**Stop the work.** The tenure is over; `reason` says how it ended.",
        Code::KeptBySession => "Send the heartbeat of the session.",
        Code::SessionLost => {
            "**Stop the work on every lease of the session.** Then open another session."
        }
        Code::NotHolder => "**Stop the work.** Another owner holds the key.",
        Code::NotHeld => "Nothing needs to be ended.",
        Code::NotFencing => "No fence of the key waits.",
        Code::Pinned => "Unpin the lease first.",
        Code::NoAccessFile => "Give the node an access file (`auth.file`).",
        Code::LocksOut => "Give another principal of the access file the right `access` first.",
        Code::OtherVersion => "Upgrade all nodes of the store first.",
        Code::BodyTooLarge => "Send fewer items in one call, or a shorter value.",
        Code::NotJson => "Send the header `content-type: application/json`.",
        Code::UnknownHost => "Call a name in `server.hosts`, or add the name there.",
        Code::UpgradeRequired => "Open a WebSocket, or use the calls of plain HTTP.",
        Code::RequestIdReused => {
            "An id belongs to one request. Use a new id, or send the first request unchanged."
        }
        Code::Cooling => "Wait with `wait_ms`, or for `retry_after_ms`.",
        Code::Fencing => "Wait with `wait_ms`. If it lasts, an administrator looks at the fence.",
        Code::Busy => "Wait for `retry_after_ms`. `detail` names the bound.",
        Code::RateLimited => "Send fewer calls, and wait for `Retry-After`.",
        Code::LimitReached => "Give back what is not needed. `detail` names the limit.",
        Code::TooManySubscribers => "Close streams, or raise `limits.subscribers`.",
        Code::Internal => "The call may have had an effect. Repeat it; report the log line.",
        Code::AuditUnavailable => {
            "Nothing was done. Free the disk of the audit log, and repeat the call."
        }
        Code::StoreUnavailable => "The call may have had an effect. Repeat it.",
        Code::StoreFrozen => {
            "An administrator must [recover the store](stores.md#a-store-that-went-backwards)."
        }
        Code::OrderWaits => "Repeat the call.",
        Code::HomeUnreachable => "Repeat the call, at the URL in `node` if that can be reached.",
        Code::NodeLapsed => "The coordinator lost its store for a while. Repeat the call.",
        Code::Draining => "The coordinator stops. Call another one.",
        Code::KeyResting => "The key's task failed and starts again. Wait for `retry_after_ms`.",
        Code::RecordQuarantined => "The key's record cannot be read. An administrator must look.",
        Code::TooManyBodies => "Repeat the call after a moment.",
        Code::TooManyConnections => "Repeat the call after a moment, and reuse connections.",
        Code::Overloaded => "Wait for `Retry-After`. Nothing was done.",
        Code::StoreFull => "The disk is full. Calls that write nothing still work.",
        Code::TooManyKeys => "Forget keys that are not needed, or raise the limit on keys.",
    }
}

fn table() -> String {
    let mut out = String::from(
        "| code | HTTP | meaning | repeat the same call? | what to do |\n\
         | --- | --- | --- | --- | --- |\n",
    );
    for &code in Code::ALL {
        let (name, status, title) = (code.as_str(), code.status(), code.title());
        let (repeat, advice) = (repeat(code), advice(code));
        let _ = writeln!(out, "| `{name}` | {status} | {title} | {repeat} | {advice} |");
    }
    out
}

#[test]
fn the_page_of_codes_is_the_table() {
    let page = read(PAGE);
    let (head, rest) = page.split_once(BEGIN).expect("the mark before the table");
    let (found, tail) = rest.split_once(END).expect("the mark after the table");
    let expected = table();
    if std::env::var_os("UPDATE").is_some() {
        let text = format!("{head}{BEGIN}{expected}{END}{tail}");
        std::fs::write(root().join(PAGE), text).expect("written");
        return;
    }
    assert!(found == expected, "{PAGE} is old: run `make openapi`");
}

#[test]
fn a_call_is_repeated_only_where_the_coordinator_says_so() {
    for &code in Code::ALL {
        assert_eq!(repeat(code).starts_with("yes"), code.is_retryable(), "{code:?}");
    }
}

/// The vectors for writers of clients say of each code what the table says.
#[test]
fn the_vectors_agree_with_the_table() {
    let vectors: serde_json::Value =
        serde_json::from_str(&read("docs/vectors.json")).expect("JSON");
    let acquires = vectors["acquires"].as_array().expect("a list");
    let mut known = 0;
    for case in acquires {
        let Some(code) = case["code"].as_str().and_then(Code::named) else { continue };
        assert_eq!(case["status"], code.status(), "{case}");
        assert_eq!(case["retryable"], code.is_retryable(), "{case}");
        let then = case["then"].as_str().expect("a word");
        let expected = match repeat(code) {
            "yes, with the same id" => "same id",
            "yes, with any id" => "not granted",
            "no: use a new id" => "new id",
            _ => "give up",
        };
        assert_eq!(then, expected, "{case}");
        known += 1;
    }
    assert!(known >= 6, "{known}");
}
