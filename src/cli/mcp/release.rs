//! The tool `release`: gives a key back.

use std::sync::Arc;

use serde_json::json;

use super::{
    answer::Answer,
    arguments::Arguments,
    end_of_lease::{end, to_end},
    holder::Holder,
    view::quoted,
};

/// Serves a call.
pub(super) async fn release(holder: &Arc<Holder>, mut given: Arguments) -> Result<Answer, Answer> {
    let (key, value, reason) = (given.key()?, given.value()?, given.reason()?);
    given.end()?;
    let lease = to_end(holder, &key)?;
    let ending = lease.clone();
    let ended =
        end(
            holder,
            &lease,
            async move { ending.give_back(value.as_deref(), reason.as_deref()).await },
        );
    let released = ended.await?;
    let name = quoted(&key);
    let message = if released {
        format!("{name} is released. Do not write under token {} any more.", lease.token())
    } else {
        format!("{name} was released before. Do not write under token {} any more.", lease.token())
    };
    Ok(Answer::done(message, json!({ "key": key, "released": released, "token": lease.token() })))
}
