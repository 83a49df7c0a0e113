//! The guard of a session: one heartbeat for many leases.

use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

use reqwest::Method;
use serde::Serialize;
use serde_json::json;
use tokio::sync::watch;

use super::{
    HealthCheck, Opened, Preparation, SessionAlive,
    call::Call,
    error::ClientError,
    guarantee::{Deadline, Loss, Sent},
    handle::Client,
    hold::{Hold, millis},
    keep,
    lease::Lease,
    loads::within,
    session_state::SessionState,
    settle::Granted,
};
use crate::{
    api::{
        BeatBody, BehaviorName, ClosedSession, Code, DrainingSession, SessionBody, SessionDrainBody,
    },
    clock::{Clock, Entropy, SystemEntropy},
    lease::{Moment, ZONE},
};

/// How long a session lasts without a heartbeat, by default.
const TTL: Duration = Duration::from_secs(15);

/// The options of a new session.
#[derive(Clone, Debug, Serialize)]
#[serde(transparent)]
pub struct SessionOptions {
    body: SessionBody,
    #[serde(skip)]
    shared: bool,
}

impl SessionOptions {
    /// The options of a session of this owner.
    #[must_use]
    pub fn new(owner: impl Into<String>) -> Self {
        let body = SessionBody {
            owner: owner.into(),
            ttl_ms: millis(TTL),
            behavior: BehaviorName::Release,
            lock_delay_ms: None,
            pool: None,
            weight: None,
            capacity: None,
            version: None,
            address: None,
            load_limit: None,
            labels: None,
            ready: None,
            checks: Vec::new(),
        };
        Self { body, shared: false }
    }

    /// How long it lasts without a heartbeat; by default 15 s.
    #[must_use]
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.body.ttl_ms = millis(ttl);
        self
    }

    /// The pool that it works for.
    #[must_use]
    pub fn pool(mut self, pool: impl Into<String>) -> Self {
        self.body.pool = Some(pool.into());
        self
    }

    /// Its share of the pool's work relative to other members; by default 1.
    #[must_use]
    pub fn weight(mut self, weight: u32) -> Self {
        self.body.weight = Some(weight);
        self
    }

    /// The most leases of the pool that it has at a time. The rest of its share goes to other members.
    #[must_use]
    pub fn capacity(mut self, capacity: u32) -> Self {
        self.body.capacity = Some(capacity);
        self
    }

    /// The version of the program that it runs. While its pool has members of two versions, keys that come free go to
    /// the newest one.
    #[must_use]
    pub fn version(mut self, version: impl Into<String>) -> Self {
        self.body.version = Some(version.into());
        self
    }

    /// Where it serves its keys, such as `10.0.0.7:8080`. [`Router`](super::Router)s are told it.
    #[must_use]
    pub fn address(mut self, address: impl Into<String>) -> Self {
        self.body.address = Some(address.into());
        self
    }

    /// The highest load that it accepts, in the unit of [`Session::report_load`].
    #[must_use]
    pub fn load_limit(mut self, limit: f64) -> Self {
        self.body.load_limit = Some(within(limit));
        self
    }

    /// Adds a label. Policies say by labels which members may have their keys. A name has 1 to 64 and a value 1 to 128 of
    /// `a-z`, `A-Z`, `0-9`, `-`, `_`, `.`, `/` and `:`; the server refuses others.
    #[must_use]
    pub fn label(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.body.labels.get_or_insert_default().insert(name.into(), value.into());
        self
    }

    /// Where it runs: the label `zone`.
    #[must_use]
    pub fn zone(self, zone: impl Into<String>) -> Self {
        self.label(ZONE, zone)
    }

    /// It has no share of its pool until [`Session::ready`].
    #[must_use]
    pub fn unready(mut self) -> Self {
        self.body.ready = Some(false);
        self
    }

    /// Adds a condition for it to live.
    #[must_use]
    pub fn check(mut self, check: HealthCheck) -> Self {
        self.body.checks.push(check);
        self
    }

    /// Its end deletes the values of its keys.
    #[must_use]
    pub fn delete_values(mut self) -> Self {
        self.body.behavior = BehaviorName::Delete;
        self
    }

    /// Other programs also take leases under its id. Without this, a lease of the session that its guard does not know,
    /// such as one whose grant was lost on the way, is released within seconds.
    #[must_use]
    pub fn shared(self) -> Self {
        Self { shared: true, ..self }
    }

    /// How long its keys stay closed after its end.
    #[must_use]
    pub fn lock_delay(mut self, lock_delay: Duration) -> Self {
        self.body.lock_delay_ms = Some(u32::try_from(lock_delay.as_millis()).unwrap_or(u32::MAX));
        self
    }
}

/// A session that a heartbeat in the background keeps, together with every lease acquired under it.
///
/// Several tasks may share it through an `Arc`. Dropping it ends it and all its leases where that is possible. Only
/// [`Session::close`] tells whether it did.
pub struct Session {
    session_state: Arc<SessionState>,
}

