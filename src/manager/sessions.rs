//! Sessions: one heartbeat for many leases.

use std::time::Duration;

use super::{
    Manager,
    checks::{MAX_VALUE_BYTES, check_new},
    error::{CallError, Invalid, SessionError},
    looks::Looks,
};
use crate::{
    actor::{Asked, Preparation, Session, ask_to_drain, write_announced},
    lease::{
        Acquire, Announced, Answer, Heartbeat, Holdings, Key, KeyState, Labels, Lost, Nonce, Owner,
        Release, SessionId, SessionSpec, Token, View, Warmups,
    },
    store::Pages,
};

/// The longest progress in a heartbeat, in bytes.
pub const MAX_PROGRESS_BYTES: usize = 256;
/// How many sessions are read at a time.
const PAGE: usize = 1000;
/// How many times, and after which pause, a session that was adopted is looked up until it is attached.
const ATTACH_TRIES: u32 = 20;
const ATTACH_PAUSE: Duration = Duration::from_millis(5);

/// The public view of a session.
#[derive(Clone, Debug)]
pub struct SessionView {
    /// The digest, by which everybody may name the session.
    pub digest: Nonce,
    /// The view of its own lease: owner, ttl, home node.
    pub view: View,
    /// What the request that made it specified.
    pub spec: SessionSpec,
    /// The count and digest of its leases. `None` if another node is its home node.
    pub holdings: Option<Holdings>,
}

/// A session that was made.
#[derive(Clone, Debug)]
pub struct Opened {
    /// The secret that authorizes its heartbeats.
    pub id: SessionId,
    /// How long the session is promised, in milliseconds from before the request was sent, on the caller's clock.
    pub valid_for_ms: u64,
    /// What everybody may see of the session.
    pub session: SessionView,
}

/// A heartbeat that was absorbed.
#[derive(Clone, Debug)]
pub struct SessionAlive {
    /// How long every lease of the session is held, except those in `revoked`: in milliseconds from before the
    /// heartbeat was sent.
    pub valid_for_ms: u64,
    /// The count and digest of its leases.
    pub holdings: Holdings,
    /// Tenures that an administrator revoked: this heartbeat does not keep them.
    pub revoked: Vec<(Key, Token)>,
    /// What the session is asked to hand over.
    pub asks: Asks,
}

/// What a session is asked to hand over.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Asks {
    /// Tenures, each with the time until it is revoked, in milliseconds.
    pub leases: Vec<(Key, Token, u64)>,
    /// If the session is asked to hand over all its leases: the time until it is revoked, in milliseconds.
    pub all: Option<u64>,
    /// A newer session of its owner is the member of its pool, and takes its leases.
    pub replaced: bool,
    /// The keys that it is to prepare for.
    pub prepare: Vec<Preparation>,
}

impl Manager {
    /// Makes a session. It lives for as long as its heartbeats arrive and its checks pass.
    ///
    /// # Errors
    /// [`SessionError`].
    pub async fn open_session(
        &self,
        owner: &Owner,
        ttl_ms: u64,
        spec: SessionSpec,
        asked: impl Into<Asked>,
    ) -> Result<Opened, SessionError> {
        self.open_member(owner, ttl_ms, spec, &Announced::default(), asked).await
    }

    /// Makes a session whose holder says more of itself.
    ///
    /// # Errors
    /// [`SessionError`].
    pub async fn open_member(
        &self,
        owner: &Owner,
        ttl_ms: u64,
        spec: SessionSpec,
        announced: &Announced,
        asked: impl Into<Asked>,
    ) -> Result<Opened, SessionError> {
        check_new("owner", owner.as_str())?;
        for (field, said) in [("version", &announced.version), ("address", &announced.address)] {
            check_new(field, said.as_deref().unwrap_or_default())?;
        }
        self.check_spec(&spec)?;
        let spec = self.as_member(spec);
        let digest = self.coordinator.entropy.nonce();
        let key = Key::of_session(digest);
        self.check_ttl(key.as_str(), "ttl_ms", ttl_ms)?;
        let request = self.request(owner, ttl_ms);
        let value = announced.to_value();
        let acquire = Acquire { spec: Some(Box::new(spec.clone())), value, ..request };
        let claim = self.claim(owner, &key)?;
        let grant = match self.ask_to_own(&key, acquire, asked.into()).await? {
            Answer::Granted(grant) => {
                claim.end(Some(grant.view.token));
                *grant
            }
            Answer::Refused(..) => return Err(SessionError::Lost(Lost::UnknownLease)),
            other => return Err(CallError::of("open a session", other).into()),
        };
        self.coordinator.metrics.sessions_opened.increment(1);
        let id = SessionId { digest, proof: grant.lease_id };
        let holdings = Some(Holdings { count: 0, digest: 0 });
        let session = SessionView { digest, view: grant.view, spec, holdings };
        Ok(Opened { id, valid_for_ms: grant.valid_for_ms, session })
    }

