//! Asks holders to hand over.

use super::service::SessionService;
use crate::{
    actor::runtime::ask::{Asked, Unanswered},
    lease::{Answer, AskHandover, Key, Nonce, Request},
};

/// Asks the holder of a lease to hand it over within the `handover_timeout` of the key's policy. A second request
/// changes nothing. For a lease that a session keeps, call this on the session's home node.
///
/// # Errors
/// [`Unanswered`].
pub async fn ask_handover(
    service: &SessionService,
    key: &Key,
    reason: &str,
    actor: &str,
    asked: Asked,
) -> Result<Answer, Unanswered> {
    let timeout_ms = service.environment.policy_table().of(key.as_str()).0.handover_timeout_ms;
    let ask = AskHandover { reason: reason.into(), actor: actor.into(), timeout_ms };
    send(service, key, &ask, asked).await
}

/// Asks a session to hand over all its leases within the longest `handover_timeout` of its pool, after the time in which
/// others prepare for them.
///
/// # Errors
/// [`Unanswered`].
pub async fn ask_to_drain(
    service: &SessionService,
    session: Nonce,
    pool: Option<&str>,
    actor: &str,
    asked: Asked,
) -> Result<Answer, Unanswered> {
    let timeout_ms = service.environment.node_context().policies.drain_ms(pool);
    let ask = AskHandover { reason: "drain".into(), actor: actor.into(), timeout_ms };
    send(service, &Key::of_session(session), &ask, asked).await
}

async fn send(
    service: &SessionService,
    key: &Key,
    ask: &AskHandover,
    asked: Asked,
) -> Result<Answer, Unanswered> {
    let make = || Request::AskHandover(Box::new(ask.clone()));
    service.registry.ask(key.as_str(), asked, make).await
}