impl Client {
    /// Opens a session.
    ///
    /// If the answer is lost, an unused session remains; it ends with its ttl.
    ///
    /// # Errors
    /// The server's refusal, or that no server could be reached.
    pub async fn open_session(&self, options: SessionOptions) -> Result<Session, ClientError> {
        let call = Call::post("sessions", json!(options));
        let shared = options.shared;
        let sent = Sent::now(self.clock.as_ref());
        let opened: Opened = self.call(&call).await?;
        let session_state = SessionState::new(self.clone(), opened, sent, shared);
        let (kept, chance) = (session_state.clone(), SystemEntropy::new().chance());
        tokio::spawn(async move { keep::keep(&*kept, kept.ttl, chance).await });
        Ok(Session { session_state })
    }
}

impl Session {
    /// Its id, a secret: whoever knows it can end the session and take leases under it. To share the id with other
    /// programs, open the session with [`SessionOptions::shared`].
    #[must_use]
    pub fn id(&self) -> &str {
        &self.session_state.id
    }

    /// The digest: the name of the session that everybody may know.
    #[must_use]
    pub fn digest(&self) -> &str {
        &self.session_state.digest
    }

    /// The owner of the session and of the leases that it keeps.
    #[must_use]
    pub fn owner(&self) -> &str {
        &self.session_state.owner
    }

    /// How long a heartbeat keeps it.
    #[must_use]
    pub fn ttl(&self) -> Duration {
        self.session_state.ttl
    }

    /// How long its keys are kept for its owner after it ended without a drain; `None` if its pool does not keep them.
    #[must_use]
    pub fn rejoin_window(&self) -> Option<Duration> {
        self.session_state.rejoin_window
    }

    /// Whether it is guaranteed to live. Once this is false, it is false forever.
    #[must_use]
    pub fn valid(&self) -> bool {
        self.session_state.guarantee.valid()
    }

