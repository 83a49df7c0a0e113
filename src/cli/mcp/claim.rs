//! The tool `claim`: takes a key for the agent, at once or by waiting in its queue.

use std::time::Duration;

use serde_json::json;
use tokio::time::timeout;

use super::{
    answer::{Answer, Claimed},
    arguments::{Arguments, TTL_SECONDS, WAIT_SECONDS},
    holder::{ANSWER, Holder, MOST_LEASES},
    view::{self, quoted, seconds},
};
use crate::{
    api::Code,
    client::{ClientError, Hold, Lease, Problem},
};

/// What the agent asks for.
struct Claim {
    key: String,
    ttl: Duration,
    wait: Duration,
    value: Option<String>,
}

fn read(holder: &Holder, mut given: Arguments) -> Result<Claim, Answer> {
    let claim = Claim {
        key: given.key()?,
        ttl: given.seconds("ttl_seconds", &TTL_SECONDS)?.unwrap_or(holder.ttl),
        wait: given.seconds("wait_seconds", &WAIT_SECONDS)?.unwrap_or_default(),
        value: given.value()?,
    };
    given.end()?;
    Ok(claim)
}

/// Serves a call. If it is dropped, what it may have been granted is given back in the background.
pub(super) async fn claim(holder: &Holder, given: Arguments) -> Result<Answer, Answer> {
    let Claim { key, ttl, wait, value } = read(holder, given)?;
    if let Some(lease) = holder.lease(&key).filter(|lease| lease.valid()) {
        return Err(already(&lease));
    }
    if !holder.has_room() {
        let message =
            format!("Not claimed. You hold {MOST_LEASES} keys already: release some first.");
        return Err(Answer::failed(message, json!({ "key": key, "claimed": false })));
    }
    let hold = Hold::key(&key).owner(&holder.owner).ttl(ttl).wait(wait);
    let hold = match &value {
        Some(value) => hold.value(value),
        None => hold,
    };
    let lease = match timeout(wait + ANSWER, holder.client.hold(hold)).await {
        Ok(Ok(lease)) => lease,
        Ok(Err(error)) => return Err(refused(&key, wait, &error)),
        Err(_) => return Err(Answer::silent(&format!("{} is not claimed.", quoted(&key)))),
    };
    let Some(lease) = holder.keep(lease) else {
        let message = "Not claimed. This server ends.";
        return Err(Answer::failed(message, json!({ "key": key, "claimed": false })));
    };
    Ok(claimed(&lease, value.is_none()))
}

/// The answer of a claim that was granted. A value that the agent brought is not one that the last holder left.
fn claimed(lease: &Lease, inherits: bool) -> Answer {
    let (key, token) = (lease.key(), lease.token());
    let left = lease.value().filter(|_| inherits);
    let valid_for = seconds(lease.remaining());
    let mut message = format!(
        "You hold {} under token {token}. Send this token with every write that you make under \
         this claim; the resource must refuse lower ones. You may rely on the claim for \
         {valid_for} s; this server renews it until you release it. Call `extend` before a step \
         that must not happen twice, and `release` when you are done.",
        quoted(key)
    );
    let mut data = json!({
        "key": key,
        "claimed": true,
        "token": token,
        "owner": lease.owner(),
        "valid_for_seconds": valid_for,
        "ttl_seconds": seconds(lease.ttl()),
    });
    if let Some(value) = left {
        message += &format!(" {}", view::left(value));
        data["value"] = json!(value);
    }
    Answer::done(message, data).of_claim(Claimed { key: key.to_owned(), token })
}

/// Another call of this process holds the key.
fn already(lease: &Lease) -> Answer {
    let (key, token) = (lease.key(), lease.token());
    let message = format!(
        "Not claimed again: you hold {} already, under token {token}. If you claimed it earlier, \
         go on with this token. If another agent of the same client claimed it, that agent is at \
         work on it: leave it alone until it is released.",
        quoted(key)
    );
    let data = json!({
        "key": key,
        "claimed": false,
        "code": Code::HeldByYou.as_str(),
        "yours": true,
        "token": token,
        "valid_for_seconds": seconds(lease.remaining()),
    });
    Answer::failed(message, data)
}

/// The server did not grant it.
fn refused(key: &str, wait: Duration, error: &ClientError) -> Answer {
    let what = format!("{} is not claimed.", quoted(key));
    let Some(problem) = error.problem() else { return Answer::refused(&what, error) };
    match problem.known() {
        Some(Code::Held | Code::Cooling | Code::Fencing | Code::NoneAvailable) => {
            taken(key, wait, problem)
        }
        Some(Code::HeldByYou) => {
            let message = format!(
                "{what} Another process holds it under your owner name. Each agent needs an owner \
                 name of its own: whoever starts this server sets it with --owner or \
                 TENURE_OWNER."
            );
            let data = json!({ "key": key, "claimed": false, "code": problem.code });
            Answer::failed(message, data)
        }
        Some(Code::InvalidField) if problem.field.as_deref() == Some("ttl_ms") => {
            let why = format!("is not accepted by the server: {problem}");
            Answer::wrong("ttl_seconds", &why)
        }
        _ => Answer::refused(&what, error),
    }
}

/// Somebody else has it, or it is closed for a while.
fn taken(key: &str, wait: Duration, problem: &Problem) -> Answer {
    let found = match &problem.lease {
        Some(lease) => view::sentence(lease, false),
        None => view::foreign_text(&problem.to_string()),
    };
    let next = if wait.is_zero() {
        "Call `claim` with wait_seconds to stand in its queue, or `wait` until the holder is done"
    } else {
        "The time is up. Call `claim` again to wait longer, at the end of the queue"
    };
    let message = format!("Not claimed: do not work on it. {found} {next}.");
    let mut data = match &problem.lease {
        Some(lease) => view::data(lease, false),
        None => json!({ "key": key }),
    };
    data["claimed"] = json!(false);
    data["code"] = json!(problem.code);
    data["retryable"] = json!(true);
    Answer::failed(message, data)
}
