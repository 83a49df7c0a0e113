//! The changes of who has the keys of a pool, for routers.

use std::sync::Arc;

use bytes::{BufMut as _, Bytes, BytesMut};
use serde::Serialize;

use super::cloud_event::cursor;
use crate::{
    api::{self, RoutedMember},
    http::app::App,
    lease::{Key, Nonce},
    manager::{Manager, Roster, Route, RouteState, Routed, watch},
    store::Committed,
};

impl api::Route {
    pub(in crate::http) fn of(manager: &Manager, key: &Key, route: Route) -> Self {
        let address = route.session.and_then(|session| manager.address_of(session));
        Self {
            key: key.to_string(),
            state: match route.state {
                RouteState::Held => api::RouteState::Held,
                RouteState::HandingOver => api::RouteState::HandingOver,
                RouteState::Free => api::RouteState::Free,
                RouteState::Gone => api::RouteState::Gone,
            },
            owner: route.owner.map(|owner| owner.to_string()),
            token: route.token.0,
            seq: route.seq,
            session: route.session.map(|session| session.to_string()),
            address: address.map(Into::into),
        }
    }
}

/// Renders a change as a `route` event, or as nothing if it does not say who has the key.
pub fn render_route(app: &App, committed: &Committed) -> Bytes {
    let Some(route) = Route::of_change(&committed.change) else { return Bytes::new() };
    let id = cursor(&app.source, committed.position);
    frame(Some(&id), "route", &api::Route::of(&app.manager, &committed.key, route))
}

fn frame(id: Option<&str>, event: &str, data: &impl Serialize) -> Bytes {
    let mut out = BytesMut::with_capacity(256);
    if let Some(id) = id {
        out.put_slice(format!("id: {id}\n").as_bytes());
    }
    out.put_slice(format!("event: {event}\ndata: ").as_bytes());
    let mut out = out.writer();
    // A write into memory does not fail.
    let _ = serde_json::to_writer(&mut out, data);
    let mut out = out.into_inner();
    out.put_slice(b"\n\n");
    out.freeze()
}

/// The members of a pool, as far as a subscriber was told of them.
pub struct Told {
    members: watch::Receiver<Arc<Roster>>,
    told: Arc<Roster>,
}

impl Told {
    /// With the events that tell of all members.
    pub fn new(members: watch::Receiver<Arc<Roster>>) -> (Self, Bytes) {
        let mut told = Self { told: Arc::default(), members };
        let first = told.news();
        (told, first)
    }

    /// Resolves when there is more to tell.
    pub async fn changed(&mut self) {
        if self.members.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// The `member` events that tell of the members that came, went, or have another address.
    pub fn news(&mut self) -> Bytes {
        let (now, before) = (self.members.get(), self.told.clone());
        if Arc::ptr_eq(&now, &before) {
            return Bytes::new();
        }
        let mut out = BytesMut::new();
        for (session, routed) in before.iter().filter(|(session, _)| !now.contains_key(session)) {
            out.extend_from_slice(&member(*session, routed, true));
        }
        for (session, routed) in now.iter() {
            if before.get(session) != Some(routed) {
                out.extend_from_slice(&member(*session, routed, false));
            }
        }
        self.told = now;
        out.freeze()
    }
}

fn member(session: Nonce, routed: &Routed, gone: bool) -> Bytes {
    let member = RoutedMember {
        session: session.to_string(),
        owner: routed.owner.to_string(),
        address: routed.address.as_deref().map(str::to_owned),
        gone,
    };
    frame(None, "member", &member)
}
