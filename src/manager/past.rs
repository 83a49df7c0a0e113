//! The latest changes of one key, as far as the store still has them, and the tenures that they tell of.
//!
//! The store's history has the changes of all keys in one order. It is read backwards from the key's latest write, part
//! by part, each twice as long as the one before.
//!
//! Guarantees: the changes that are found have no hole. At most [`PARTS`] parts are read, and none begins after
//! [`SPAN`].
//!
//! Does not guarantee: that all changes are found that the store still has.

use std::time::Duration;

use super::{Manager, looks::Looks};
use crate::{
    lease::{ChangeKind, Key, Nonce, Owner, Revision, Token},
    store::{Committed, History, Position, StoreError},
};

/// How many entries of the history the first part has, and each at most.
const STEP: u64 = 256;
const MAX_STEP: u64 = 4096;
/// How many parts are read at most.
const PARTS: u32 = 40;
/// No part is begun after this time.
const SPAN: Duration = Duration::from_secs(2);
/// How many changes one read of the store returns at most.
const PAGE: usize = 1024;

/// The latest changes of a key.
#[derive(Clone, Debug, Default)]
pub(crate) struct Past {
    /// The changes, the latest first.
    pub changes: Vec<Committed>,
    /// Whether the first change of the key is among them.
    pub is_complete: bool,
}

/// A tenure, as far as its changes tell of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tenure {
    pub owner: Owner,
    pub token: Token,
    pub session: Option<Nonce>,
    /// The wall clock at the grant, in milliseconds since 1970; `None` if that change was not found.
    pub began_ms: Option<u64>,
    /// How it ended; `None` if it goes on.
    pub end: Option<End>,
}

/// The end of a tenure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct End {
    pub kind: ChangeKind,
    /// The wall clock at the end, in milliseconds since 1970.
    pub at_ms: u64,
    pub reason: Option<Box<str>>,
    pub actor: Option<Box<str>>,
}

impl Past {
    /// The tenures that the changes tell of, the latest first.
    pub(crate) fn tenures(&self) -> Vec<Tenure> {
        let mut tenures: Vec<Tenure> = Vec::new();
        for Committed { change, at_ms, .. } in self.changes.iter().rev() {
            let of = |token: Token| move |tenure: &Tenure| tenure.token == token;
            if change.kind == ChangeKind::Granted
                && let Some(owner) = &change.owner
            {
                match tenures.iter().rposition(of(change.token)) {
                    // It had run out, and was revived.
                    Some(at) => tenures[at].end = None,
                    None => tenures.push(Tenure {
                        owner: owner.clone(),
                        token: change.token,
                        session: change.session,
                        began_ms: Some(*at_ms),
                        end: None,
                    }),
                }
            }
            if change.kind.ends_tenure()
                && let Some((owner, token)) = &change.previous
            {
                let at = tenures.iter().rposition(of(*token)).unwrap_or_else(|| {
                    let (owner, token, session) = (owner.clone(), *token, change.session);
                    tenures.push(Tenure { owner, token, session, began_ms: None, end: None });
                    tenures.len() - 1
                });
                tenures[at].end = Some(End {
                    kind: change.kind,
                    at_ms: *at_ms,
                    reason: change.reason.clone(),
                    actor: change.actor.clone(),
                });
            }
        }
        tenures.reverse();
        tenures
    }
}

/// The parts of the history, the latest first.
struct Backwards {
    earliest: Position,
    end: Position,
    step: u64,
    left: u32,
}

impl Iterator for Backwards {
    type Item = (Position, Position);

    /// The next part: what comes after the first position, up to the second one.
    fn next(&mut self) -> Option<Self::Item> {
        if self.end <= self.earliest || self.left == 0 {
            return None;
        }
        let before = Revision(self.end.revision.0.saturating_sub(self.step));
        let start = Position { revision: before, index: u32::MAX }.max(self.earliest);
        let part = (start, self.end);
        (self.end, self.left) = (start, self.left - 1);
        self.step = (self.step * 2).min(MAX_STEP);
        Some(part)
    }
}

impl Manager {
    /// The latest changes of a key, `most` of them at most. `looks` counts the changes that the search looks at.
    ///
    /// # Errors
    /// [`StoreError`].
    pub(crate) async fn past(
        &self,
        key: &Key,
        most: usize,
        looks: Looks<'_>,
    ) -> Result<Past, StoreError> {
        let store = &self.coordinator.store;
        let written = store.read(key).await?.and_then(|found| store.position_of(found.revision));
        let (latest, began) = (store.latest(), self.now());
        let end = written.map_or(latest, |written| written.min(latest));
        let parts = Backwards { earliest: store.earliest(), end, step: STEP, left: PARTS };
        let mut changes: Vec<Committed> = Vec::new();
        for (start, end) in parts {
            let (part, is_whole) = self.changes_of(key, start, end, looks).await?;
            changes.extend(part.into_iter().rev());
            let is_first = changes.last().is_some_and(|last| last.change.seq == 1);
            if !is_whole || is_first || changes.len() >= most || self.now().since(began) >= SPAN {
                break;
            }
        }
        changes.truncate(most);
        let is_complete = changes.last().is_some_and(|last| last.change.seq == 1);
        Ok(Past { changes, is_complete })
    }

