//! What workers and administrators ask of a node, and what they are told: the calls of the door.

use tenure::{
    lease::{
        Announced, Grant, Heartbeat, Key, Labels, Owner, PoolOrder, Release, Revoke, SessionId,
        SessionSpec, Transfer,
        reports::{Report, load_of},
    },
    manager::{
        AcquireAll, AcquireAny, AcquireError, AcquireOne, AdminError, Alive, Asked, CallError,
        HolderError, Home, Manager, SessionAlive, SessionError, UNCOUNTED,
    },
};

#[derive(Clone, Debug)]
pub enum Ask {
    Acquire(AcquireOne),
    Any(AcquireAny),
    All(AcquireAll),
    /// What an earlier acquire-any was granted, as far as it is at home there.
    Part(AcquireAny),
    Beat(Key, Heartbeat),
    Release(Key, Release),
    Transfer(Key, Transfer),
    Open(Owner, u64, SessionSpec, Announced),
    Ready(SessionId),
    Label(SessionId, Labels),
    /// With the keys that the member holds, whose loads it reports.
    BeatSession(SessionId, u64, Vec<Key>),
    /// It is prepared for these keys.
    Prepared(SessionId, Vec<Key>),
    DrainSession(SessionId),
    CloseSession(SessionId),
    Revoke(Key, Revoke),
    Pin(Key),
    Unpin(Key),
    SkipFences(Key),
    DrainOwner(Owner),
    /// Something for the pool.
    OrderPool(PoolOrder),
    Handover(Key),
    /// The token of whoever holds the key.
    Holder(Key),
}

#[derive(Clone, Debug)]
pub enum Got {
    Grants(Vec<(Key, Grant)>),
    Alive(Alive),
    Released(bool),
    Transferred,
    Opened(SessionId, u64),
    SessionAlive(SessionAlive),
    Holder(Option<u64>),
    Ordered,
    /// The lease or session is lost.
    Lost(String),
    /// A no that is final.
    No(String),
    /// A no that says to come again: it may have been carried out.
    Later(String),
    /// To a node: its caller's turn has come.
    Turn,
    /// To a node: the lease has yet another home.
    Moved,
}

/// A no, and who is to be asked instead.
pub struct Problem {
    pub home: Option<Home>,
    pub got: Got,
}

impl From<CallError> for Problem {
    fn from(error: CallError) -> Self {
        assert_ne!(error, CallError::Unexpected, "no operation gets an answer that it cannot use");
        let got = match error {
            CallError::Invalid(_) => Got::No(error.to_string()),
            _ => Got::Later(error.to_string()),
        };
        let home = if let CallError::Elsewhere(home) = error { Some(home) } else { None };
        Self { home, got }
    }
}

fn no(error: &dyn std::fmt::Display) -> Problem {
    Problem { home: None, got: Got::No(error.to_string()) }
}

impl From<AcquireError> for Problem {
    fn from(error: AcquireError) -> Self {
        match error {
            AcquireError::Session(error) => error.into(),
            AcquireError::Call(error) => error.into(),
            // Without the view: histories are to be read.
            AcquireError::Refused(why, _) => no(&format!("{why:?}")),
            error => no(&error),
        }
    }
}

impl From<SessionError> for Problem {
    fn from(error: SessionError) -> Self {
        match error {
            SessionError::Lost(lost) => {
                Self { home: None, got: Got::Lost(format!("session: {lost:?}")) }
            }
            SessionError::Call(error) => error.into(),
        }
    }
}

impl From<HolderError> for Problem {
    fn from(error: HolderError) -> Self {
        match error {
            HolderError::Lost(lost) => Self { home: None, got: Got::Lost(format!("{lost:?}")) },
            HolderError::NotHolder(_) => Self { home: None, got: Got::Lost(error.to_string()) },
            HolderError::Call(error) => error.into(),
            error => no(&error),
        }
    }
}

impl From<AdminError> for Problem {
    fn from(error: AdminError) -> Self {
        match error {
            AdminError::Call(error) => error.into(),
            error => no(&error),
        }
    }
}

