//! Calls for several leases, or for one of several: which node answers them.

use std::time::Duration;

use actix_web::{HttpRequest, HttpResponse};
use bytes::Bytes;

use crate::{
    api::{AnyGrant, Grant, Grants},
    http::{
        answer::Problem, app::App, following::keeps, forward::relay_waiting, peer::was_forwarded,
    },
    lease::{Grant as Granted, Key, Moment, SessionId},
    manager::{AcquireAll, AcquireAny, AcquireError, CallError, Home, SessionError},
};

/// A call that one node answers, wherever the keys are at home.
pub struct Call<'a, W> {
    pub request: &'a HttpRequest,
    pub app: &'a App,
    pub bytes: &'a Bytes,
    pub received: Moment,
    /// What it asks for.
    pub wanted: W,
}

/// What such calls ask for.
pub trait WantedLeases {
    /// How long the call may wait, in milliseconds.
    fn wait_ms(&self) -> u64;

    /// The request id, if one node serves all calls with it. A session's home node serves the calls under the session.
    fn served_id(&self) -> Option<u128>;
}

impl WantedLeases for AcquireAny {
    fn wait_ms(&self) -> u64 {
        self.wait_ms
    }

    fn served_id(&self) -> Option<u128> {
        served_id(self.mark, self.session)
    }
}

impl WantedLeases for AcquireAll {
    fn wait_ms(&self) -> u64 {
        self.wait_ms
    }

    fn served_id(&self) -> Option<u128> {
        served_id(self.mark, self.session)
    }
}

fn served_id(mark: Option<(u128, u64)>, session: Option<SessionId>) -> Option<u128> {
    mark.filter(|_| session.is_none()).map(|(id, _)| id)
}

impl<W: WantedLeases> Call<'_, W> {
    /// How long it may wait.
    pub fn wait(&self) -> Duration {
        Duration::from_millis(self.wanted.wait_ms()).min(self.app.manager.limits().wait_max)
    }

    /// The node that serves the call's request id, if it is another one.
    pub fn server(&self) -> Option<Home> {
        let id = self.wanted.served_id()?;
        if was_forwarded(self.request) || self.app.manager.is_draining() {
            return None;
        }
        self.app.manager.server_of(id)
    }

    /// The answer of another node.
    ///
    /// # Errors
    /// The node cannot be reached.
    pub async fn answer_of(&self, server: &Home) -> Result<HttpResponse, Problem> {
        let answer = self.relay(server).await;
        answer.ok_or_else(|| Problem::server_unreachable(server))
    }

    /// R6: a session's home node grants the leases that the session keeps. Its answer, if the call failed here since that
    /// is another node.
    pub async fn answer_of_session(&self, error: &AcquireError) -> Option<HttpResponse> {
        match error {
            AcquireError::Session(SessionError::Call(CallError::Elsewhere(home)))
                if !was_forwarded(self.request) =>
            {
                self.relay(home).await
            }
            _ => None,
        }
    }

    async fn relay(&self, home: &Home) -> Option<HttpResponse> {
        relay_waiting(self.request, self.app, home, self.bytes.clone(), self.wait()).await
    }

    /// The document of what this node granted. A stream that the call came by follows it.
    pub fn grants(&self, grants: &[(Key, Granted)]) -> Grants {
        for (key, grant) in grants {
            keeps(self.request, key.as_str(), grant.view.token);
        }
        let grants = grants.iter().map(|(key, grant)| Grant::of(self.app, key, grant));
        Grants { grants: grants.map(AnyGrant::Own).collect() }
    }
}
