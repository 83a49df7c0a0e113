//! A lease that its member must be asked for, and why.

use std::fmt;

use crate::lease::{
    Key, Nonce, Owner,
    load::{Gain, Why},
    reports::in_units,
};

/// Why a lease moves to a certain member.
#[derive(Clone, Debug)]
pub struct Shift {
    /// The owner and the weight of the member that has it.
    pub from: (Owner, u32),
    /// The owner and the weight of the member that is to get it.
    pub to: (Owner, u32),
    /// Why it moves.
    pub why: Why,
    /// The reason as a sentence, unless it is a load.
    pub detail: String,
}

impl Shift {
    /// The reason in a word.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self.why {
            Why::Load(_) => "load",
            Why::Number(_) => "surplus",
            Why::Require { .. } => "require",
            Why::Prefer { .. } => "prefer",
            Why::Spread { .. } => "spread",
        }
    }
}

impl fmt::Display for Shift {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Why::Load(Gain { load, from, to, gain, limit }) = self.why else {
            return f.write_str(&self.detail);
        };
        let named = |(owner, weight): &(Owner, u32)| match weight {
            1 => owner.to_string(),
            weight => format!("{owner} (weight {weight})"),
        };
        let [load, from, to] = [load.into(), from, to].map(in_units);
        write!(f, "{} carries {from:.3}", named(&self.from))?;
        if let Some(limit) = limit {
            write!(f, ", over its limit of {:.3}", in_units(limit))?;
        }
        write!(f, ", {} carries {to:.3}, the key {load:.3}", named(&self.to))?;
        write!(f, "; gain {:.2} % of the mean", gain * 100.0)
    }
}

/// A lease that its member must be asked for.
#[derive(Clone, Debug)]
pub struct Order {
    /// The session of the member.
    pub member: Nonce,
    /// The key.
    pub key: Key,
    /// Why it moves, where it is known for which member each key is. `None` for another move by number or for a member that
    /// leaves.
    pub shift: Option<Box<Shift>>,
    /// The member that is to get it, if the plan says so.
    pub to: Option<Nonce>,
}
