//! Asking the actor of a key from within, and ordering a tenure to end.

use std::{sync::Arc, time::Duration};

use super::{Mail, Reply, Unreachable, World};
use crate::lease::{Answer, Call, Key, Moment, Nonce, Request, Revoke, State, Token};

/// How often a call is asked again when the actor that got it died, or an order when the tenure is another.
const ATTEMPTS: u32 = 20;
/// For so long after an actor died, a write of its may become durable.
const MAY_LAND: Duration = Duration::from_secs(10);

/// When a call arrived, and what was tried already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    /// When it arrived: waiting counts for the holder.
    pub received: Moment,
    /// The lease is said to be at home at a node that cannot be reached.
    pub owner_unreachable: bool,
}

impl From<Moment> for Asked {
    fn from(received: Moment) -> Self {
        Self { received, owner_unreachable: false }
    }
}

/// Why a call has no answer of its key.
#[derive(Debug)]
pub enum Unanswered {
    /// The key rests until this moment.
    Resting(Moment),
    /// The arbiters are not there yet, or not any more.
    NoArbiter,
    /// Actor after actor died; or one did, whose write may yet be durable.
    Died,
    /// What would have to be asked is at home at this other node.
    Elsewhere(Nonce),
    /// The session that keeps the lease came to be at home here a moment ago.
    Arriving,
    /// Its session's actor answered this.
    Other(Answer),
}

impl World {
    /// Asks the key's actor, and its successor should it die before it answers. `make` gives the same
    /// request each time.
    pub async fn ask(
        self: &Arc<Self>,
        key: &str,
        Asked { received, owner_unreachable }: Asked,
        make: impl Fn() -> Request,
    ) -> Result<Answer, Unanswered> {
        let mut died = None;
        for attempt in 0..ATTEMPTS {
            let (caller, answer) = Reply::one();
            let call = Call { caller, received, request: make(), owner_unreachable };
            match self.registry.post(self, key, Mail::Call(call)) {
                Ok(()) => {}
                Err(Unreachable::Resting(until)) => return Err(Unanswered::Resting(until)),
                Err(Unreachable::NoArbiter) => return Err(Unanswered::NoArbiter),
            }
            match answer.await {
                // What the actor that died was writing may be a grant to this very call.
                Ok(Answer::Refused(..))
                    if died.is_some_and(|died| self.clock.now() < died + MAY_LAND) =>
                {
                    return Err(Unanswered::Died);
                }
                Ok(answer) => return Ok(answer),
                Err(_) => {
                    died = Some(self.clock.now());
                    tokio::time::sleep(Duration::from_millis(u64::from(attempt))).await;
                }
            }
        }
        Err(Unanswered::Died)
    }
}

/// Ends a tenure; one that a session keeps, when what the session promised of it has run out.
pub(crate) async fn revoke(
    world: &Arc<World>,
    key: &Key,
    order: Revoke,
    asked: Asked,
) -> Result<Answer, Unanswered> {
    for _ in 0..ATTEMPTS {
        let make = || Request::Revoke(Box::new(order.clone()));
        let answer = world.ask(key.as_str(), asked, make).await?;
        let Answer::KeptBySession(session, token) = answer else { return Ok(answer) };
        let floor = Some(cover(world, session, (key, token), asked).await?);
        // What one session promised says nothing of a tenure that another one keeps by now.
        let covered = Revoke { floor, token: Some(token), ..order.clone() };
        let make = || Request::Revoke(Box::new(covered.clone()));
        match world.ask(key.as_str(), asked, make).await? {
            Answer::NotHeld(_) if order.token.is_none() => {}
            answer => return Ok(answer),
        }
    }
    Err(Unanswered::Arriving)
}

/// R6: when the promises of a session that cover one of its leases have run out: from now on its
/// heartbeats say that they do not keep that one.
async fn cover(
    world: &Arc<World>,
    digest: Nonce,
    (key, token): (&Key, Token),
    asked: Asked,
) -> Result<Moment, Unanswered> {
    let of_session = Key::of_session(digest);
    let announced = world.sessions.get(digest);
    if let Some(session) = &announced {
        session.announce_revoked(key, token);
    }
    let view = match world.ask(of_session.as_str(), asked, || Request::View).await? {
        Answer::Viewed(view) => view,
        other => return Err(Unanswered::Other(other)),
    };
    if view.elsewhere {
        return Err(Unanswered::Elsewhere(view.node.unwrap_or_default()));
    }
    if view.state == State::Held && announced.is_none() {
        // It was adopted a moment ago.
        return Err(Unanswered::Arriving);
    }
    // Cut to whole milliseconds, and read before now.
    let left = Duration::from_millis(view.expires_in_ms.unwrap_or(0) + 1);
    Ok(world.clock.now() + left)
}
