//! The columns of the table of leases.

use serde_json::Value;

use crate::{
    cli::{
        output::{dash, shown, span},
        when,
    },
    client::LeaseView,
};

/// A column: its heading, and its text for a lease at a time in milliseconds since 1970.
pub(super) struct Column {
    pub(super) heading: &'static str,
    pub(super) cell: fn(&LeaseView, u64) -> String,
    when: When,
}

#[derive(Clone, Copy)]
enum When {
    Always,
    Wide,
    /// If a fence is not confirmed, or the table is wide.
    Fences,
}

static COLUMNS: [Column; 11] = [
    Column { heading: "KEY", cell: |lease, _| shown(&lease.key), when: When::Always },
    Column { heading: "STATE", cell: |lease, _| shown(&lease.state), when: When::Always },
    Column {
        heading: "OWNER",
        cell: |lease, _| lease.owner.as_deref().map_or_else(dash, shown),
        when: When::Always,
    },
    Column { heading: "TOKEN", cell: |lease, _| number(lease.token), when: When::Always },
    Column { heading: "HELD_FOR", cell: held_for, when: When::Always },
    Column {
        heading: "EXPIRES_IN",
        cell: |lease, _| span(lease.expires_in_ms),
        when: When::Always,
    },
    Column { heading: "WAITERS", cell: |lease, _| number(lease.waiters), when: When::Always },
    Column { heading: "FENCES", cell: |lease, _| fences(lease), when: When::Fences },
    Column { heading: "POOL", cell: |lease, _| other(lease, "pool"), when: When::Wide },
    Column { heading: "NODE", cell: |lease, _| other(lease, "node"), when: When::Wide },
    Column { heading: "SESSION", cell: |lease, _| other(lease, "session"), when: When::Wide },
];

/// The columns of a table of these leases.
pub(super) fn columns(is_wide: bool, leases: &[LeaseView]) -> Vec<&'static Column> {
    let is_fenced = is_wide || leases.iter().any(|lease| fences(lease) != "-");
    let fits = |column: &&Column| match column.when {
        When::Always => true,
        When::Wide => is_wide,
        When::Fences => is_fenced,
    };
    COLUMNS.iter().filter(fits).collect()
}

/// The cells of a lease.
pub(super) fn row(columns: &[&Column], lease: &LeaseView, now_ms: u64) -> Vec<String> {
    columns.iter().map(|column| (column.cell)(lease, now_ms)).collect()
}

/// A text of the lease that this version has no field for.
pub(super) fn text_of<'a>(lease: &'a LeaseView, name: &str) -> Option<&'a str> {
    lease.other.get(name).and_then(Value::as_str)
}

fn other(lease: &LeaseView, name: &str) -> String {
    text_of(lease, name).map_or_else(dash, shown)
}

fn number(number: Option<u64>) -> String {
    number.map_or_else(dash, |number| number.to_string())
}

/// The plugins that have not confirmed a fence, and whether one of them gave up.
fn fences(lease: &LeaseView) -> String {
    let names = lease.other.get("fences").and_then(Value::as_array);
    let names = names.into_iter().flatten().filter_map(Value::as_str);
    let names: Vec<String> = names.map(shown).collect();
    let failed = lease.other.get("fence_failed").and_then(Value::as_bool) == Some(true);
    match (names.is_empty(), failed) {
        (true, false) => dash(),
        (true, true) => "failed".to_owned(),
        (false, false) => names.join(","),
        (false, true) => format!("{} (failed)", names.join(",")),
    }
}

/// How long the present tenure has lasted, in its two largest units.
fn held_for(lease: &LeaseView, now_ms: u64) -> String {
    let began = lease.acquired_at.as_deref().filter(|_| lease.state == "held");
    let Some(began) = began.and_then(when::wall_ms) else { return dash() };
    let seconds = now_ms.saturating_sub(began) / 1000;
    when::brief(seconds * 1000)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn lease(document: Value) -> LeaseView {
        serde_json::from_value(document).unwrap()
    }

    fn cells(is_wide: bool, lease: &LeaseView, now_ms: u64) -> Vec<(&'static str, String)> {
        let columns = columns(is_wide, std::slice::from_ref(lease));
        columns.iter().map(|column| (column.heading, (column.cell)(lease, now_ms))).collect()
    }

    #[test]
    fn a_held_lease_has_its_time_and_a_wide_table_where_it_is() {
        let held =
            lease(json!({ "key": "k", "state": "held", "owner": "w", "token": 7, "waiters": 2,
            "expires_in_ms": 1500, "acquired_at": "1970-01-01T00:00:10.000Z", "pool": "p",
            "node": "http://n", "session": null }));
        let narrow = cells(false, &held, 3_735_000);
        let expected = [
            ("KEY", "k"),
            ("STATE", "held"),
            ("OWNER", "w"),
            ("TOKEN", "7"),
            ("HELD_FOR", "1h 2m"),
            ("EXPIRES_IN", "1s 500ms"),
            ("WAITERS", "2"),
        ];
        assert_eq!(narrow, expected.map(|(heading, cell)| (heading, cell.to_owned())));
        let wide = cells(true, &held, 0);
        let more = [("FENCES", "-"), ("POOL", "p"), ("NODE", "http://n"), ("SESSION", "-")];
        assert_eq!(wide[7..], more.map(|(heading, cell)| (heading, cell.to_owned())));
        assert_eq!(wide[4].1, "0s", "a clock that is behind");
    }

    #[test]
    fn a_fence_that_failed_is_in_every_table() {
        for (document, told) in [
            (json!({ "fences": ["power"], "fence_failed": true }), "power (failed)"),
            (json!({ "fences": ["power", "dns"] }), "power,dns"),
            (json!({ "fence_failed": true }), "failed"),
        ] {
            let mut whole = json!({ "key": "k", "state": "fencing", "waiters": 0 });
            whole.as_object_mut().unwrap().extend(document.as_object().unwrap().clone());
            let cells = cells(false, &lease(whole), 0);
            assert!(cells.contains(&("FENCES", told.to_owned())), "{cells:?}");
            assert!(cells.contains(&("HELD_FOR", "-".to_owned())), "{cells:?}");
        }
    }
}
