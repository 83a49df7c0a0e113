//! Which keys, owners and pools changed most.

use std::collections::BTreeMap;

use super::figures::changes;
use crate::{
    api::TopRow,
    lease::Key,
    telemetry::recent::{Cause, Counts, Part, Row, Summary, Window},
};

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    Keys,
    Owners,
    Pools,
}

impl By {
    /// Each of them.
    pub const ALL: [Self; 3] = [Self::Keys, Self::Owners, Self::Pools];

    /// Its name in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Keys => "keys",
            Self::Owners => "owners",
            Self::Pools => "pools",
        }
    }
}

/// What the caller may read.
pub struct Reads<'a> {
    /// This key.
    pub key: &'a dyn Fn(&str) -> bool,
    /// All keys with this prefix.
    pub all_of: &'a dyn Fn(&str) -> bool,
}

/// The rows of an answer, and how often whatever is not among them changed at most.
#[derive(Debug, PartialEq, Eq)]
pub struct Ranking {
    pub rows: Vec<TopRow>,
    pub others_at_most: u64,
}

/// What is known of one name.
#[derive(Clone, Default)]
struct Known {
    counts: Counts,
    missed: u64,
}

impl Known {
    fn add(&mut self, row: &Row) {
        for (count, more) in self.counts.iter_mut().zip(&row.counts) {
            *count = count.saturating_add(*more);
        }
        self.missed += u64::from(row.missed);
    }

    /// How often it was counted.
    fn counted(&self, cause: Option<Cause>) -> u64 {
        match cause {
            Some(cause) => self.counts[cause.index()].into(),
            None => self.counts.iter().map(|count| u64::from(*count)).sum(),
        }
    }
}

/// The names that changed most, of those that the caller may read; `limit` of them at most.
pub fn rank(
    window: &Window,
    by: By,
    cause: Option<Cause>,
    reads: &Reads<'_>,
    limit: usize,
) -> Ranking {
    let (known, floor) = match by {
        By::Keys => keys(&window.keys(), reads),
        By::Owners => parts(&window.owners(), &window.pools(), reads, |part| {
            part.owner.as_ref().map(|owner| owner.as_str().to_owned())
        }),
        By::Pools => {
            let pools = window.pools();
            parts(&pools, &pools, reads, |part| Some(part.policy.pool.to_string()))
        }
    };
    let mut known: Vec<_> = known.into_iter().collect();
    known.sort_by_key(|(_, one)| std::cmp::Reverse((one.counted(cause), one.missed)));
    let listed = known.iter().take(limit).take_while(|(_, one)| one.counted(cause) > 0).count();
    let others = known[listed..].iter().map(|(_, one)| one.counted(cause) + one.missed);
    let others_at_most = others.max().unwrap_or(0).max(floor);
    known.truncate(listed);
    let row = |(name, one): (String, Known)| TopRow {
        name,
        pool: None,
        at_least: one.counted(cause),
        at_most: one.counted(cause) + one.missed,
        changes: changes(&one.counts),
    };
    Ranking { rows: known.into_iter().map(row).collect(), others_at_most }
}

type AllKnown = BTreeMap<String, Known>;

fn keys(summary: &Summary<Key>, reads: &Reads<'_>) -> (AllKnown, u64) {
    let read = summary.rows().filter(|(key, _)| (reads.key)(key.as_str()));
    let known = |(key, row): (&Key, &Row)| {
        let mut known = Known::default();
        known.add(row);
        (key.as_str().to_owned(), known)
    };
    (read.map(known).collect(), summary.floor().into())
}