impl Ask {
    /// How long the call may wait in a queue, in milliseconds.
    pub fn wait_ms(&self) -> u64 {
        match self {
            Self::Acquire(one) => one.wait_ms,
            Self::Any(any) => any.wait_ms,
            Self::All(all) => all.wait_ms,
            _ => 0,
        }
    }

    /// Acts at this node. An acquire and an acquire-any are [`super::door`]'s.
    pub async fn act(&self, manager: &Manager, asked: Asked) -> Result<Got, Problem> {
        Ok(match self.clone() {
            Self::Any(any) => Got::Grants(manager.acquire_any(&any, asked.received).await?.grants),
            Self::All(all) => {
                let taken = manager.acquire_all(&all, asked.received).await;
                Got::Grants(taken.map_err(|not_all| not_all.error)?)
            }
            Self::Part(any) => {
                Got::Grants(manager.granted_here(&any, asked.received, UNCOUNTED).await?)
            }
            Self::Beat(key, beat) => {
                Got::Alive(manager.heartbeat(key.as_str(), beat, asked).await?)
            }
            Self::Release(key, release) => {
                Got::Released(manager.release(key.as_str(), release, asked).await?)
            }
            Self::Transfer(key, transfer) => {
                manager.transfer(key.as_str(), transfer, asked).await?;
                Got::Transferred
            }
            Self::Open(owner, ttl_ms, spec, announced) => {
                let opened = manager.open_member(&owner, ttl_ms, spec, &announced, asked).await?;
                Got::Opened(opened.id, opened.valid_for_ms)
            }
            Self::BeatSession(id, step, keys) => {
                let progress = step.to_string();
                let alive = manager.beat_session(id, Some(&progress), asked).await?;
                // Some keys are heavier than others, and each gets heavier and lighter.
                let load = |key: &Key| {
                    let of_key: u64 = key.as_str().bytes().map(u64::from).sum();
                    load_of(((of_key + step) % 7) as f64)
                };
                let loads: Vec<_> =
                    keys.into_iter().map(|key| (key.clone(), Some(load(&key)))).collect();
                if !loads.is_empty() {
                    manager.report_loads(
                        id,
                        Some(&Report { loads, limit: None }),
                        asked.received,
                    )?;
                }
                Got::SessionAlive(alive)
            }
            Self::Ready(id) => {
                manager.ready_session(id, asked).await?;
                Got::Ordered
            }
            Self::Prepared(id, keys) => {
                let noted = manager.note_prepared(id, &keys);
                noted.map_err(CallError::Invalid)?;
                Got::Ordered
            }
            Self::Label(id, labels) => {
                manager.label_session(id, &labels, asked).await?;
                Got::Ordered
            }
            Self::DrainSession(id) => {
                manager.drain_session(id, asked).await?;
                Got::Ordered
            }
            Self::CloseSession(id) => Got::Released(manager.close_session(id, asked).await?),
            _ => return self.order(manager, asked).await,
        })
    }

    /// What administrators ask.
    async fn order(&self, manager: &Manager, asked: Asked) -> Result<Got, Problem> {
        match self.clone() {
            Self::Revoke(key, revoke) => drop(manager.revoke(&key, revoke, asked).await?),
            Self::Pin(key) => drop(manager.pin(&key, "sim", "admin", asked).await?),
            Self::Unpin(key) => drop(manager.unpin(&key, "sim", "admin", asked).await?),
            Self::SkipFences(key) => {
                drop(manager.skip_fences(&key, "sim", "admin", asked).await?);
            }
            Self::OrderPool(order) => {
                manager.order_pool("pool", &order, None, ("sim", "admin"), asked).await?;
            }
            Self::DrainOwner(owner) => drop(manager.drain_owner(&owner, "admin", asked).await?),
            Self::Handover(key) => {
                manager.ask_handover(&key, "sim", "admin", asked).await?;
            }
            Self::Holder(key) => {
                let view = manager.view(&key).await?;
                return Ok(Got::Holder(view.owner.map(|_| view.token.0)));
            }
            other => unreachable!("{other:?}"),
        }
        Ok(Got::Ordered)
    }
}
