//! The time for which this node notifies a plugin.

use std::cell::Cell;

use crate::{
    lease::{LeaseId, Moment},
    manager::cloud_event::{read_cursor, write_cursor},
    store::Position,
};

/// The time for which this node notifies a plugin, and how far it came.
pub(super) struct Tenure {
    pub lease_id: LeaseId,
    /// Until when no other node notifies the plugin.
    pub until: Cell<Moment>,
    /// The tag of the store whose history is told.
    pub store_tag: String,
    /// The plugin confirmed everything up to here.
    pub position: Cell<Position>,
    /// The position that is stored in the lease.
    pub stored: Cell<Option<Position>>,
    /// Why a reset must be told before anything else.
    pub reset: Cell<Option<&'static str>>,
    /// When the oldest change was committed that is being told, in milliseconds since 1970.
    pub oldest_ms: Cell<Option<u64>>,
}

impl Tenure {
    /// A tenure that begins where the lease's value says. Without a value it begins at `latest`; at the position of
    /// another store it begins there too, with a reset.
    pub(super) fn new(
        lease_id: LeaseId,
        until: Moment,
        store_tag: String,
        value: Option<&str>,
        latest: Position,
    ) -> Self {
        let cursor = value.and_then(read_cursor).filter(|(tag, _)| *tag == store_tag);
        let stored = cursor.map(|(_, position)| position);
        let foreign = value.is_some() && stored.is_none();
        Self {
            lease_id,
            until: Cell::new(until),
            store_tag,
            position: Cell::new(stored.unwrap_or(latest)),
            stored: Cell::new(stored),
            reset: Cell::new(foreign.then_some("another-store")),
            oldest_ms: Cell::new(None),
        }
    }

    /// The value that stores the position, and the position; `None` if it is stored, or a reset must be told first.
    pub(super) fn unstored(&self) -> Option<(Box<str>, Position)> {
        let position = self.position.get();
        let moved = self.reset.get().is_none() && self.stored.get() != Some(position);
        moved.then(|| (write_cursor(&self.store_tag, position).into(), position))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lease::Revision;

    fn at(revision: u64) -> Position {
        Position { revision: Revision(revision), index: 1 }
    }

    fn tenure(value: Option<&str>) -> Tenure {
        let id = "0".repeat(32).parse().unwrap();
        Tenure::new(id, Moment::ZERO, "aaaaaaaa".into(), value, at(9))
    }

    #[test]
    fn a_tenure_begins_at_the_stored_position_of_its_store_and_nowhere_else() {
        let known = tenure(Some("aaaaaaaa-7-1"));
        assert_eq!(
            (known.position.get(), known.reset.get(), known.unstored()),
            (at(7), None, None)
        );
        known.position.set(at(8));
        assert_eq!(known.unstored(), Some(("aaaaaaaa-8-1".into(), at(8))));
        let first = tenure(None);
        assert_eq!((first.position.get(), first.reset.get()), (at(9), None));
        assert!(first.unstored().is_some(), "where it begins is stored before anything is told");
        for foreign in ["bbbbbbbb-7-1", "no cursor", ""] {
            let foreign = tenure(Some(foreign));
            assert_eq!(
                (foreign.position.get(), foreign.reset.get()),
                (at(9), Some("another-store"))
            );
            assert!(foreign.unstored().is_none(), "the reset comes first");
        }
    }
}