/// The parts with one name are added up. A part that the summary lacks may have been changed as often as its floor says:
/// that is added for each policy of which the name has no part.
fn parts(
    summary: &Summary<Part>,
    policies: &Summary<Part>,
    reads: &Reads<'_>,
    name: impl Fn(&Part) -> Option<String>,
) -> (AllKnown, u64) {
    let floor = u64::from(summary.floor());
    let is_read = |part: &Part| (reads.all_of)(&part.policy.prefix);
    let all = policies.rows().filter(|(part, _)| is_read(part)).count() as u64;
    let mut known: BTreeMap<String, (Known, u64)> = BTreeMap::new();
    for (part, row) in summary.rows().filter(|(part, _)| is_read(part)) {
        let Some(name) = name(part) else { continue };
        let (one, parts) = known.entry(name).or_default();
        one.add(row);
        *parts += 1;
    }
    let with_missed = |(name, (one, parts)): (String, (Known, u64))| {
        let missed = one.missed + floor * all.saturating_sub(parts);
        (name, Known { missed, ..one })
    };
    (known.into_iter().map(with_missed).collect(), floor * all)
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use super::*;
    use crate::{
        lease::{Change, ChangeKind, Moment, Nonce, Owner, Policy, Token},
        telemetry::recent::{ROOM, Recent},
    };

    const NOW: Moment = Moment(1_000_000_000);

    fn change(recent: &Recent, key: &str, prefix: &str, owner: &str, kind: ChangeKind) {
        let owner = Owner::new(owner).expect("an owner");
        let change = Change {
            kind,
            seq: 1,
            owner: None,
            token: Token(1),
            previous: Some((owner, Token(1))),
            reason: None,
            actor: None,
            session: None::<Nonce>,
        };
        let pool = if prefix.is_empty() { "default" } else { "p" };
        let policy = Policy { prefix: prefix.into(), pool: pool.into(), ..Policy::default() };
        recent.changed(NOW, &Key::new(key).expect("a key"), &Arc::new(policy), &change, 0);
    }

    fn ask(recent: &Recent, by: By, cause: Option<Cause>, reads: &str, limit: usize) -> Ranking {
        let window = recent.window(NOW, Duration::from_secs(60));
        let key = |key: &str| key.starts_with(reads);
        rank(&window, by, cause, &Reads { key: &key, all_of: &key }, limit)
    }

    fn told(ranking: &Ranking) -> Vec<(&str, u64, u64)> {
        ranking.rows.iter().map(|row| (row.name.as_str(), row.at_least, row.at_most)).collect()
    }

    fn some() -> Recent {
        let recent = Recent::new(NOW);
        for (key, prefix, owner, kind, times) in [
            ("in/a", "in/", "w", ChangeKind::Expired, 5),
            ("in/a", "in/", "w", ChangeKind::Released, 1),
            ("in/b", "in/", "v", ChangeKind::Released, 4),
            ("out/c", "", "w", ChangeKind::Expired, 9),
        ] {
            (0..times).for_each(|_| change(&recent, key, prefix, owner, kind));
        }
        recent
    }

    #[test]
    fn what_changed_most_comes_first_and_a_cause_counts_alone() {
        let recent = some();
        let all = ask(&recent, By::Keys, None, "", 9);
        assert_eq!(told(&all), [("out/c", 9, 9), ("in/a", 6, 6), ("in/b", 4, 4)]);
        assert_eq!(all.others_at_most, 0);
        assert_eq!(
            all.rows[1].changes,
            BTreeMap::from([("expired".into(), 5), ("released".into(), 1)])
        );
        let released = Cause::of_kind(ChangeKind::Released);
        let released = ask(&recent, By::Keys, Some(released), "", 9);
        assert_eq!(told(&released), [("in/b", 4, 4), ("in/a", 1, 1)]);
        assert_eq!(told(&ask(&recent, By::Owners, None, "", 9)), [("w", 15, 15), ("v", 4, 4)]);
        assert_eq!(told(&ask(&recent, By::Pools, None, "", 9)), [("p", 10, 10), ("default", 9, 9)]);
    }

    #[test]
    fn what_the_limit_leaves_out_is_told_as_a_bound() {
        let ranking = ask(&some(), By::Keys, None, "", 1);
        assert_eq!((told(&ranking), ranking.others_at_most), (vec![("out/c", 9, 9)], 6));
    }

    #[test]
    fn rights_are_looked_at_before_the_cut_and_owners_are_counted_where_all_is_read() {
        let recent = some();
        assert_eq!(told(&ask(&recent, By::Keys, None, "in/", 1)), [("in/a", 6, 6)]);
        assert_eq!(told(&ask(&recent, By::Owners, None, "in/", 9)), [("w", 6, 6), ("v", 4, 4)]);
        assert_eq!(told(&ask(&recent, By::Pools, None, "in/", 9)), [("p", 10, 10)]);
        for by in By::ALL {
            // It reads some keys of the policy, and not all.
            assert!(ask(&recent, by, None, "in/zzz", 9).rows.is_empty());
        }
    }

    #[test]
    fn what_the_sketch_may_have_missed_is_in_the_upper_bounds() {
        let recent = Recent::new(NOW);
        (0..10).for_each(|_| change(&recent, "in/a", "in/", "often", ChangeKind::Expired));
        for number in 0..4 * ROOM {
            change(&recent, &format!("k{number}"), "", &format!("w{number}"), ChangeKind::Expired);
        }
        let keys = ask(&recent, By::Keys, None, "", 1);
        assert_eq!(told(&keys), [("in/a", 10, 10)]);
        assert!((1..=5).contains(&keys.others_at_most), "{}", keys.others_at_most);
        let owners = ask(&recent, By::Owners, None, "", 1);
        let row = &owners.rows[0];
        assert_eq!((row.name.as_str(), row.at_least), ("often", 10));
        // It may have had some of the keys of the other policy.
        assert!((11..=15).contains(&row.at_most), "{row:?}");
    }
}
