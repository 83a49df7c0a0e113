//! The key of a lease.

use std::{borrow::Borrow, fmt, sync::Arc};

use serde::{Deserialize, Serialize};

use super::nonce::Nonce;

/// The longest key, in bytes of UTF-8.
pub const MAX_KEY_BYTES: usize = 512;

/// Why a name was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidName {
    /// The name has no bytes.
    #[error("must not be empty")]
    Empty,
    /// The name is longer than its limit.
    #[error("is {actual} bytes long; at most {limit} are allowed")]
    TooLong {
        /// Length of the name in bytes.
        actual: usize,
        /// The limit in bytes.
        limit: usize,
    },
    /// The name is new and holds a character that is not seen.
    #[error(
        "holds the character U+{code:04X} at byte {at}, which is not seen: leave it out of a new name"
    )]
    Hidden {
        /// Byte offset of the character.
        at: usize,
        /// Its number in Unicode.
        code: u32,
    },
    /// The name holds a control character.
    #[error("holds a control character at byte {at}")]
    Control {
        /// Byte offset of the character.
        at: usize,
    },
}

pub(super) fn validate(name: &str, limit: usize) -> Result<(), InvalidName> {
    if name.is_empty() {
        return Err(InvalidName::Empty);
    }
    if name.len() > limit {
        return Err(InvalidName::TooLong { actual: name.len(), limit });
    }
    match name.char_indices().find(|(_, c)| c.is_control()) {
        Some((at, _)) => Err(InvalidName::Control { at }),
        None => Ok(()),
    }
}

/// The name of a lease: 1 to 512 bytes of UTF-8 without control characters, compared byte by byte.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Key(Arc<str>);

impl Key {
    /// Accepts a valid name.
    ///
    /// # Errors
    /// [`InvalidName`] when it is empty, too long, or holds a control character.
    pub fn new(name: &str) -> Result<Self, InvalidName> {
        validate(name, MAX_KEY_BYTES)?;
        Ok(Self(name.into()))
    }

    /// The name as text, byte for byte as it was given.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for Key {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

/// What stands between the name of a key with permits and the number of a permit.
pub(in crate::lease) const PERMIT: char = '#';

/// The prefix of sessions' keys. It starts with a character that no caller's key may contain.
const SESSION_PREFIX: &str = "\u{7f}session/";
/// The prefix of notifiers' keys.
const NOTIFIER_PREFIX: &str = "\u{7f}notifier/";
/// The prefix of the keys of pools.
const POOL_PREFIX: &str = "\u{7f}pool/";
/// The key of the revocation list.
const REVOCATIONS: &str = "\u{7f}access/revoked";
/// The longest name of a plugin or a pool.
const MAX_NAME: usize = 64;

impl Key {
    /// The key of the permit with this number, such as `gpus/a#2`.
    ///
    /// # Errors
    /// [`InvalidName::TooLong`].
    pub fn permit(&self, number: u32) -> Result<Self, InvalidName> {
        Self::new(&format!("{}{PERMIT}{number}", self.0))
    }

    /// The key of a session's record.
    #[must_use]
    pub fn of_session(digest: Nonce) -> Self {
        Self(format!("{SESSION_PREFIX}{digest}").into())
    }

    /// The prefix that the keys of all sessions, and no other keys, begin with.
    #[must_use]
    pub fn session_prefix() -> &'static str {
        SESSION_PREFIX
    }

    /// The session whose record has this key.
    #[must_use]
    pub fn session(&self) -> Option<Nonce> {
        let digest = self.0.strip_prefix(SESSION_PREFIX)?;
        let lower = digest.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        (digest.len() == 32 && lower).then_some(())?;
        u128::from_str_radix(digest, 16).ok().map(Nonce)
    }

    /// Whether this is the key of a session's record.
    #[must_use]
    pub fn is_session(&self) -> bool {
        self.0.starts_with(SESSION_PREFIX)
    }

    /// The key under which one node at a time notifies a plugin.
    #[must_use]
    pub fn of_notifier(plugin: &str) -> Self {
        Self(format!("{NOTIFIER_PREFIX}{plugin}").into())
    }

    /// The key of the record that says what operators ordered for a pool.
    #[must_use]
    pub fn of_pool(pool: &str) -> Self {
        Self(format!("{POOL_PREFIX}{pool}").into())
    }

    /// The pool whose record has this key.
    #[must_use]
    pub fn pool(&self) -> Option<&str> {
        self.0.strip_prefix(POOL_PREFIX)
    }

    /// The key of the record that says who may no longer call.
    #[must_use]
    pub fn of_revocations() -> Self {
        Self(REVOCATIONS.into())
    }

    /// Whether this is the key of the revocation list.
    #[must_use]
    pub fn is_of_revocations(&self) -> bool {
        &*self.0 == REVOCATIONS
    }

    /// Whether this is the key of the record of a session or a pool, of a notifier, or of the revocation list. No caller
    /// can name it, and no caller is shown it.
    #[must_use]
    pub fn is_internal(&self) -> bool {
        self.is_session()
            || self.0.starts_with(NOTIFIER_PREFIX)
            || self.pool().is_some()
            || self.is_of_revocations()
    }

