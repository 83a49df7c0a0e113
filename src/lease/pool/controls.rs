//! What operators ordered for a pool, and the guard against a mass failure. All nodes follow it: it is the value of a
//! record of the pool's own.
//!
//! Guarantees: an order that a later version wrote, and that this one does not know, hides no other order and is kept. A
//! value that cannot be read is never overwritten.
//!
//! Does not guarantee: that an order applies everywhere at the same moment. A node applies it when it has read it.

use std::{collections::BTreeMap, fmt};

use serde::{Deserialize, Serialize};

use super::warming::{Warm, WarmStep};
use crate::lease::primitives::{Key, Owner};

/// Who ordered something, why, and when.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Said {
    /// The author of the order.
    pub by: Box<str>,
    /// The author's reason.
    pub reason: Box<str>,
    /// The time by the wall clock of the node that wrote it, in milliseconds since 1970.
    pub at_ms: u64,
    /// When it ends by itself, by the wall clock of each node, in milliseconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until_ms: Option<u64>,
    /// The owner that is to have the key, in an order for a key that goes to nobody else.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<Box<str>>,
}

impl Said {
    fn is_over(&self, wall_ms: u64) -> bool {
        self.until_ms.is_some_and(|until| until <= wall_ms)
    }
}

/// A pool that lost many members at once. Its other members get no more than a share of what the pool was before.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Guard {
    /// When it began, by the wall clock of the node that noticed the loss, in milliseconds since 1970.
    pub at_ms: u64,
    /// How many members the pool had before.
    pub members: usize,
    /// How many of them must be lost for a mass failure.
    pub least: usize,
    /// The sum of their weights.
    pub weight: u64,
    /// How many keys they shared.
    pub keys: usize,
}

impl Guard {
    /// The share that a member of this weight had before, rounded up.
    #[must_use]
    pub fn share(&self, weight: u32) -> usize {
        let share =
            (self.keys as u128 * u128::from(weight)).div_ceil(u128::from(self.weight.max(1)));
        usize::try_from(share).unwrap_or(usize::MAX)
    }

    /// Whether so many of the members are back, or were replaced by others, that what is missing is no mass failure.
    #[must_use]
    pub fn is_over(&self, members: usize) -> bool {
        self.members.saturating_sub(members) < self.least
    }
}

/// What operators ordered for a pool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PoolControls {
    /// No key changes its member.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frozen: Option<Said>,
    /// The owners that get no further keys.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub cordoned: BTreeMap<Box<str>, Said>,
    /// The keys that no member is to have, or none but those of one owner.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub paused: BTreeMap<Box<str>, Said>,
    /// How often it was ordered to balance the pool exactly and at once.
    pub rebalances: u64,
    /// The guard against a mass failure, while it stands.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub guard: Option<Guard>,
    /// The keys whose next holders prepare for them.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub warming: Warm,
    /// What a later version wrote. It is kept.
    #[serde(flatten)]
    pub unknown: BTreeMap<Box<str>, serde_json::Value>,
}

/// The value of a record that holds no orders, which another program wrote.
#[derive(Debug, thiserror::Error)]
#[error("the orders stored for the pool cannot be read: {0}")]
pub struct UnreadableOrders(#[from] serde_json::Error);

/// An order for a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PoolOrder {
    /// No key changes its member from now on.
    Freeze,
    /// Ends [`Self::Freeze`].
    Thaw,
    /// The members of this owner get no further keys.
    Cordon(Owner),
    /// Ends [`Self::Cordon`].
    Uncordon(Owner),
    /// The member that holds the key gives it up, and no member gets it.
    Pause(Key),
    /// The member that holds the key gives it up, and only a member of this owner gets it.
    Move(Key, Owner),
    /// Ends [`Self::Pause`] and [`Self::Move`].
    Resume(Key),
    /// Balances the pool exactly and at once.
    Rebalance,
    /// The pool lost many members at once.
    Guard(Guard),
    /// Ends [`Self::Guard`].
    EndGuard,
    /// Members prepare for keys, are prepared, or do so no more.
    Warm(Vec<WarmStep>),
}

