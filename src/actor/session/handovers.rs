//! Requests to hand over, and what happens when the holder does not answer.
//!
//! Guarantees: a tenure that is not handed over in time is revoked gracefully, once for each pending request. A
//! deadline never ends a tenure that was not asked to hand over.
//!
//! Does not guarantee: that a deadline survives a restart: it begins again in full.
//!
//! Bounded: at most one entry for each lease and each session with this home node.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures_util::{StreamExt, stream};
use tokio::sync::Notify;

use super::revoke::{self, Asked, Unanswered};
use crate::{
    actor::{runtime::tasks::supervise, world::World},
    clock::HashMap,
    lease::{
        Answer, AskHandover, Change, ChangeKind, Handover, Key, Moment, Nonce, Request, Revoke,
        Token,
    },
};

/// The reason given by the revocation of a tenure that was not handed over.
pub const LATE: &str = "not handed over in time";
/// How many revocations are in progress at once: each is a write.
const AT_ONCE: usize = 64;
/// How long to wait after a failed revocation before the next try.
const RETRY: Duration = Duration::from_secs(1);
/// Deadlines are checked at least this often: their clock counts suspend, and the clock of timers does not.
const LOOK: Duration = Duration::from_secs(1);

/// The pending requests, for leases and sessions with this home node.
#[derive(Default)]
pub struct Handovers {
    standing: Mutex<Standing>,
    changed: Notify,
}

#[derive(Default)]
struct Standing {
    asked: HashMap<Key, Entry>,
    queue: BTreeSet<(Moment, Key)>,
}

/// One pending request.
#[derive(Clone)]
struct Entry {
    /// The token of the tenure that must be handed over.
    token: Token,
    deadline: Moment,
    actor: Box<str>,
}

impl Standing {
    fn remove(&mut self, key: &Key, token: Token) -> Option<Entry> {
        if self.asked.get(key)?.token != token {
            return None;
        }
        let asked = self.asked.remove(key)?;
        self.queue.remove(&(asked.deadline, key.clone()));
        Some(asked)
    }
}

impl Handovers {
    fn standing(&self) -> MutexGuard<'_, Standing> {
        self.standing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts the deadline of a request, unless it has already started.
    fn begin(&self, key: &Key, asked: Entry) {
        let mut standing = self.standing();
        match standing.asked.get(key).cloned() {
            Some(before) if before.token >= asked.token => return,
            Some(before) => drop(standing.remove(key, before.token)),
            None => {}
        }
        standing.queue.insert((asked.deadline, key.clone()));
        standing.asked.insert(key.clone(), asked);
        self.changed.notify_one();
    }

    /// The tenure is over. Returns whether it had been asked to hand over.
    pub(in crate::actor) fn end(&self, key: &Key, token: Token) -> bool {
        self.standing().remove(key, token).is_some()
    }

    /// When a key's holder is revoked.
    fn deadline(&self, key: &Key) -> Option<Moment> {
        self.standing().asked.get(key).map(|asked| asked.deadline)
    }

    /// The time left until then, in milliseconds.
    pub fn left_ms(&self, key: &Key, now: Moment) -> Option<u64> {
        let left = self.deadline(key)?.since(now).as_millis();
        Some(u64::try_from(left).unwrap_or(u64::MAX))
    }

    fn take_due(&self, now: Moment) -> Vec<(Key, Entry)> {
        let mut standing = self.standing();
        let mut due = Vec::new();
        while let Some((at, key)) = standing.queue.first().cloned()
            && at <= now
        {
            standing.queue.pop_first();
            due.extend(standing.asked.remove(&key).map(|asked| (key, asked)));
        }
        due
    }

    fn next(&self) -> Option<Moment> {
        self.standing().queue.first().map(|(at, _)| *at)
    }
}

/// Starts the task, which runs for as long as the process.
pub(in crate::actor) fn start(world: &Arc<World>) {
    supervise(world, "hand-overs", |world| async move { watch(&world).await });
}

async fn watch(world: &Arc<World>) {
    let handovers = &world.sessions.handovers;
    loop {
        let next = handovers.next();
        let pause = next.map_or(LOOK, |at| at.since(world.clock.now()).min(LOOK));
        tokio::select! {
            biased;
            () = handovers.changed.notified() => {}
            () = tokio::time::sleep(pause), if next.is_some() => {}
        }
        let due = handovers.take_due(world.clock.now());
        stream::iter(due)
            .for_each_concurrent(AT_ONCE, |(key, asked)| time_out(world, key, asked))
            .await;
    }
}