    /// A member's keys stay shut for at least the rejoin window of its pool.
    fn as_member(&self, spec: SessionSpec) -> SessionSpec {
        let Some(pool) = spec.pool.as_deref() else { return spec };
        if !self.coordinator.protocol.keys_wait_for_their_member() {
            return spec;
        }
        let policies = &self.coordinator.node_context().policies;
        let lock_delay_ms = policies.member_lock_delay_ms(pool, spec.lock_delay_ms);
        SessionSpec { lock_delay_ms, ..spec }
    }

    fn check_spec(&self, spec: &SessionSpec) -> Result<(), Invalid> {
        if let Some(pool) = &spec.pool {
            self.check_pool(pool)?;
        }
        let (weight, most) = (spec.weight, self.limits.weight);
        if !(1..=most).contains(&weight) {
            let detail = format!("is {weight}; it must be from 1 to {most} (limits.weight)");
            return Err(Invalid { field: "weight", detail });
        }
        let bytes = spec.stored_bytes();
        if bytes > MAX_VALUE_BYTES {
            let detail = format!(
                "and the other fields need {bytes} bytes; at most {MAX_VALUE_BYTES} are allowed"
            );
            return Err(Invalid { field: "checks", detail });
        }
        Ok(())
    }

    /// Keeps a session, and with it all its leases.
    ///
    /// # Errors
    /// [`SessionError`].
    pub async fn beat_session(
        &self,
        id: SessionId,
        progress: Option<&str>,
        asked: impl Into<Asked>,
    ) -> Result<SessionAlive, SessionError> {
        check_progress(progress)?;
        let (session, valid_for_ms) = self.beat(id, asked.into()).await?;
        if let Some(progress) = progress {
            session.progressed(progress);
        }
        let (holdings, revoked) = (session.holdings(), session.revoked());
        Ok(SessionAlive { valid_for_ms, holdings, revoked, asks: self.asks_of(&session) })
    }

    /// From now on the member takes leases. Counts as a heartbeat.
    ///
    /// # Errors
    /// [`SessionError`], also if the session joined no pool.
    pub async fn ready_session(
        &self,
        id: SessionId,
        asked: impl Into<Asked>,
    ) -> Result<(), SessionError> {
        let asked = asked.into();
        let (session, _) = self.beat(id, asked).await?;
        if session.spec.pool.is_none() {
            let detail = "needs a session that joined a pool".to_owned();
            return Err(Invalid { field: "ready", detail }.into());
        }
        let pools = &self.coordinator.pools;
        if !pools.announced(session.digest).is_some_and(|it| it.unready) {
            return Ok(());
        }
        let change = |announced| Announced { unready: false, ..announced };
        self.announce(&session, id, asked, change).await
    }

    /// From now on the member has these labels. Counts as a heartbeat. When this returns, every call of the member that
    /// waits for keys has looked again which of them it may be granted.
    ///
    /// # Errors
    /// [`SessionError`], also if the session joined no pool.
    pub async fn label_session(
        &self,
        id: SessionId,
        labels: &Labels,
        asked: impl Into<Asked>,
    ) -> Result<(), SessionError> {
        let asked = asked.into();
        let (session, _) = self.beat(id, asked).await?;
        let Some(pool) = session.spec.pool.as_deref() else {
            let detail = "needs a session that joined a pool".to_owned();
            return Err(Invalid { field: "labels", detail }.into());
        };
        let pools = &self.coordinator.pools;
        if pools.announced(session.digest).is_none_or(|it| it.labels != *labels) {
            let change = |announced| Announced { labels: labels.clone(), ..announced };
            self.announce(&session, id, asked, change).await?;
        }
        pools.looked_again(pool).await;
        Ok(())
    }