impl fmt::Display for PoolOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Freeze => f.write_str("freeze"),
            Self::Thaw => f.write_str("thaw"),
            Self::Cordon(owner) => write!(f, "cordon {owner}"),
            Self::Uncordon(owner) => write!(f, "uncordon {owner}"),
            Self::Pause(key) => write!(f, "pause {key}"),
            Self::Move(key, owner) => write!(f, "move {key} to {owner}"),
            Self::Resume(key) => write!(f, "resume {key}"),
            Self::Rebalance => f.write_str("rebalance"),
            Self::Guard(guard) => write!(f, "guard the rest of {} members", guard.members),
            Self::EndGuard => f.write_str("end-guard"),
            Self::Warm(steps) => write!(f, "{} changes of preparations", steps.len()),
        }
    }
}

impl PoolControls {
    /// What the value of a record says. A record without a value says nothing.
    ///
    /// # Errors
    /// [`UnreadableOrders`].
    pub fn of_value(value: Option<&str>) -> Result<Self, UnreadableOrders> {
        Ok(value.map(serde_json::from_str).transpose()?.unwrap_or_default())
    }

    /// The value of the record.
    #[must_use]
    pub fn to_value(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Removes the orders that are over. Returns when the next one ends, if one does, by the wall clock.
    pub fn end_orders(&mut self, wall_ms: u64) -> Option<u64> {
        self.frozen = self.frozen.take().filter(|said| !said.is_over(wall_ms));
        for orders in [&mut self.cordoned, &mut self.paused] {
            orders.retain(|_, said| !said.is_over(wall_ms));
        }
        let all = self.cordoned.values().chain(self.paused.values()).chain(&self.frozen);
        all.filter_map(|said| said.until_ms).min()
    }

    /// Carries out an order. Returns whether it changed something. An order that stands keeps its first author, unless
    /// the new one ends at another time.
    pub fn carry_out(&mut self, order: &PoolOrder, said: Said) -> bool {
        let before = self.clone();
        let to = match order {
            PoolOrder::Move(_, owner) => Some(owner.as_str().into()),
            _ => None,
        };
        let said = Said { to, ..said };
        let stands = |old: &Said| (old.until_ms, &old.to) == (said.until_ms, &said.to);
        match order {
            PoolOrder::Freeze => self.frozen = self.frozen.take().filter(stands).or(Some(said)),
            PoolOrder::Thaw => self.frozen = None,
            PoolOrder::Cordon(owner) => {
                self.cordoned.retain(|other, old| **other != *owner.as_str() || stands(old));
                self.cordoned.entry(owner.as_str().into()).or_insert(said);
            }
            PoolOrder::Uncordon(owner) => {
                self.cordoned.remove(owner.as_str());
            }
            PoolOrder::Pause(key) | PoolOrder::Move(key, _) => {
                self.paused.retain(|other, old| **other != *key.as_str() || stands(old));
                self.paused.entry(key.as_str().into()).or_insert(said);
            }
            PoolOrder::Resume(key) => {
                self.paused.remove(key.as_str());
            }
            PoolOrder::Rebalance => self.rebalances += 1,
            PoolOrder::Guard(guard) => self.guard = self.guard.take().or(Some(guard.clone())),
            PoolOrder::EndGuard => self.guard = None,
            PoolOrder::Warm(steps) => {
                steps.iter().for_each(|step| step.carry_out(&mut self.warming))
            }
        }
        *self != before
    }

    /// Whether the members of an owner get no further keys.
    #[must_use]
    pub fn is_cordoned(&self, owner: &Owner) -> bool {
        self.cordoned.contains_key(owner.as_str())
    }

    /// Who ordered that no member is to have the key, or none but those of one owner.
    #[must_use]
    pub fn paused(&self, key: &Key) -> Option<&Said> {
        if self.paused.is_empty() { None } else { self.paused.get(key.as_str()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(by: &str) -> Said {
        Said { by: by.into(), reason: "r".into(), at_ms: 7, until_ms: None, to: None }
    }

    #[test]
    fn an_order_is_stored_until_its_end() {
        let (owner, key) = (Owner::new("w").expect("an owner"), Key::new("k").expect("a key"));
        let guard = Guard { members: 4, least: 2, weight: 4, keys: 9, at_ms: 7 };
        let pairs = [
            (PoolOrder::Freeze, PoolOrder::Thaw),
            (PoolOrder::Cordon(owner.clone()), PoolOrder::Uncordon(owner)),
            (PoolOrder::Pause(key.clone()), PoolOrder::Resume(key)),
            (PoolOrder::Guard(guard), PoolOrder::EndGuard),
        ];
        let mut controls = PoolControls::default();
        for (begin, _) in &pairs {
            assert!(controls.carry_out(begin, said("a")) && !controls.carry_out(begin, said("b")));
        }
        assert_eq!(controls.frozen.as_ref().map(|said| &*said.by), Some("a"));
        let read = PoolControls::of_value(Some(&controls.to_value())).expect("orders");
        assert_eq!(read, controls);
        for (_, end) in &pairs {
            assert!(controls.carry_out(end, said("a")) && !controls.carry_out(end, said("a")));
        }
        assert_eq!(controls, PoolControls::default());
        assert!(controls.carry_out(&PoolOrder::Rebalance, said("a")));
    }

    #[test]
    fn an_order_with_an_end_is_over_then_and_may_be_prolonged() {
        let until = |by: &str, until_ms| Said { until_ms: Some(until_ms), ..said(by) };
        let (owner, key) = (Owner::new("w").expect("an owner"), Key::new("k").expect("a key"));
        let mut controls = PoolControls::default();
        assert!(controls.carry_out(&PoolOrder::Freeze, until("a", 100)));
        assert!(controls.carry_out(&PoolOrder::Cordon(owner.clone()), until("a", 200)));
        assert!(controls.carry_out(&PoolOrder::Pause(key.clone()), said("a")));
        assert_eq!(controls.end_orders(99), Some(100));
        assert!(controls.carry_out(&PoolOrder::Freeze, until("b", 300)));
        assert!(!controls.carry_out(&PoolOrder::Freeze, until("c", 300)));
        assert_eq!(controls.frozen.as_ref().map(|said| &*said.by), Some("b"));
        assert_eq!(controls.end_orders(200), Some(300));
        assert!(!controls.is_cordoned(&owner) && controls.frozen.is_some());
        assert_eq!(controls.end_orders(300), None);
        assert!(controls.frozen.is_none() && controls.paused(&key).is_some());
    }

    #[test]
    fn a_key_is_paused_or_goes_to_one_owner() {
        let (owner, key) = (Owner::new("w").expect("an owner"), Key::new("k").expect("a key"));
        let mut controls = PoolControls::default();
        let to =
            |controls: &PoolControls| controls.paused(&Key::new("k").expect("a key"))?.to.clone();
        assert!(controls.carry_out(&PoolOrder::Pause(key.clone()), said("a")));
        let order = PoolOrder::Move(key.clone(), owner);
        assert!(controls.carry_out(&order, said("b")) && !controls.carry_out(&order, said("c")));
        assert_eq!((to(&controls).as_deref(), &*controls.paused["k"].by), (Some("w"), "b"));
        let read = PoolControls::of_value(Some(&controls.to_value())).expect("orders");
        assert_eq!(read, controls);
        assert!(controls.carry_out(&PoolOrder::Pause(key.clone()), said("d")));
        assert_eq!(to(&controls), None);
        assert!(controls.carry_out(&PoolOrder::Resume(key), said("e")));
        assert_eq!(controls, PoolControls::default());
    }

    #[test]
    fn what_is_unknown_hides_nothing_and_is_kept_and_what_cannot_be_read_is_an_error() {
        assert_eq!(PoolControls::of_value(None).expect("nothing"), PoolControls::default());
        for value in ["", "x", "7", r#"{"frozen":7}"#] {
            assert!(PoolControls::of_value(Some(value)).is_err(), "{value}");
        }
        let later = r#"{"frozen":{"by":"a"},"later":{"a":[1]}}"#;
        let mut controls = PoolControls::of_value(Some(later)).expect("orders");
        assert!(controls.frozen.is_some() && controls.carry_out(&PoolOrder::Thaw, said("b")));
        assert_eq!(controls.to_value(), r#"{"rebalances":0,"later":{"a":[1]}}"#);
    }

    #[test]
    fn a_guard_ends_when_too_few_are_missing_for_a_mass_failure() {
        let guard = Guard { members: 20, least: 6, weight: 22, keys: 1_000, at_ms: 0 };
        assert_eq!([1, 3].map(|weight| guard.share(weight)), [46, 137]);
        assert!(!guard.is_over(14) && guard.is_over(15) && guard.is_over(30));
    }
}
