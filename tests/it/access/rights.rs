//! The model of rights: what a principal may do, and who holds what.

/// A principal: the keys that it may hold, read and check, and the owners for which it acts. A right is a prefix, or one
/// key after a `=`.
pub struct Rights {
    pub name: String,
    pub hold: Vec<&'static str>,
    pub read: Vec<&'static str>,
    pub check: Vec<&'static str>,
    pub owner: &'static str,
}

/// A key.
#[derive(Clone)]
pub enum State {
    Free,
    /// By the principal with this number.
    Held {
        by: usize,
        owner: &'static str,
        lease_id: String,
        token: u64,
    },
    /// For whoever calls under this name.
    Offered(&'static str),
}

/// Whether these rights give a key.
pub fn may(rights: &[&str], key: &str) -> bool {
    rights
        .iter()
        .any(|right| right.strip_prefix('=').map_or(key.starts_with(right), |one| key == one))
}

/// Whether these rights give all keys with a prefix, which no right to one key does.
pub fn may_all_of(rights: &[&str], prefix: &str) -> bool {
    rights.iter().any(|right| prefix.starts_with(right))
}

impl Rights {
    pub fn acts_as(&self, owner: &str) -> bool {
        self.owner.strip_suffix('*').map_or(self.owner == owner, |start| owner.starts_with(start))
    }

    /// Whether the principal with this number may acquire a key; it needs the right to hold all of `needs`.
    pub fn may_acquire(&self, needs: &[&str], owner: &str) -> bool {
        self.acts_as(owner) && needs.iter().all(|need| may(&self.hold, need))
    }

    /// Whether it may acquire any key with this prefix.
    pub fn may_acquire_under(&self, prefix: &str, owner: &str) -> bool {
        self.acts_as(owner) && may_all_of(&self.hold, prefix)
    }
}

impl State {
    /// Whether an acquire under this name is granted.
    pub fn is_open(&self, at: usize, name: &str, reclaim: bool) -> bool {
        match self {
            Self::Free => true,
            Self::Offered(to) => *to == name,
            Self::Held { by, owner, .. } => reclaim && *by == at && *owner == name,
        }
    }

    /// Whether the lease id proves to be the holder, where this principal shows it.
    pub fn is_proven(&self, at: usize, shown: &str) -> bool {
        matches!(self, Self::Held { by, lease_id, .. } if *by == at && lease_id == shown)
    }
}

#[test]
fn the_model_is_short_enough_to_be_read() {
    let model = include_str!("rights.rs").split("#[test]").next().expect("the model");
    assert!(model.lines().count() <= 72, "{}", model.lines().count());
}