    /// A key as a store returns it: a caller's key, or the key of a session, a notifier, a pool or the revocation list.
    ///
    /// # Errors
    /// [`InvalidName`].
    pub fn stored(name: &str) -> Result<Self, InvalidName> {
        let key = Self(name.into());
        let notifies = name.strip_prefix(NOTIFIER_PREFIX).is_some_and(is_plugin_name);
        let of_pool = key.pool().is_some_and(is_pool_name);
        let is_known = notifies || of_pool || key.session().is_some() || key.is_of_revocations();
        if is_known { Ok(key) } else { Self::new(name) }
    }
}

/// The name and the number of a permit's key: `gpus/a` and 2 of `gpus/a#2`.
#[must_use]
pub fn permit_of(key: &str) -> Option<(&str, u32)> {
    let (name, number) = key.rsplit_once(PERMIT)?;
    let plain = number.bytes().all(|byte| byte.is_ascii_digit()) && !number.starts_with('0');
    let number = number.parse().ok().filter(|_| plain)?;
    (!name.is_empty()).then_some((name, number))
}

/// Whether a plugin may have this name: 1 to 64 letters, digits, _, - and .
#[must_use]
pub fn is_plugin_name(name: &str) -> bool {
    let label = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    (1..=MAX_NAME).contains(&name.len()) && name.chars().all(label)
}

/// Whether a pool may have this name: 1 to 64 of a-z, 0-9, _ and -.
#[must_use]
pub fn is_pool_name(name: &str) -> bool {
    let label = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '_' | '-');
    (1..=MAX_NAME).contains(&name.len()) && name.chars().all(label)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_sessions_are_no_keys_of_callers() {
        let key = Key::of_session(Nonce(0xab));
        assert_eq!(key.session(), Some(Nonce(0xab)));
        assert!(Key::new(key.as_str()).is_err());
        assert_eq!(Key::stored(key.as_str()), Ok(key));
        assert!(Key::stored("\u{7f}session/x").is_err());
        assert_eq!(Key::new("session/ab").unwrap().session(), None);
    }

    #[test]
    fn keys_of_notifiers_are_no_keys_of_callers_and_none_of_sessions() {
        let key = Key::of_notifier("traffic-1.b");
        assert!(key.is_internal() && !key.is_session() && key.session().is_none());
        assert!(Key::new(key.as_str()).is_err());
        assert_eq!(Key::stored(key.as_str()), Ok(key));
        for odd in ["", "a/b", "a\n", &"n".repeat(65)] {
            assert!(Key::stored(Key::of_notifier(odd).as_str()).is_err(), "{odd:?}");
        }
        assert!(Key::of_session(Nonce(1)).is_internal());
        assert!(!Key::new("notifier/a").unwrap().is_internal());
    }

    #[test]
    fn keys_of_pools_are_no_keys_of_callers() {
        let key = Key::of_pool("shards-1_b");
        assert!(key.is_internal() && !key.is_session());
        assert_eq!(key.pool(), Some("shards-1_b"));
        assert!(Key::new(key.as_str()).is_err());
        assert_eq!(Key::stored(key.as_str()), Ok(key));
        for odd in ["", "A", "a/b", "a\n", &"n".repeat(65)] {
            assert!(Key::stored(Key::of_pool(odd).as_str()).is_err(), "{odd:?}");
        }
        assert_eq!(Key::of_session(Nonce(1)).pool(), None);
    }

    #[test]
    fn the_key_of_the_revocation_list_is_no_key_of_callers() {
        let key = Key::of_revocations();
        assert!(key.is_internal() && key.is_of_revocations() && !key.is_session());
        assert!(Key::new(key.as_str()).is_err());
        assert_eq!(Key::stored(key.as_str()), Ok(key));
        assert!(Key::stored("\u{7f}access/other").is_err());
        assert!(!Key::new("access/revoked").unwrap().is_internal());
    }

    #[test]
    fn a_permit_has_a_name_and_a_number() {
        let second = Key::new("gpus/a").unwrap().permit(2).unwrap();
        assert_eq!(second.as_str(), "gpus/a#2");
        assert_eq!(permit_of("gpus/a#2"), Some(("gpus/a", 2)));
        assert_eq!(permit_of("a#1#12"), Some(("a#1", 12)));
        for odd in ["gpus/a", "a#", "a#0", "a#01", "a#+1", "#1", "a#99999999999", "a#x"] {
            assert_eq!(permit_of(odd), None, "{odd}");
        }
        assert!(Key::new(&"k".repeat(511)).unwrap().permit(1).is_err());
    }

    #[test]
    fn names_are_bounded_in_bytes_and_free_of_control_characters() {
        assert!(Key::new("jobs/ü ≥ 🦀 * > .").is_ok());
        assert!(Key::new(&"k".repeat(512)).is_ok());
        assert_eq!(
            Key::new(&"k".repeat(513)),
            Err(InvalidName::TooLong { actual: 513, limit: 512 })
        );
        assert_eq!(Key::new(""), Err(InvalidName::Empty));
        assert_eq!(Key::new("a\u{7f}"), Err(InvalidName::Control { at: 1 }));
    }
}
