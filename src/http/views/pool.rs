//! Pools and their members.

use crate::{
    actor::MemberView,
    http::{
        app::App,
        wire::{PoolMember, PoolWire},
    },
    manager::PoolShown,
};

impl PoolMember {
    fn of(app: &App, member: &MemberView) -> Self {
        let MemberView { digest, joined, share, handovers, aside } = member;
        Self {
            session: digest.to_string(),
            owner: joined.owner.as_str().to_owned(),
            weight: joined.weight,
            capacity: joined.capacity,
            held: share.held,
            share: share.share,
            draining: joined.draining,
            handovers: *handovers,
            set_aside: *aside,
            node: app.url_of(Some(joined.node)),
        }
    }
}

impl PoolWire {
    pub(in crate::http) fn of(app: &App, shown: PoolShown) -> Self {
        let PoolShown { pool, balance, view } = shown;
        let members = view.iter().flat_map(|view| &view.members);
        Self {
            pool,
            balance,
            keys: view.as_ref().map(|view| view.keys),
            free: view.as_ref().map(|view| view.free),
            members: members.map(|member| PoolMember::of(app, member)).collect(),
        }
    }
}