    /// Changes what a member says of itself.
    async fn announce(
        &self,
        session: &Session,
        id: SessionId,
        asked: Asked,
        change: impl FnOnce(Announced) -> Announced,
    ) -> Result<(), SessionError> {
        let service = &self.coordinator.session_service;
        let written = write_announced(service, session, id.proof, asked, change).await;
        match self.answered(written)? {
            Answer::Alive { .. } => Ok(()),
            Answer::Lost(lost) => Err(SessionError::Lost(lost)),
            other => Err(CallError::of("change a member", other).into()),
        }
    }

    pub(super) fn asks_of(&self, session: &Session) -> Asks {
        let (now, handovers) = (self.now(), &self.coordinator.sessions.handovers);
        // A tenure whose deadline has passed is being revoked at this moment.
        let left = |key: &Key| handovers.left_ms(key, now).unwrap_or(0);
        let replaced = session.was_replaced() && self.coordinator.pools.is_replaced(session.digest);
        let all = session.drained_by().is_some().then(|| left(&Key::of_session(session.digest)));
        let all = all.filter(|left_ms| !self.is_asked_one_by_one(session, *left_ms));
        let pool = session.spec.pool.as_deref();
        let warmups = pool.and_then(|pool| self.coordinator.policy_table().warmups(pool));
        let prepare = pool.zip(warmups).map(|(pool, Warmups { timeout_ms, .. })| {
            self.coordinator.pools.preparations(pool, session.digest, timeout_ms, now)
        });
        let ask = |(key, token): (Key, Token)| {
            let left = left(&key);
            (key, token, left)
        };
        let leases = session.asked().into_iter().map(ask).collect();
        Asks { leases, all, replaced, prepare: prepare.unwrap_or_default() }
    }

    /// Whether a session that leaves hands its leases over one by one, because other members prepare for them first.
    fn is_asked_one_by_one(&self, session: &Session, left_ms: u64) -> bool {
        let Some(pool) = session.spec.pool.as_deref() else { return false };
        let policies = &self.coordinator.node_context().policies;
        policies.warmups(pool).is_some()
            && left_ms > policies.handover_ms(Some(pool))
            && self.coordinator.pools.holds_unasked(pool, session.digest)
    }

    /// How long a session that leaves within `left_ms` is asked for its leases one by one, in milliseconds.
    #[must_use]
    pub fn warm_ms(&self, id: SessionId, left_ms: u64) -> u64 {
        let session = self.coordinator.sessions.get(id.digest);
        let Some(session) = session.filter(|it| self.is_asked_one_by_one(it, left_ms)) else {
            return 0;
        };
        let policies = &self.coordinator.node_context().policies;
        left_ms.saturating_sub(policies.handover_ms(session.spec.pool.as_deref()))
    }

    /// Notes that a member of a pool is prepared for these keys. Those that it was not asked to prepare for do not count.
    ///
    /// # Errors
    /// [`Invalid`] if the session joined no pool.
    pub fn note_prepared(&self, id: SessionId, keys: &[Key]) -> Result<(), Invalid> {
        let Some(session) = self.coordinator.sessions.get(id.digest) else { return Ok(()) };
        let Some(pool) = session.spec.pool.as_deref() else {
            let detail = "needs a session that joined a pool".to_owned();
            return Err(Invalid { field: "prepared", detail });
        };
        self.coordinator.pools.prepared(pool, id.digest, keys);
        Ok(())
    }

    /// Drains a session: asks it, in its owner's name, to hand over all its leases, and grants it nothing more of its
    /// pool. Counts as a heartbeat. Returns the time until what is left is revoked, in milliseconds.
    ///
    /// # Errors
    /// [`SessionError`].
    pub async fn drain_session(
        &self,
        id: SessionId,
        asked: impl Into<Asked>,
    ) -> Result<u64, SessionError> {
        let asked = asked.into();
        let (session, _) = self.beat(id, asked).await?;
        let (pool, owner) = (session.spec.pool.as_deref(), session.owner.as_str());
        match self.ask_to_drain(id.digest, pool, owner, asked).await? {
            Answer::Done(_) => {}
            Answer::NotHeld(_) => return Err(SessionError::Lost(Lost::UnknownLease)),
            other => return Err(CallError::of("drain a session", other).into()),
        }
        let of_session = Key::of_session(id.digest);
        let left = self.coordinator.sessions.handovers.left_ms(&of_session, self.now());
        Ok(left.unwrap_or_else(|| self.coordinator.node_context().policies.drain_ms(pool)))
    }

    pub(super) async fn ask_to_drain(
        &self,
        session: Nonce,
        pool: Option<&str>,
        actor: &str,
        asked: Asked,
    ) -> Result<Answer, CallError> {
        let service = &self.coordinator.session_service;
        self.answered(ask_to_drain(service, session, pool, actor, asked).await)
    }

