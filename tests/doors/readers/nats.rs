//! The reader of the subjects of a bucket, for fuzz targets and tests. Not in a released binary.

use super::{Key, Name, Subjects};

/// The names of a bucket.
pub struct Bucket(Subjects);

impl Bucket {
    /// The bucket of this name.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self(Subjects::new(name))
    }

    /// The subject of a key.
    #[must_use]
    pub fn subject(&self, key: &Key) -> String {
        self.0.lease(key)
    }

    /// The key of a subject.
    #[must_use]
    pub fn key(&self, subject: &str) -> Option<Key> {
        match self.0.name(subject) {
            Name::Lease(key) => key,
            _ => None,
        }
    }
}
