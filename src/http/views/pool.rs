//! Pools and their members.

use crate::{
    api::{Pool, PoolMember},
    http::app::App,
    manager::{MemberView, PoolShown},
};

impl PoolMember {
    fn of(app: &App, member: &MemberView) -> Self {
        let MemberView { digest, joined, share, handovers, aside } = member;
        Self {
            session: digest.to_string(),
            owner: joined.owner.as_str().to_owned(),
            weight: joined.weight.into(),
            capacity: joined.capacity.map(u64::from),
            held: share.held as u64,
            share: share.share as u64,
            draining: joined.draining,
            handovers: *handovers as u64,
            set_aside: *aside,
            node: app.url_of(Some(joined.node)),
        }
    }
}

impl Pool {
    pub(in crate::http) fn of(app: &App, shown: PoolShown) -> Self {
        let PoolShown { pool, balance, view } = shown;
        let members = view.iter().flat_map(|view| &view.members);
        Self {
            pool: pool.to_string(),
            balance,
            keys: view.as_ref().map(|view| view.keys as u64),
            free: view.as_ref().map(|view| view.free as u64),
            members: members.map(|member| PoolMember::of(app, member)).collect(),
        }
    }
}
