//! Leases and grants.

use crate::{
    api::{Counts, Grant, Lease},
    clock::rfc3339,
    http::app::App,
    lease::{Grant as Granted, Key, View},
    manager::Availability,
};

impl Lease {
    pub(in crate::http) fn of(app: &App, key: &Key, view: &View) -> Self {
        Self {
            key: key.as_str().to_owned(),
            state: if view.quarantined { "held" } else { view.state.as_str() },
            owner: view.owner.as_ref().map(|owner| owner.as_str().to_owned()),
            token: view.token.0,
            ttl_ms: view.ttl_ms,
            expires_in_ms: view.expires_in_ms,
            acquired_at: view.acquired_at_ms.map(rfc3339),
            session: view.session.map(|digest| digest.to_string()),
            value: view.value.as_deref().map(str::to_owned),
            pool: app.manager.pool_of(key.as_str()),
            node: app.url_of(view.node),
            waiters: view.waiters,
            pinned: !view.pins.is_empty(),
            offered_to: view.offered_to.as_ref().map(|owner| owner.as_str().to_owned()),
            fences: view.fences.iter().map(ToString::to_string).collect(),
            former_owner: view.fenced.as_ref().map(|owner| owner.as_str().to_owned()),
            fence_failed: view.fence_failed,
        }
    }
}

impl Grant {
    pub(in crate::http) fn of(app: &App, key: &Key, grant: &Granted) -> Self {
        Self {
            lease: Lease::of(app, key, &grant.view),
            lease_id: grant.lease_id.reveal(),
            valid_for_ms: grant.valid_for_ms,
        }
    }
}

impl Counts {
    pub(in crate::http) fn of(counts: &Availability) -> Self {
        let Availability { keys, held, held_by_you, offered, cooling, fencing, next_ms, behind: _ } =
            *counts;
        Self { keys, held, held_by_you, offered, cooling, fencing, next_ms }
    }
}