    /// Absorbs one heartbeat of a session whose home node is this one.
    pub(super) async fn beat(
        &self,
        id: SessionId,
        asked: Asked,
    ) -> Result<(std::sync::Arc<Session>, u64), SessionError> {
        let key = Key::of_session(id.digest);
        let alive = self.heartbeat(key.as_str(), Heartbeat::new(id.proof), asked).await?;
        let mut session = self.coordinator.sessions.get(id.digest);
        for _ in 0..ATTACH_TRIES {
            if session.is_some() {
                break;
            }
            // The actor of an adopted session answers a moment before the session is attached here.
            tokio::time::sleep(ATTACH_PAUSE).await;
            session = self.coordinator.sessions.get(id.digest);
        }
        let session = session.ok_or(CallError::IndexingSession)?;
        // Nothing may be promised before it is known which of its leases were revoked at a dead home node.
        if !session.indexed().await {
            return Err(CallError::IndexingSession.into());
        }
        Ok((session, alive.valid_for_ms))
    }

    /// Resolves when a session ends, with the error for a call that waits under it.
    pub(super) async fn session_ends(&self, id: SessionId) -> SessionError {
        // A session that is not known has ended meanwhile.
        if let Some(session) = self.coordinator.sessions.get(id.digest) {
            session.ended().await;
        }
        let found = self.beat(id, self.now().into()).await;
        found.err().unwrap_or(SessionError::Lost(Lost::UnknownLease))
    }

    /// Ends a session and all its leases.
    ///
    /// # Errors
    /// [`SessionError`].
    pub async fn close_session(
        &self,
        id: SessionId,
        asked: impl Into<Asked>,
    ) -> Result<bool, SessionError> {
        let release = Release::new(id.proof);
        let key = Key::of_session(id.digest);
        Ok(self.release(key.as_str(), release, asked).await?)
    }

    /// The public view of a session. `None` if it is over or never existed.
    ///
    /// # Errors
    /// [`CallError`] when the store cannot be read.
    pub async fn session(&self, digest: Nonce) -> Result<Option<SessionView>, CallError> {
        let view = self.view(&Key::of_session(digest)).await?;
        Ok(self.shown(digest, view))
    }

    fn shown(&self, digest: Nonce, view: View) -> Option<SessionView> {
        if view.state != KeyState::Held {
            return None;
        }
        let spec = (**view.spec.as_ref()?).clone();
        let known = self.coordinator.sessions.get(digest).filter(|_| !view.elsewhere);
        let holdings = known.map(|session| session.holdings());
        Some(SessionView { digest, view, spec, holdings })
    }

    /// A page of living sessions, in the order of their digests. `looks` counts the records that the search looks at.
    ///
    /// # Errors
    /// [`CallError`] when the store cannot be read.
    pub async fn sessions(
        &self,
        owner: Option<&Owner>,
        after: Option<Nonce>,
        limit: usize,
        sees: impl Fn(&SessionView) -> bool,
        looks: Looks<'_>,
    ) -> Result<(Vec<SessionView>, Option<Nonce>), CallError> {
        let after = after.map(|digest| Key::of_session(digest).as_str().to_owned());
        let mut pages =
            Pages::of(&*self.coordinator.store, Key::session_prefix(), PAGE).after(after);
        let mut listed = Vec::new();
        while let Some(page) = pages.next().await? {
            looks(page.len());
            for (key, found) in page {
                let Some(digest) = key.session() else { continue };
                let view = self.view_found(&key, found).await?;
                let of =
                    |wanted: &Owner| view.owner.as_ref().is_some_and(|it| it.has_name_of(wanted));
                if owner.is_none_or(of) {
                    listed.extend(self.shown(digest, view).filter(&sees));
                }
                if listed.len() == limit {
                    return Ok((listed, Some(digest)));
                }
            }
        }
        Ok((listed, None))
    }
}

/// Checks that the progress is at most [`MAX_PROGRESS_BYTES`] long.
pub(crate) fn check_progress(progress: Option<&str>) -> Result<(), Invalid> {
    match progress.filter(|text| text.len() > MAX_PROGRESS_BYTES) {
        Some(text) => {
            let detail =
                format!("is {} bytes long; at most {MAX_PROGRESS_BYTES} are allowed", text.len());
            Err(Invalid { field: "progress", detail })
        }
        None => Ok(()),
    }
}
