//! Revokes tenures that were asked to hand over and did not do so in time.
//!
//! Guarantees: such a tenure is revoked gracefully, once for each pending request. A deadline never ends a tenure that
//! was not asked to hand over.

use std::{sync::Arc, time::Duration};

use futures_util::{StreamExt, stream};

use super::{handovers::Pending, revoke::revoke, service::SessionService};
use crate::{
    actor::runtime::ask::Unanswered,
    lease::{Answer, Key, Revoke},
};

/// The reason given by the revocation of a tenure that was not handed over.
const LATE: &str = "not handed over in time";
/// How many revocations are in progress at once: each is a write.
const AT_ONCE: usize = 64;
/// How long to wait after a failed revocation before the next try.
const RETRY: Duration = Duration::from_secs(1);
/// Deadlines are checked at least this often: their clock counts suspend, and the clock of timers does not.
const LOOK: Duration = Duration::from_secs(1);

/// Runs for as long as the process.
pub async fn watch_deadlines(service: &Arc<SessionService>) {
    let (handovers, clock) = (&service.sessions.handovers, &service.environment.clock);
    loop {
        let next = handovers.next();
        let pause = next.map_or(LOOK, |at| at.since(clock.now()).min(LOOK));
        tokio::select! {
            biased;
            () = handovers.added() => {}
            () = tokio::time::sleep(pause), if next.is_some() => {}
        }
        let due = handovers.take_due(clock.now());
        stream::iter(due)
            .for_each_concurrent(AT_ONCE, |(key, asked)| time_out(service, key, asked))
            .await;
    }
}

/// The holder did not answer: revokes the tenure, as an administrator would.
async fn time_out(service: &SessionService, key: Key, asked: Pending) {
    let order = Revoke {
        reason: LATE.into(),
        actor: asked.actor.clone(),
        immediately: false,
        owner: None,
        token: Some(asked.token),
        floor: None,
    };
    let environment = &service.environment;
    match revoke(service, &key, order, environment.now().into()).await {
        Ok(Answer::Revoked(_)) => {
            if !key.is_session() {
                environment.metrics_of(key.as_str()).handovers.timed_out.increment(1);
            }
        }
        // The tenure already ended, or another node must end it.
        Ok(Answer::NotHeld(_) | Answer::Elsewhere(_)) | Err(Unanswered::Elsewhere(_)) => {}
        other => {
            let why = format!("{other:?}");
            tracing::debug!(key = key.as_str(), why, "cannot revoke the tenure yet; retrying");
            let deadline = environment.clock.now() + RETRY;
            service.sessions.handovers.add(&key, Pending { deadline, ..asked });
        }
    }
}
