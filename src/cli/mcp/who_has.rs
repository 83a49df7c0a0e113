//! The tool `who_has`: the public view of a key.

use super::{answer::Answer, arguments::Arguments, holder::Holder, view};

/// Serves a call.
pub(super) async fn who_has(holder: &Holder, mut given: Arguments) -> Result<Answer, Answer> {
    let key = given.key()?;
    given.end()?;
    let lease = holder.look(&key).await?;
    let yours = holder.holds(&key, lease.token);
    let mut message = view::sentence(&lease, yours);
    if let Some(value) = lease.value.as_deref().filter(|_| !yours) {
        message += &format!(" {}", view::left(value));
    }
    Ok(Answer::done(message, view::data(&lease, yours)))
}
