//! Coordinators.

use std::collections::BTreeSet;

use crate::{api::Node, lease::Nonce, manager::NodeView};

impl Node {
    pub(in crate::http) fn of(
        view: &NodeView,
        shared: &BTreeSet<Box<str>>,
        odd: &BTreeSet<Nonce>,
        other_access: &BTreeSet<Nonce>,
    ) -> Self {
        let NodeView { record, this, runs_out_in_ms, since: _ } = view;
        Self {
            url: record.url.to_string(),
            state: record.state.as_str().to_owned(),
            version: record.program().to_owned(),
            incarnation: record.incarnation.to_string(),
            leases: record.load.into(),
            runs_out_in_ms: (!record.state.is_terminal()).then_some(*runs_out_in_ms),
            this: *this,
            address_shared: !record.state.is_terminal() && shared.contains(&record.url),
            rules_differ: odd.contains(&record.incarnation),
            access_digest: access_digest(record.common.access),
            access_differs: other_access.contains(&record.incarnation),
        }
    }
}

/// The digest of an access file as the API shows it; `None` where it is not known.
pub(in crate::http) fn access_digest(digest: u32) -> Option<String> {
    (digest != 0).then(|| format!("{digest:08x}"))
}
