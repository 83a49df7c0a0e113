//! The causes by which changes of keys are counted.

use crate::lease::{Change, ChangeKind};

/// How many causes there are.
pub const CAUSES: usize = ChangeKind::ALL.len() + 1;

/// How often something happened, by cause: the place of a cause is its [`Cause::index`].
pub type Counts = [u32; CAUSES];

/// Why a key changed: the short type of its event, or an adoption, which is no event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cause(usize);

impl Cause {
    /// Another node's lease was adopted.
    pub const ADOPTED: Self = Self(ChangeKind::ALL.len());

    /// The cause of a change; `None` for an offer that was withdrawn, with which no tenure ended.
    #[must_use]
    pub fn of(change: &Change) -> Option<Self> {
        let is_withdrawn = change.kind.ends_tenure() && change.previous.is_none();
        (!is_withdrawn).then_some(Self::of_kind(change.kind))
    }

    /// The cause that is named after a kind of change.
    #[must_use]
    pub fn of_kind(kind: ChangeKind) -> Self {
        Self(kind as usize)
    }

    /// Every cause, in the order of their places.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..CAUSES).map(Self)
    }

    /// The cause with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::all().find(|cause| cause.as_str() == name)
    }

    /// The name of the cause in the API.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        ChangeKind::ALL.get(self.0).map_or("adopted", |kind| kind.as_str())
    }

    /// The place of the cause in [`Counts`].
    #[must_use]
    pub fn index(self) -> usize {
        self.0
    }
}

/// The sum of all counts.
#[must_use]
pub fn sum(counts: &Counts) -> u64 {
    counts.iter().map(|count| u64::from(*count)).sum()
}

/// Adds counts to others.
pub fn add(counts: &mut Counts, more: &Counts) {
    for (count, more) in counts.iter_mut().zip(more) {
        *count = count.saturating_add(*more);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lease::{Owner, Token};

    fn change(kind: ChangeKind, previous: bool) -> Change {
        let owner = || Owner::new("w").expect("an owner");
        Change {
            kind,
            seq: 1,
            owner: None,
            token: Token(1),
            previous: previous.then(|| (owner(), Token(1))),
            reason: None,
            actor: None,
            session: None,
        }
    }

    #[test]
    fn each_cause_has_a_place_and_the_name_of_its_event() {
        for kind in ChangeKind::ALL {
            assert_eq!(Cause::of_kind(kind).as_str(), kind.as_str());
            assert_eq!(Cause::of(&change(kind, true)), Some(Cause::of_kind(kind)));
        }
        for (place, cause) in Cause::all().enumerate() {
            assert_eq!((Cause::named(cause.as_str()), cause.index()), (Some(cause), place));
        }
        assert_eq!(Cause::ADOPTED.as_str(), "adopted");
        assert_eq!(Cause::named("frozen"), None);
    }

    #[test]
    fn an_offer_that_is_withdrawn_is_no_end_of_a_tenure() {
        assert_eq!(Cause::of(&change(ChangeKind::Released, false)), None);
        assert!(Cause::of(&change(ChangeKind::Granted, false)).is_some());
    }
}
