//! Requests, as sentences.

use tenure::lease::{
    Acquire, AskHandover, GiveBack, Heartbeat, LeaseId, Moment, Nonce, Owner, Release, Request,
    Revoke, SessionRef, Token, Transfer,
};

/// The ttl of whoever does not say.
pub const TTL_MS: u64 = 10_000;

/// The reason of every end that does not wait for the holder's last promise.
pub const AT_ONCE: &str = "at once";

pub fn owner(name: &str) -> Owner {
    Owner::new(name).unwrap()
}

/// An acquire to be.
#[derive(Clone, Debug)]
pub struct Ask(pub Acquire);

pub fn acquire(name: &str) -> Ask {
    Ask(Acquire {
        owner: owner(name),
        ttl_ms: TTL_MS,
        value: None,
        reclaim: false,
        allow_stale: false,
        wait_until: None,
        since: Moment::NEVER,
        grant_nonce: Nonce::default(),
        mark: None,
        session_ref: None,
        min_hold_ms: 0,
        spec: None,
        place: false,
        permit: false,
        pool: None,
    })
}

impl Ask {
    pub fn ttl_ms(mut self, ttl_ms: u64) -> Self {
        self.0.ttl_ms = ttl_ms;
        self
    }

    pub fn value(mut self, value: &str) -> Self {
        self.0.value = Some(value.into());
        self
    }

    pub fn min_hold_ms(mut self, min_hold_ms: u64) -> Self {
        self.0.min_hold_ms = min_hold_ms;
        self
    }

    pub fn reclaiming(mut self) -> Self {
        self.0.reclaim = true;
        self
    }

    pub fn waiting_until(mut self, until: Moment) -> Self {
        self.0.wait_until = Some(until);
        self
    }

    /// An earlier call under the same request id waited since this moment.
    pub fn since(mut self, since: Moment) -> Self {
        self.0.since = since;
        self
    }

    /// A place in the queue, for a caller at another node.
    pub fn place(mut self) -> Self {
        self.0.place = true;
        self
    }

    /// Only while the key is a permit.
    pub fn permit(mut self) -> Self {
        self.0.permit = true;
        self
    }

    /// Only while the key belongs to this pool.
    pub fn of_pool(mut self, pool: &str) -> Self {
        self.0.pool = Some(pool.into());
        self
    }

    /// To be kept by a session.
    pub fn kept_by(mut self, session_ref: SessionRef) -> Self {
        self.0.session_ref = Some(session_ref);
        self
    }

    /// With a request id, and the digest of the rest of the request.
    pub fn id(mut self, id: u128, body: u64) -> Self {
        self.0.mark = Some((id, body));
        self
    }
}

impl From<Ask> for Request {
    fn from(ask: Ask) -> Self {
        Self::Acquire(Box::new(ask.0))
    }
}

pub fn heartbeat(lease_id: LeaseId) -> Request {
    Request::Heartbeat(Heartbeat::new(lease_id))
}

pub fn heartbeat_with(lease_id: LeaseId, value: Option<&str>, ttl_ms: Option<u64>) -> Request {
    let value = value.map(Into::into);
    Request::Heartbeat(Heartbeat { value, ttl_ms, ..Heartbeat::new(lease_id) })
}

pub fn release(lease_id: LeaseId) -> Request {
    Request::Release(Release::new(lease_id))
}

/// By the coordinator, for a caller that no answer reached.
pub fn give_back(lease_id: LeaseId) -> Request {
    Request::GiveBack(GiveBack::unmarked(lease_id))
}

/// The same for a caller that may repeat its call.
pub fn give_back_of(lease_id: LeaseId, granter: Nonce) -> Request {
    Request::GiveBack(GiveBack { lease_id, granter: Some(granter), goes_on: false })
}

pub fn transfer(lease_id: LeaseId, to: &str) -> Request {
    let offer_ms = Some(5_000);
    Request::Transfer(Box::new(Transfer {
        lease_id,
        to: Some(owner(to)),
        offer_ms,
        value: None,
        reason: None,
    }))
}

/// To whoever is next, with a last value.
pub fn hand_over(lease_id: LeaseId, value: Option<&str>) -> Request {
    let value = value.map(Into::into);
    Request::Transfer(Box::new(Transfer {
        lease_id,
        to: None,
        offer_ms: None,
        value,
        reason: None,
    }))
}

/// How long a holder has that is asked to hand over.
pub const HANDOVER_MS: u64 = 30_000;

pub fn ask_handover() -> Request {
    Request::AskHandover(Box::new(AskHandover {
        reason: "balance".into(),
        actor: "balancer".into(),
        timeout_ms: HANDOVER_MS,
    }))
}

pub fn revoke() -> Request {
    Request::Revoke(Box::new(Revoke {
        reason: "maintenance".into(),
        actor: "root".into(),
        immediately: false,
        owner: None,
        token: None,
        floor: None,
    }))
}

pub fn revoke_of(token: Token) -> Request {
    let Request::Revoke(order) = revoke() else { unreachable!() };
    Request::Revoke(Box::new(Revoke { token: Some(token), ..*order }))
}

pub fn revoke_immediately() -> Request {
    let Request::Revoke(mut revoke) = revoke() else { unreachable!() };
    revoke.immediately = true;
    revoke.reason = AT_ONCE.into();
    Request::Revoke(revoke)
}

pub fn pin(by: &str) -> Request {
    Request::Pin(by.into(), "root".into())
}

pub fn unpin(by: &str) -> Request {
    Request::Unpin(by.into(), "root".into())
}
