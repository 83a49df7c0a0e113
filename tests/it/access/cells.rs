//! The model of the cluster's rights: who calls, where the call enters, and what becomes of it.

use super::rows::{By, Goes, Row};

/// Where a call enters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Way {
    /// At the home node.
    Direct,
    /// At a node that forwards it, and reads the same access file.
    Forwarded,
    /// At a node that forwards it, and still has the access file of before.
    Stale,
}

pub const WAYS: [Way; 3] = [Way::Direct, Way::Forwarded, Way::Stale];

/// Who calls.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// Shows no token.
    Nobody,
    /// Shows a token that nobody has.
    Garbage,
    /// Its last day is over.
    Expired,
    /// The reload removed it.
    Removed,
    /// Has all rights but those with the verb of the operation.
    OtherVerb,
    /// Has all rights, to other keys.
    OtherPrefix,
    /// Has all rights, and acts for other owners.
    OtherOwner,
    /// Has all rights, and shows the lease and the session of another principal.
    Thief,
    /// Has all rights.
    Right,
}

pub const KINDS: [Kind; 9] = [
    Kind::Nobody,
    Kind::Garbage,
    Kind::Expired,
    Kind::Removed,
    Kind::OtherVerb,
    Kind::OtherPrefix,
    Kind::OtherOwner,
    Kind::Thief,
    Kind::Right,
];

impl Kind {
    /// The token, which is also the principal's name.
    pub fn token(self, row: &Row) -> String {
        let name = match self {
            Self::Nobody => "",
            Self::Garbage => "garbage",
            Self::Expired => "expired",
            Self::Removed => "removed",
            Self::OtherVerb => return format!("no-{}", row.verb),
            Self::OtherPrefix => "elsewhere",
            Self::OtherOwner => "stranger",
            Self::Thief => "thief",
            Self::Right => "right",
        };
        name.to_owned()
    }
}

/// What a call comes to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Cell {
    Refused(u16, &'static str),
    Served,
    /// There is no such call.
    None,
}

/// The model: what becomes of a call.
pub fn expected(row: &Row, kind: Kind, way: Way) -> Cell {
    let (unknown, forbidden) =
        (Cell::Refused(401, "unauthenticated"), Cell::Refused(403, "forbidden"));
    let by_key = matches!(row.by, By::Key | By::KeyAndOwner | By::AllKeys | By::Batch);
    let by_owner = matches!(row.by, By::Owner | By::KeyAndOwner);
    match kind {
        Kind::Nobody | Kind::Garbage => unknown,
        Kind::Thief => row.thief.map_or(Cell::None, |code| Cell::Refused(409, code)),
        // No other node judges such a call.
        _ if way == Way::Stale && row.goes == Goes::Nowhere => Cell::Served,
        Kind::Expired => unknown,
        // The home node knows that a node vouches for the caller.
        Kind::Removed => {
            if way == Way::Stale {
                forbidden
            } else {
                unknown
            }
        }
        Kind::OtherVerb => forbidden,
        Kind::OtherPrefix if by_key => forbidden,
        Kind::OtherOwner if by_owner => forbidden,
        Kind::OtherPrefix | Kind::OtherOwner | Kind::Right => Cell::Served,
    }
}

/// Whether another node than the one where the call enters is to have answered.
pub fn is_forwarded(row: &Row, kind: Kind, way: Way) -> bool {
    let passes = match way {
        Way::Direct => false,
        // This node refuses what the home node would.
        Way::Forwarded => expected(row, kind, way) == Cell::Served,
        // What proves nothing concerns no tenure, and so no home node.
        Way::Stale => !matches!(kind, Kind::Nobody | Kind::Garbage | Kind::Thief),
    };
    passes && matches!(row.goes, Goes::Home | Goes::InParts)
}
