//! The owner of a tenure, and the principal that acts for it.

use std::{borrow::Cow, fmt, sync::Arc};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest as _, Sha256};

use super::key::{InvalidName, validate};

/// The longest name of an owner, in bytes of UTF-8.
pub const MAX_OWNER_BYTES: usize = 256;
/// Separates the name from the principal where both are written as one text. No name contains it.
const SEPARATOR: char = '\0';

/// An account that the coordinator's access file names. A tenure that was granted without an access file has none.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Principal(Arc<Named>);

#[derive(PartialEq, Eq, Hash)]
struct Named {
    name: Box<str>,
    digest: PrincipalDigest,
}

/// The first 64 bits of the SHA-256 of a principal's name, which stand for the principal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PrincipalDigest(u64);

impl Principal {
    /// The principal with this name, which holds no control character.
    #[must_use]
    pub fn new(name: &str) -> Self {
        let digest = Sha256::new_with_prefix("tenure principal 1\0").chain_update(name).finalize();
        let first = digest.first_chunk().copied().unwrap_or_default();
        let digest = PrincipalDigest(u64::from_be_bytes(first));
        Self(Arc::new(Named { name: name.into(), digest }))
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0.name
    }

    /// The digest of the name.
    #[must_use]
    pub fn digest(&self) -> PrincipalDigest {
        self.0.digest
    }
}

impl PrincipalDigest {
    /// The digest as a number.
    #[must_use]
    pub fn number(self) -> u64 {
        self.0
    }
}

/// A worker that holds or requests a lease: a name of 1 to 256 bytes of UTF-8 without control characters, and the
/// principal that acts for it. [`Rules::is_owner`](crate::lease::Rules::is_owner) decides who may act for whom.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Owner {
    name: Arc<str>,
    principal: Option<Principal>,
}

impl Owner {
    /// Accepts a valid name, without a principal.
    ///
    /// # Errors
    /// [`InvalidName`] when it is empty, too long, or holds a control character.
    pub fn new(name: &str) -> Result<Self, InvalidName> {
        validate(name, MAX_OWNER_BYTES)?;
        Ok(Self { name: name.into(), principal: None })
    }

    /// This owner, for which `principal` acts.
    #[must_use]
    pub fn of(self, principal: Option<Principal>) -> Self {
        Self { principal, ..self }
    }

    /// The name as text, byte for byte as it was given.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.name
    }

    /// The principal that acts for the owner.
    #[must_use]
    pub fn principal(&self) -> Option<&Principal> {
        self.principal.as_ref()
    }

    /// The digest of the principal that acts for the owner.
    #[must_use]
    pub fn principal_digest(&self) -> Option<PrincipalDigest> {
        self.principal.as_ref().map(Principal::digest)
    }

    /// The name of the principal, as the actor of the changes that it causes.
    pub(in crate::lease) fn actor(&self) -> Option<Box<str>> {
        self.principal.as_ref().map(|principal| principal.as_str().into())
    }

    /// Whether both have the same name, whoever acts for them.
    #[must_use]
    pub fn has_name_of(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

/// The name, and after it that of the principal if there is one. Without a principal it is the plain name.
impl Serialize for Owner {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.principal {
            None => serializer.serialize_str(&self.name),
            Some(by) => {
                serializer.collect_str(&format_args!("{}{SEPARATOR}{}", self.name, by.as_str()))
            }
        }
    }
}

impl<'de> Deserialize<'de> for Owner {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<str>::deserialize(deserializer)?;
        let (name, by) = match text.split_once(SEPARATOR) {
            Some((name, by)) => (name, Some(Principal::new(by))),
            None => (&*text, None),
        };
        Ok(Self { name: name.into(), principal: by })
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.name, f)?;
        self.principal.as_ref().map_or(Ok(()), |by| write!(f, " of {by:?}"))
    }
}

impl fmt::Debug for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_bounded_in_bytes_and_free_of_control_characters() {
        assert_eq!(Owner::new("w\n"), Err(InvalidName::Control { at: 1 }));
        assert_eq!(Owner::new("w\0"), Err(InvalidName::Control { at: 1 }));
        assert!(Owner::new(&"é".repeat(129)).is_err());
    }

    #[test]
    fn an_owner_is_written_with_its_principal_and_without_one_as_before() {
        let plain = Owner::new("w-1").expect("an owner");
        let bytes = postcard::to_stdvec(&plain).expect("bytes");
        assert_eq!(bytes, postcard::to_stdvec("w-1").expect("bytes"));
        assert_eq!(postcard::from_bytes(&bytes), Ok(plain.clone()));
        for name in ["p", "shard-worker", "ü"] {
            let owner = plain.clone().of(Some(Principal::new(name)));
            let bytes = postcard::to_stdvec(&owner).expect("bytes");
            assert_eq!(postcard::from_bytes(&bytes), Ok(owner.clone()));
            assert_eq!((owner.as_str(), owner.to_string().as_str()), ("w-1", "w-1"));
            assert!(owner != plain && owner.has_name_of(&plain));
            assert_eq!(owner.actor().as_deref(), Some(name));
        }
        let digest = |name: &str| Principal::new(name).digest();
        assert_eq!(digest("p"), digest("p"));
        assert_ne!(digest("p"), digest("q"));
    }
}
