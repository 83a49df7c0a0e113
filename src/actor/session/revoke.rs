//! Asks a key's actor from within the process, and revokes tenures.

use std::{sync::Arc, time::Duration};

use crate::{
    actor::{
        mail::{Mail, Reply},
        runtime::registry::Unreachable,
        world::World,
    },
    lease::{Answer, Call, Key, Moment, Nonce, Request, Revoke, State, Token},
};

/// How often a call is repeated after the actor that got it died, or a revocation after the tenure changed.
const ATTEMPTS: u32 = 20;
/// A write of an actor that died may become durable for this long afterwards.
const MAY_LAND: Duration = Duration::from_secs(10);

/// When a call arrived, and what was already tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    /// When the call arrived: the time spent waiting counts in the holder's favour.
    pub received: Moment,
    /// The lease's home node is said to be another one that cannot be reached.
    pub owner_unreachable: bool,
}

impl From<Moment> for Asked {
    fn from(received: Moment) -> Self {
        Self { received, owner_unreachable: false }
    }
}

/// Why a call got no answer from its key.
#[derive(Debug)]
pub enum Unanswered {
    /// The key rests until this moment.
    Resting(Moment),
    /// The arbiters do not run yet, or no longer.
    NoArbiter,
    /// Actor after actor died; or one died whose write may still become durable.
    Died,
    /// This other node is the home node of what must be asked.
    Elsewhere(Nonce),
    /// This node became the home node of the session that keeps the lease a moment ago.
    Arriving,
    /// The session's actor gave this answer.
    Other(Answer),
}

impl World {
    /// Asks the key's actor, or its successor if the actor dies before it answers. `make` must give the same request
    /// each time.
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
                // The actor that died may have been writing a grant to this very call.
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

/// Revokes a tenure. For one that a session keeps, first waits for the session's promises that cover it.
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
        // The promises of one session do not cover a tenure that another session keeps by now.
        let covered = Revoke { floor, token: Some(token), ..order.clone() };
        let make = || Request::Revoke(Box::new(covered.clone()));
        match world.ask(key.as_str(), asked, make).await? {
            Answer::NotHeld(_) if order.token.is_none() => {}
            answer => return Ok(answer),
        }
    }
    Err(Unanswered::Arriving)
}

/// R6: returns when the promises of a session that cover one of its leases have run out. From now on its heartbeats say
/// that they do not keep that lease.
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
        // The session was adopted a moment ago.
        return Err(Unanswered::Arriving);
    }
    // `expires_in_ms` is rounded down to whole milliseconds, and was read before now.
    let left = Duration::from_millis(view.expires_in_ms.unwrap_or(0) + 1);
    Ok(world.clock.now() + left)
}