    /// The time for which it is guaranteed to live, unless it is renewed.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.session_state.guarantee.remaining()
    }

    /// The current end of the guarantee.
    #[must_use]
    pub fn deadline(&self) -> Deadline {
        self.session_state.guarantee.deadline()
    }

    /// Watches every renewal and every other change. The last value has [`Deadline::lost`].
    #[must_use]
    pub fn deadlines(&self) -> watch::Receiver<Deadline> {
        self.session_state.guarantee.watch()
    }

    /// Resolves when it is over, with the cause. Its leases are then over too.
    pub async fn lost(&self) -> Loss {
        self.session_state.guarantee.lost().await
    }

    /// Resolves when a renewal is overdue, with the time left; never if it is lost before.
    pub async fn at_risk(&self) -> Duration {
        self.session_state.guarantee.at_risk().await
    }

    /// Resolves when all its leases must be handed over, with the time left; never if it is lost before.
    pub async fn handover_requested(&self) -> Duration {
        self.session_state.guarantee.handover_requested().await
    }

    /// Sets the progress of the work that the next heartbeat reports.
    pub fn progress(&self, text: impl Into<String>) {
        self.session_state.set_progress(text.into());
    }

    /// Sets the load of a lease that it keeps, which heartbeats report from now on; in any unit, from 0 to 1 000 000 000.
    /// It counts in a pool with `balance = "load"`. A session's record has room for some 400 keys: of more, the heaviest
    /// are reported.
    pub fn report_load(&self, key: &str, load: f64) {
        self.session_state.loads().set(key, load);
    }

    /// Sets the highest load that it accepts, in the unit of [`Session::report_load`]; `None` for no limit.
    pub fn limit_load(&self, limit: Option<f64>) {
        self.session_state.loads().limit(limit);
    }

    /// Replaces all its labels.
    ///
    /// Once this returns, it is granted no key of its pool that the new labels do not allow. A lease that it holds and that
    /// they do not allow is asked for in a pool with `balance`, if another member can take it.
    ///
    /// # Errors
    /// The server's refusal, or that no server could be reached.
    pub async fn set_labels<N: Into<String>, V: Into<String>>(
        &self,
        labels: impl IntoIterator<Item = (N, V)>,
    ) -> Result<(), ClientError> {
        let labels = labels.into_iter().map(|(name, value)| (name.into(), value.into()));
        let labels: BTreeMap<String, String> = labels.collect();
        self.tell(BeatBody { labels: Some(Some(labels)), ..BeatBody::default() }).await
    }

    /// Says that it takes its share of its pool from now on.
    ///
    /// # Errors
    /// The server's refusal, or that no server could be reached.
    pub async fn ready(&self) -> Result<(), ClientError> {
        self.tell(BeatBody { ready: Some(true), ..BeatBody::default() }).await
    }

    /// Sends a heartbeat with this body, once.
    async fn tell(&self, body: BeatBody) -> Result<(), ClientError> {
        let session_state = &self.session_state;
        let call =
            Call::post("sessions", json!(body)).segment(&session_state.id).segment("heartbeat");
        let _: SessionAlive =
            session_state.client.ask_around(&call, session_state.home.as_ref()).await?;
        Ok(())
    }

    /// How many leases it keeps, as far as is known here.
    #[must_use]
    pub fn count(&self) -> usize {
        self.session_state.count()
    }

    /// Acquires one key under the session, without waiting.
    ///
    /// # Errors
    /// As [`Client::hold`], and `session-lost`.
    pub async fn acquire(&self, key: &str) -> Result<Lease, ClientError> {
        self.hold(Hold::key(key)).await
    }

    /// Acquires one lease under the session: its owner and ttl are the session's.
    ///
    /// # Errors
    /// As [`Client::hold`], and `session-lost`.
    pub async fn hold(&self, hold: Hold) -> Result<Lease, ClientError> {
        let mut leases = self.acquire_any(hold.one()?).await?;
        leases.pop().ok_or_else(|| ClientError::not_understood("no grant"))
    }

    /// Acquires some of several under the session: up to [`Hold::count`], at least one. Of [`Hold::all`], all.
    ///
    /// # Errors
    /// As [`Client::hold`], and `session-lost`.
    pub async fn acquire_any(&self, hold: Hold) -> Result<Vec<Lease>, ClientError> {
        let session_state = &self.session_state;
        let _asked = session_state.ask();
        let ask = hold.ask(Some((&session_state.id, &session_state.owner)));
        let granted = session_state.client.settle(ask, hold.wait, session_state.ttl).await?;
        let guard = |Granted { grant, sent }| {
            Lease::new(
                session_state.client.clone(),
                grant,
                sent,
                session_state.ttl,
                Some(session_state.clone()),
            )
        };
        Ok(granted.into_iter().map(guard).collect())
    }

    /// Says that it leaves. It is granted nothing more of its share of the pool, and its leases must be handed over: all at
    /// once, or, where other members prepare for them first, each when that is requested. Returns the time left for that.
    ///
    /// # Errors
    /// The server's refusal, or that no server could be reached.
    pub async fn drain(&self) -> Result<Duration, ClientError> {
        let session_state = &self.session_state;
        let sent = Sent::now(session_state.client.clock.as_ref());
        let call = Call::post("sessions", json!(SessionDrainBody {}))
            .segment(&session_state.id)
            .segment("drain");
        let answer: DrainingSession =
            session_state.client.ask_around(&call, session_state.home.as_ref()).await?;
        let left = Duration::from_millis(answer.deadline_ms);
        if answer.warm_ms == 0 {
            session_state.drain(sent.at + left);
        } else {
            // Notices ask for the leases one by one, and at last for all that are left.
            session_state.guarantee.hand_over(sent.at + left);
        }
        Ok(left)
    }

    /// What it is asked to prepare for: keys that it is to have next. Says nothing of keys that it has.
    #[must_use]
    pub fn preparations(&self) -> Vec<Preparation> {
        self.session_state.prepares().asked()
    }

    /// Resolves when [`Self::preparations`] changed since `seen` was last read.
    #[must_use]
    pub fn preparations_changed(&self) -> watch::Receiver<u64> {
        self.session_state.prepares().changes()
    }

    /// Says that it is prepared for a key: the holder is then asked to hand it over. Whoever waits for the key by then, with
    /// [`Self::hold`] and [`Hold::wait`], is granted it by the write that ends the holder's tenure.
    pub fn prepared(&self, preparation: &Preparation) {
        self.session_state.prepared(&preparation.key, preparation.token);
    }

    pub(super) fn is_to_have(&self, key: &str, token: u64) -> bool {
        self.session_state.prepares().is_asked(key, token)
    }

    pub(super) fn now(&self) -> Moment {
        self.session_state.client.clock.now()
    }

    /// Asks for all its leases to be handed over, without telling the server.
    pub(super) fn ask_for_all(&self, within: Duration) {
        self.session_state.drain(self.now() + within);
    }

    /// Ends it and all its leases, which are invalid from the call on. Returns true when this ended it, false when it
    /// was already over.
    ///
    /// # Errors
    /// When no server could be told: it ends with its ttl.
    pub async fn close(&self) -> Result<bool, ClientError> {
        self.session_state.end();
        close(&self.session_state).await
    }
}

async fn close(session_state: &SessionState) -> Result<bool, ClientError> {
    let call = Call::new(Method::DELETE, "sessions").segment(&session_state.id);
    let call = call.timeout(session_state.ttl.min(Duration::from_secs(5)));
    match session_state.client.ask_around(&call, session_state.home.as_ref()).await {
        Ok(ClosedSession { destroyed }) => Ok(destroyed),
        Err(error) if error.code() == Some(Code::SessionLost) => Ok(false),
        Err(error) => Err(error),
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Session");
        shown.field("digest", &self.digest()).field("deadline", &self.deadline());
        shown.finish_non_exhaustive()
    }
}

impl Drop for Session {
    /// A lost session is not closed, so that the fences that its end requires run.
    fn drop(&mut self) {
        if !self.session_state.end() {
            return;
        }
        let session_state = self.session_state.clone();
        let background = self.session_state.client.background.clone();
        background.run(&self.session_state.runtime, async move {
            if let Err(error) = close(&session_state).await {
                tracing::debug!(session = session_state.digest, %error, "a dropped session is left to its ttl");
            }
        });
    }
}
