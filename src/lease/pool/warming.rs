//! Keys whose next holders prepare for them, as all nodes know them: they stand in the record of the pool.
//!
//! Guarantees: a key is prepared for by one member at a time, and the pool has no more preparations than its policies
//! allow, whichever nodes begin them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::lease::primitives::{Key, Nonce, Token};

/// How many bytes the preparations of a pool may take up in its record.
pub const MAX_WARMING_BYTES: usize = 8 * 1024;
/// The most bytes that one takes up besides its key.
const ENTRY_BYTES: usize = 180;

/// A key that one member holds and another one prepares for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Warming {
    /// The session that holds the key.
    #[serde(with = "digest")]
    pub from: Nonce,
    /// The session that is to have it next.
    #[serde(with = "digest")]
    pub to: Nonce,
    /// The token of the tenure that is handed over.
    pub token: Token,
    /// When the preparation began, by the wall clock of the node that ordered it, in milliseconds since 1970.
    pub at_ms: u64,
    /// The member said that it is prepared.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ready: bool,
}

/// The preparations of a pool, by key.
pub type Warm = BTreeMap<Box<str>, Warming>;

/// A change of the preparations of a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WarmStep {
    /// A preparation begins, unless there are so many already.
    Begin(Key, Warming, usize),
    /// The member that prepares for the key after this tenure is prepared.
    Ready(Key, Token),
    /// The preparation for the key after this tenure is over.
    End(Key, Token),
}

impl WarmStep {
    /// Makes the change.
    pub fn carry_out(&self, warm: &mut Warm) {
        match self {
            Self::Begin(key, warming, most) => {
                let has_room =
                    warm.len() < *most && bytes(warm) + bytes_of(key.as_str()) <= MAX_WARMING_BYTES;
                if has_room && !warm.contains_key(key.as_str()) {
                    warm.insert(key.as_str().into(), warming.clone());
                }
            }
            Self::Ready(key, token) => {
                let known = warm.get_mut(key.as_str()).filter(|known| known.token == *token);
                known.into_iter().for_each(|known| known.ready = true);
            }
            Self::End(key, token) => {
                warm.retain(|other, known| **other != *key.as_str() || known.token != *token);
            }
        }
    }
}

fn bytes_of(key: &str) -> usize {
    // JSON escapes at most each byte with six.
    key.bytes()
        .map(|byte| if byte.is_ascii_control() || matches!(byte, b'"' | b'\\') { 6 } else { 1 })
        .sum::<usize>()
        + ENTRY_BYTES
}

fn bytes(warm: &Warm) -> usize {
    warm.keys().map(|key| bytes_of(key)).sum()
}

/// A digest of a session, as 32 hexadecimal digits: programs that do not know the field must be able to read the number.
mod digest {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    use crate::lease::primitives::Nonce;

    #[allow(clippy::trivially_copy_pass_by_ref)]
    pub fn serialize<S: Serializer>(digest: &Nonce, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(digest)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Nonce, D::Error> {
        let text = Box::<str>::deserialize(deserializer)?;
        u128::from_str_radix(&text, 16).map(Nonce).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> Key {
        Key::new(name).expect("a key")
    }

    fn warming(to: u128, token: u64) -> Warming {
        Warming {
            from: Nonce(u128::MAX),
            to: Nonce(to),
            token: Token(token),
            at_ms: 7,
            ready: false,
        }
    }

    #[test]
    fn at_most_so_many_begin_and_one_for_each_key() {
        let mut warm = Warm::new();
        for (name, to) in [("a", 1), ("a", 2), ("b", 1), ("c", 1)] {
            WarmStep::Begin(key(name), warming(to, 3), 2).carry_out(&mut warm);
        }
        assert_eq!(warm.keys().map(|key| &**key).collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(warm["a"].to, Nonce(1));
        let long = |at: u8| key(&format!("{}{}", "\"".repeat(500), char::from(at)));
        (b'a'..=b'z')
            .for_each(|at| WarmStep::Begin(long(at), warming(1, 3), 99).carry_out(&mut warm));
        let stored = serde_json::to_string(&warm).expect("JSON");
        assert!(
            warm.len() == 4 && stored.len() <= MAX_WARMING_BYTES,
            "{} {}",
            warm.len(),
            stored.len()
        );
    }

    #[test]
    fn what_concerns_another_tenure_changes_nothing() {
        let mut warm = Warm::from([("a".into(), warming(1, 3))]);
        for step in [WarmStep::Ready(key("a"), Token(2)), WarmStep::End(key("a"), Token(4))] {
            step.carry_out(&mut warm);
            assert_eq!(warm["a"], warming(1, 3));
        }
        WarmStep::Ready(key("a"), Token(3)).carry_out(&mut warm);
        assert!(warm["a"].ready);
        WarmStep::End(key("a"), Token(3)).carry_out(&mut warm);
        assert!(warm.is_empty());
    }

    #[test]
    fn the_entry_is_no_larger_than_what_is_counted_for_it() {
        let most = Warming {
            token: Token(u64::MAX),
            at_ms: u64::MAX,
            ready: true,
            ..warming(u128::MAX, 1)
        };
        let stored =
            serde_json::to_string(&Warm::from([("k".into(), most.clone())])).expect("JSON");
        assert!(stored.len() <= bytes_of("k"), "{} {stored}", stored.len());
        assert_eq!(serde_json::from_str::<Warm>(&stored).expect("a warm-up")["k"], most);
    }
}
