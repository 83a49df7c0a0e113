//! Writes what a member says of itself into its session's record.

use super::{service::SessionService, session::Session};
use crate::{
    actor::runtime::ask::{Asked, Unanswered},
    lease::{Announced, Answer, Heartbeat, Key, LeaseId, Request},
};

/// Changes what the record of a session whose home node this is says of the member. Counts as a heartbeat. One change is
/// made at a time, so none undoes another.
///
/// # Errors
/// [`Unanswered`].
pub async fn write_announced(
    service: &SessionService,
    session: &Session,
    proof: LeaseId,
    asked: Asked,
    change: impl FnOnce(Announced) -> Announced,
) -> Result<Answer, Unanswered> {
    let _writing = session.reported.record.lock().await;
    let before = service.pools.announced(session.digest).unwrap_or_default();
    let announced = change(before.clone());
    // An empty object says that there is nothing to say: the earlier value must not stay.
    let value = announced.to_value().or_else(|| Some("{}".into()));
    let key = Key::of_session(session.digest);
    let beat = Heartbeat { value, ..Heartbeat::new(proof) };
    let answer =
        service.registry.ask(key.as_str(), asked, || Request::Heartbeat(beat.clone())).await?;
    if matches!(answer, Answer::Alive { .. }) && announced != before {
        service.pools.announces(session.digest, &announced);
    }
    Ok(answer)
}
