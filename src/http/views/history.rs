//! What became of a lease.

use crate::{
    api::{self, Lease, LeaseHistory},
    clock::rfc3339,
    http::app::App,
    manager::{Past, PastTenure, Setting, cloud_event},
    store::Committed,
};

impl api::PastTenure {
    /// A tenure, at this reading of the wall clock.
    fn of(tenure: PastTenure, wall_ms: u64) -> Self {
        let PastTenure { owner, token, session, began_ms, end } = tenure;
        let until_ms = end.as_ref().map_or(wall_ms, |end| end.at_ms);
        Self {
            owner: owner.as_str().to_owned(),
            token: token.0,
            session: session.map(|digest| digest.to_string()),
            began: began_ms.map(rfc3339),
            ended: end.as_ref().map(|end| rfc3339(end.at_ms)),
            held_ms: began_ms.map(|began_ms| until_ms.saturating_sub(began_ms)),
            end: end.as_ref().map(|end| end.kind.as_str().to_owned()),
            reason: end.as_ref().and_then(|end| end.reason.as_deref()).map(str::to_owned),
            actor: end.as_ref().and_then(|end| end.actor.as_deref()).map(str::to_owned),
        }
    }
}

impl LeaseHistory {
    pub(in crate::http) fn of(app: &App, lease: Lease, past: &Past) -> Self {
        let (source, tag) = (&app.source, app.source.store_tag());
        let event = |committed: &Committed| {
            let setting = Setting::of(&app.manager, committed);
            let event = cloud_event(&source.node, &tag, &setting, committed);
            serde_json::to_value(event).unwrap_or_default()
        };
        let wall_ms = app.manager.wall_ms();
        let tenure = |tenure| api::PastTenure::of(tenure, wall_ms);
        let told: Vec<_> = past.tenures().into_iter().map(tenure).collect();
        Self {
            tenures: lease.untold(told.first()).into_iter().chain(told).collect(),
            lease,
            events: past.changes.iter().map(event).collect(),
            complete: past.is_complete,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lease::{Owner, Token};

    #[test]
    fn a_tenure_that_goes_on_lasts_until_now_and_one_without_a_beginning_is_of_unknown_length() {
        let tenure = |began_ms| PastTenure {
            owner: Owner::new("w").expect("an owner"),
            token: Token(7),
            session: None,
            began_ms,
            end: None,
        };
        let shown = api::PastTenure::of(tenure(Some(1_000)), 5_000);
        assert_eq!((shown.held_ms, shown.ended, shown.end), (Some(4_000), None, None));
        let shown = api::PastTenure::of(tenure(None), 5_000);
        assert_eq!((shown.held_ms, shown.began, shown.token), (None, None, 7));
    }
}