    /// The changes of a key after `start` and up to `end`, oldest first. If some are no longer kept, only those after
    /// the hole, and `false`.
    async fn changes_of(
        &self,
        key: &Key,
        start: Position,
        end: Position,
        looks: Looks<'_>,
    ) -> Result<(Vec<Committed>, bool), StoreError> {
        let (mut found, mut is_whole, mut at) = (Vec::new(), true, start);
        while at < end {
            let read = async {
                let history = self.history(at, PAGE).await?;
                if let History::Changes(changes) = &history {
                    looks(changes.len());
                }
                Ok::<_, StoreError>(history)
            };
            match self.search_turns.page(read).await? {
                History::Changes(changes) if changes.is_empty() => break,
                History::Changes(changes) => {
                    at = changes.last().map_or(end, |last| last.position);
                    let of_key = |one: &Committed| one.position <= end && one.key == *key;
                    found.extend(changes.into_iter().filter(of_key));
                }
                History::Gap { resume } => {
                    (is_whole, found) = (false, Vec::new());
                    if resume <= at {
                        break;
                    }
                    at = resume;
                }
            }
        }
        Ok((found, is_whole))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lease::Change;

    fn position(revision: u64, index: u32) -> Position {
        Position { revision: Revision(revision), index }
    }

    #[test]
    fn the_parts_cover_the_history_backwards_without_a_hole() {
        let whole = Backwards {
            earliest: position(100, 1),
            end: position(10_000, 0),
            step: STEP,
            left: PARTS,
        };
        let parts: Vec<_> = whole.collect();
        assert_eq!(parts[0], (position(9_744, u32::MAX), position(10_000, 0)));
        assert_eq!(parts.last().expect("some").0, position(100, 1));
        assert!(parts.windows(2).all(|two| two[0].0 == two[1].1));
        assert!(parts.iter().all(|(start, end)| start < end));
    }

    #[test]
    fn not_more_parts_are_read_than_are_allowed_and_none_of_nothing() {
        let (earliest, end) = (position(0, 0), position(u64::MAX / 2, 0));
        assert_eq!(Backwards { earliest, end, step: STEP, left: 3 }.count(), 3);
        assert_eq!(Backwards { earliest: end, end, step: STEP, left: 3 }.count(), 0);
    }

    /// A change of a key at this second; those that end a tenure end that of the owner.
    fn change(seq: u64, kind: ChangeKind, owner: &str, token: u64) -> Committed {
        let owner = Owner::new(owner).expect("an owner");
        let token = Token(token);
        let ends = kind.ends_tenure();
        Committed {
            position: position(seq, 0),
            key: Key::new("k").expect("a key"),
            node: Nonce::default(),
            change: Change {
                kind,
                seq,
                owner: (!ends).then(|| owner.clone()),
                token,
                previous: ends.then_some((owner, token)),
                reason: ends.then(|| "why".into()),
                actor: None,
                session: None,
            },
            at_ms: seq * 1000,
        }
    }

    fn past(oldest_first: Vec<Committed>) -> Past {
        let changes = oldest_first.into_iter().rev().collect();
        Past { changes, is_complete: true }
    }

    #[test]
    fn tenures_are_told_latest_first_with_how_they_ended() {
        use ChangeKind::{Expired, Granted, HandoverRequested, Released};
        let tenures = past(vec![
            change(5, Released, "a", 3),
            change(6, Granted, "b", 6),
            change(7, HandoverRequested, "b", 6),
            change(8, Expired, "b", 6),
            change(9, Granted, "c", 9),
        ])
        .tenures();
        let told: Vec<_> = tenures
            .iter()
            .map(|it| (it.owner.as_str(), it.began_ms, it.end.as_ref().map(|end| end.kind)))
            .collect();
        let expected = [
            ("c", Some(9_000), None),
            ("b", Some(6_000), Some(Expired)),
            ("a", None, Some(Released)),
        ];
        assert_eq!(told, expected);
        let end = tenures[1].end.as_ref().expect("an end");
        assert_eq!((end.at_ms, end.reason.as_deref()), (8_000, Some("why")));
    }

    #[test]
    fn a_tenure_that_was_revived_goes_on() {
        use ChangeKind::{Expired, Granted, Revoked};
        let mut all = vec![
            change(1, Granted, "a", 1),
            change(2, Expired, "a", 1),
            change(3, Granted, "a", 1),
        ];
        let tenures = past(all.clone()).tenures();
        assert_eq!((tenures.len(), tenures[0].began_ms), (1, Some(1_000)));
        assert_eq!(tenures[0].end, None);
        all.push(change(4, Revoked, "a", 1));
        let end = past(all).tenures()[0].end.clone().expect("an end");
        assert_eq!((end.kind, end.at_ms), (Revoked, 4_000));
    }
}
