//! The tool `list`: what this holder claimed and has not given back.

use serde_json::{Value, json};

use super::{
    answer::Answer,
    arguments::Arguments,
    holder::Holder,
    loss,
    view::{quoted, seconds},
};
use crate::client::Lease;

/// Serves a call.
pub(super) fn list(holder: &Holder, given: Arguments) -> Result<Answer, Answer> {
    given.end()?;
    let leases = holder.all();
    let (texts, leases): (Vec<String>, Vec<Value>) =
        leases.iter().map(|lease| shown(holder, lease)).unzip();
    let owner = &holder.owner;
    let message = if texts.is_empty() {
        format!("You are the owner {}, and hold nothing.", quoted(owner))
    } else {
        format!("You are the owner {}.\n{}", quoted(owner), texts.join("\n"))
    };
    Ok(Answer::done(message, json!({ "owner": owner, "leases": leases })))
}

/// A lease as a sentence and as data.
fn shown(holder: &Holder, lease: &Lease) -> (String, Value) {
    let (key, token) = (lease.key(), lease.token());
    if !lease.valid()
        && let Some(cause) = lease.deadline().lost
    {
        holder.told(key);
        return (loss::stop(lease, cause), loss::data(lease, cause));
    }
    let (left, at_risk) = (seconds(lease.remaining()), lease.deadline().at_risk);
    let mut text =
        format!("You hold {} under token {token}, for {left} s unless renewed.", quoted(key));
    let mut data = json!({
        "key": key,
        "token": token,
        "held": true,
        "valid_for_seconds": left,
        "ttl_seconds": seconds(lease.ttl()),
        "at_risk": at_risk,
    });
    if at_risk {
        text += " Renewals fail at the moment: call `extend`.";
    }
    if let Some(left) = holder.hand_over_within(lease).map(seconds) {
        text += &format!(" It must be handed over within {left} s: call `hand_over`.");
        data["hand_over_within_seconds"] = json!(left);
    }
    (text, data)
}
