//! Why a key of a pool has no member to go to.

/// Why a key that nobody holds has no member to go to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Unplaced {
    /// No member has the labels that its policy requires.
    Require,
    /// Those that may have it hold as many leases as they accept.
    Capacity,
    /// Those that may have it would exceed the load that they accept.
    LoadLimit,
    /// Those that may have it and have room ask for no leases.
    SetAside,
    /// The owners of those that may have it are cordoned.
    Cordoned,
    /// A guard against a mass failure stands, and those that may have it have their former shares.
    Guard,
    /// The pool is frozen.
    Frozen,
    /// An operator paused the key.
    Paused,
    /// It is kept for its last owner.
    Kept,
    /// The pool has no member that takes leases.
    NoMember,
}

impl Unplaced {
    /// All reasons.
    pub const ALL: [Self; 10] = [
        Self::Require,
        Self::Capacity,
        Self::LoadLimit,
        Self::SetAside,
        Self::Cordoned,
        Self::Guard,
        Self::Frozen,
        Self::Paused,
        Self::Kept,
        Self::NoMember,
    ];

    /// Its word in answers and metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Require => "require",
            Self::Capacity => "capacity",
            Self::LoadLimit => "load-limit",
            Self::SetAside => "set-aside",
            Self::Cordoned => "cordoned",
            Self::Guard => "guard",
            Self::Frozen => "frozen",
            Self::Paused => "paused",
            Self::Kept => "kept",
            Self::NoMember => "no-member",
        }
    }

    /// Whether members must change for the key to be served: none of those that there are can take it.
    #[must_use]
    pub fn needs_members(self) -> bool {
        matches!(self, Self::Require | Self::Capacity | Self::LoadLimit)
    }
}
