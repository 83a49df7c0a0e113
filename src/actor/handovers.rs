//! Who was asked to hand over, and what becomes of it when nobody answers.
//!
//! Guarantees: whoever does not answer in time is ordered to end, gracefully, once for each request that
//! stands; a tenure that was not asked is never ended by the deadline of one that was.
//!
//! Does not guarantee: that a deadline survives a restart: it begins again in full.
//!
//! Bounded: at most one entry for each lease, and each session, that is at home here.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures_util::{StreamExt, stream};
use tokio::sync::Notify;

use super::{Asked, Unanswered, World, orders, tasks::supervise};
use crate::{
    clock::HashMap,
    lease::{
        Answer, AskHandover, Change, ChangeKind, Handover, Key, Moment, Nonce, Request, Revoke,
        Token,
    },
};

/// What an order for want of an answer says.
pub const LATE: &str = "not handed over in time";
/// Orders given at a time: each is a write.
const AT_ONCE: usize = 64;
/// An order that could not be given is tried again after this.
const RETRY: Duration = Duration::from_secs(1);
/// The clock of deadlines counts suspend, and that of timers does not: it is looked at so often.
const LOOK: Duration = Duration::from_secs(1);

/// The requests that stand, of leases and sessions that are at home here.
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

/// One of them.
#[derive(Clone)]
struct Entry {
    /// Of which tenure.
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

    /// The deadline of a request begins, unless it has begun.
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

    /// The tenure is over. Whether it had been asked to end so.
    pub(super) fn end(&self, key: &Key, token: Token) -> bool {
        self.standing().remove(key, token).is_some()
    }

    /// When a key's holder is ordered to end.
    fn deadline(&self, key: &Key) -> Option<Moment> {
        self.standing().asked.get(key).map(|asked| asked.deadline)
    }

    /// Milliseconds until then.
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

/// Goes on for as long as the process does.
pub(super) fn start(world: &Arc<World>) {
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

/// Nobody answered: the holder is ordered to end, as by an administrator.
async fn time_out(world: &Arc<World>, key: Key, asked: Entry) {
    let order = Revoke {
        reason: LATE.into(),
        actor: asked.actor.clone(),
        immediately: false,
        owner: None,
        token: Some(asked.token),
        floor: None,
    };
    match orders::revoke(world, &key, order, world.now().into()).await {
        Ok(Answer::Revoked(_)) => {
            if !key.is_session() {
                world.metrics_of(key.as_str()).handovers.timed_out.increment(1);
            }
        }
        // It ended of its own accord, or is another node's to end.
        Ok(Answer::NotHeld(_) | Answer::Elsewhere(_)) | Err(Unanswered::Elsewhere(_)) => {}
        other => {
            let why = format!("{other:?}");
            tracing::debug!(key = key.as_str(), why, "a hand-over cannot be ended yet");
            let deadline = world.clock.now() + RETRY;
            world.sessions.handovers.begin(&key, Entry { deadline, ..asked });
        }
    }
}

impl World {
    /// Asks the holder of a lease to hand it over, within the time-out of the key's policy. Asking twice is the
    /// same as once. Of a lease that a session keeps, the session's home is to ask.
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

    /// Asks a session to hand over all that it keeps, within the longest time-out of its pool.
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

    /// A request is durable. Its deadline is counted here, where this is the home of the lease, or of the
    /// session that keeps it.
    pub(super) fn asked_to_hand_over(
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

    /// The feed brought a change.
    pub(super) fn heard_of_handover(&self, key: &Key, change: &Change) {
        if change.kind == ChangeKind::HandoverRequested {
            // That of a lease without a session is counted by its actor.
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