/// The holder did not answer: revokes the tenure, as an administrator would.
async fn time_out(world: &Arc<World>, key: Key, asked: Entry) {
    let order = Revoke {
        reason: LATE.into(),
        actor: asked.actor.clone(),
        immediately: false,
        owner: None,
        token: Some(asked.token),
        floor: None,
    };
    match revoke::revoke(world, &key, order, world.now().into()).await {
        Ok(Answer::Revoked(_)) => {
            if !key.is_session() {
                world.metrics_of(key.as_str()).handovers.timed_out.increment(1);
            }
        }
        // The tenure already ended, or another node must end it.
        Ok(Answer::NotHeld(_) | Answer::Elsewhere(_)) | Err(Unanswered::Elsewhere(_)) => {}
        other => {
            let why = format!("{other:?}");
            tracing::debug!(key = key.as_str(), why, "cannot revoke the tenure yet; retrying");
            let deadline = world.clock.now() + RETRY;
            world.sessions.handovers.begin(&key, Entry { deadline, ..asked });
        }
    }
}

impl World {
    /// Asks the holder of a lease to hand it over within the `handover_timeout` of the key's policy. A second request
    /// changes nothing. For a lease that a session keeps, call this on the session's home node.
    ///
    /// # Errors
    /// [`Unanswered`].
    pub async fn ask_handover(
        self: &Arc<Self>,
        key: &Key,
        reason: &str,
        actor: &str,
        asked: Asked,
    ) -> Result<Answer, Unanswered> {
        let timeout_ms = self.rules().of(key.as_str()).0.handover_timeout_ms;
        self.ask_within(key, reason, actor, timeout_ms, asked).await
    }

    /// Asks a session to hand over all its leases within the longest `handover_timeout` of its pool.
    ///
    /// # Errors
    /// [`Unanswered`].
    pub async fn ask_to_drain(
        self: &Arc<Self>,
        session: Nonce,
        pool: Option<&str>,
        actor: &str,
        asked: Asked,
    ) -> Result<Answer, Unanswered> {
        let timeout_ms = self.terms().policies.handover_ms(pool);
        self.ask_within(&Key::of_session(session), "drain", actor, timeout_ms, asked).await
    }

    async fn ask_within(
        self: &Arc<Self>,
        key: &Key,
        reason: &str,
        actor: &str,
        timeout_ms: u64,
        asked: Asked,
    ) -> Result<Answer, Unanswered> {
        let ask = AskHandover { reason: reason.into(), actor: actor.into(), timeout_ms };
        let make = || Request::AskHandover(Box::new(ask.clone()));
        self.ask(key.as_str(), asked, make).await
    }

    /// A request is durable. Starts its deadline if this is the home node of the lease, or of the session that keeps
    /// it.
    pub(in crate::actor) fn asked_to_hand_over(
        &self,
        key: &Key,
        token: Token,
        session: Option<Nonce>,
        ask: &Handover,
    ) {
        let known = match key.session().or(session) {
            None => true,
            Some(digest) => self.sessions.get(digest).is_some_and(|session| {
                session.asked_to_hand_over(key, token, ask);
                true
            }),
        };
        if known {
            let deadline = self.clock.now() + Duration::from_millis(ask.span_ms);
            let asked = Entry { token, deadline, actor: ask.actor.clone() };
            self.sessions.handovers.begin(key, asked);
        }
    }

    /// Handles a change from the feed.
    pub(in crate::actor) fn heard_of_handover(&self, key: &Key, change: &Change) {
        if change.kind == ChangeKind::HandoverRequested {
            // For a lease without a session, its actor starts the deadline.
            if let Some(session) = change.session {
                let rules = self.rules();
                let ask = Handover {
                    reason: change.reason.clone().unwrap_or_default(),
                    actor: change.actor.clone().unwrap_or_default(),
                    span_ms: rules.of(key.as_str()).0.handover_timeout_ms,
                };
                self.asked_to_hand_over(key, change.token, Some(session), &ask);
            }
        } else if change.kind.ends_tenure() && self.sessions.handovers.end(key, change.token) {
            let willing = matches!(change.kind, ChangeKind::Released | ChangeKind::Transferred);
            if willing && !key.is_session() {
                self.metrics_of(key.as_str()).handovers.handed_over.increment(1);
            }
        }
    }
}
