//! Revokes tenures.

use std::time::Duration;

use super::service::SessionService;
use crate::{
    actor::runtime::ask::{Asked, Unanswered},
    lease::{Answer, Key, KeyState, Moment, Nonce, Request, Revoke, Token},
};

/// How often a revocation is repeated after the tenure changed.
const ATTEMPTS: u32 = 20;

/// Revokes a tenure. For one that a session keeps, first waits for the session's promises that cover it.
///
/// # Errors
/// [`Unanswered`].
pub async fn revoke(
    service: &SessionService,
    key: &Key,
    order: Revoke,
    asked: Asked,
) -> Result<Answer, Unanswered> {
    for _ in 0..ATTEMPTS {
        let answer = send(service, key, &order, asked).await?;
        let Answer::KeptBySession(session, token) = answer else { return Ok(answer) };
        let floor = Some(cover(service, session, (key, token), asked).await?);
        // The promises of one session do not cover a tenure that another session keeps by now.
        let covered = Revoke { floor, token: Some(token), ..order.clone() };
        match send(service, key, &covered, asked).await? {
            Answer::NotHeld(_) if order.token.is_none() => {}
            answer => return Ok(answer),
        }
    }
    Err(Unanswered::Arriving)
}

async fn send(
    service: &SessionService,
    key: &Key,
    order: &Revoke,
    asked: Asked,
) -> Result<Answer, Unanswered> {
    let make = || Request::Revoke(Box::new(order.clone()));
    service.registry.ask(key.as_str(), asked, make).await
}

/// R6: returns when the promises of a session that cover one of its leases have run out. From now on its heartbeats say
/// that they do not keep that lease.
async fn cover(
    service: &SessionService,
    digest: Nonce,
    (key, token): (&Key, Token),
    asked: Asked,
) -> Result<Moment, Unanswered> {
    let of_session = Key::of_session(digest);
    let announced = service.sessions.get(digest);
    if let Some(session) = &announced {
        session.announce_revoked(key, token);
    }
    let view = match service.registry.ask(of_session.as_str(), asked, || Request::View).await? {
        Answer::Viewed(view) => view,
        other => return Err(Unanswered::Other(other)),
    };
    if view.elsewhere {
        return Err(Unanswered::Elsewhere(view.node.unwrap_or_default()));
    }
    if view.state == KeyState::Held && announced.is_none() {
        // The session was adopted a moment ago.
        return Err(Unanswered::Arriving);
    }
    // `expires_in_ms` is rounded down to whole milliseconds, and was read before now.
    let left = Duration::from_millis(view.expires_in_ms.unwrap_or(0) + 1);
    Ok(service.environment.clock.now() + left)
}
