//! The tool `hand_over`: gives a key to the next holder, with a value.

use std::sync::Arc;

use serde_json::json;

use super::{
    answer::Answer,
    arguments::Arguments,
    end_of_lease::{end, to_end},
    holder::Holder,
    view::{self, quoted, seconds},
};

/// Serves a call.
pub(super) async fn hand_over(
    holder: &Arc<Holder>,
    mut given: Arguments,
) -> Result<Answer, Answer> {
    let (key, to) = (given.key()?, given.owner("to")?);
    let (value, reason) = (given.value()?, given.reason()?);
    given.end()?;
    let lease = to_end(holder, &key)?;
    let (ending, next) = (lease.clone(), to.clone());
    let ended = end(holder, &lease, async move {
        ending.hand_over(next.as_deref(), value.as_deref(), reason.as_deref()).await
    });
    let (ended, token) = (ended.await?, lease.token());
    let name = quoted(&key);
    let mut message = match (ended, &to) {
        (false, _) => format!("{name} was given back before: nothing is handed over."),
        (true, Some(to)) => {
            let (to, kept) = (quoted(to), seconds(lease.ttl()));
            format!(
                "{name} goes to {to}: at once if it waits in the queue, and else it is kept for {to} \
                 for {kept} s, until it claims the key."
            )
        }
        (true, None) => {
            format!("{name} is handed over to the first in its queue, if there is one.")
        }
    };
    message += &format!(" Do not write under token {token} any more.");
    let mut data = json!({ "key": key, "handed_over": ended, "token": token });
    // Whoever may hand a key over may still not be allowed to read it.
    if let Ok(now) = holder.look(&key).await {
        message += &format!(" Now: {}", view::sentence(&now, false));
        data["now"] = view::data(&now, false);
    }
    Ok(Answer::done(message, data))
}
