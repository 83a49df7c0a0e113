//! One entry of `may`: verbs, and the keys that they are for.

use std::fmt;

use super::{quoted::quoted, verb::Verb};
use crate::lease::permit_of;

/// The keys that a right is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Every key with this prefix.
    Prefix(Box<str>),
    /// This key and its permits.
    Key(Box<str>),
}

/// One entry of a principal's `may`.
#[derive(Clone, Debug)]
pub struct Right {
    /// The verbs that it allows.
    pub verbs: Box<[Verb]>,
    /// Which keys; `None` if the verbs have no keys.
    pub scope: Option<Scope>,
    /// Its line in the file.
    pub line: usize,
}

impl Right {
    /// Whether it allows the verb for a key. A verb without keys is allowed for any.
    #[must_use]
    pub fn allows(&self, verb: Verb, key: &str) -> bool {
        let for_key = self.scope.as_ref().is_none_or(|scope| scope.has(key));
        self.verbs.contains(&verb) && for_key
    }

    /// Whether it allows the verb for every key that the other right is for.
    pub(super) fn contains(&self, verb: Verb, other: &Self) -> bool {
        self.verbs.contains(&verb)
            && match (&self.scope, &other.scope) {
                (None, _) => true,
                (Some(Scope::Key(_)), _) => self.scope == other.scope,
                (Some(Scope::Prefix(prefix)), Some(Scope::Prefix(it) | Scope::Key(it))) => {
                    it.starts_with(&**prefix)
                }
                (Some(Scope::Prefix(prefix)), None) => prefix.is_empty(),
            }
    }
}

impl Scope {
    /// Whether it has the key.
    fn has(&self, key: &str) -> bool {
        match self {
            Self::Prefix(prefix) => key.starts_with(&**prefix),
            Self::Key(one) => {
                *key == **one || permit_of(key).is_some_and(|(name, _)| *name == **one)
            }
        }
    }
}

/// Two rights that allow the same are equal, wherever they are.
impl PartialEq for Right {
    fn eq(&self, other: &Self) -> bool {
        self.verbs == other.verbs && self.scope == other.scope
    }
}

impl Eq for Right {}

/// As the file has it.
impl fmt::Display for Right {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.verbs {
            [verb] => write!(f, "{{ verb = \"{verb}\"")?,
            verbs => {
                let verbs: Vec<String> = verbs.iter().map(|verb| format!("\"{verb}\"")).collect();
                write!(f, "{{ verb = [{}]", verbs.join(", "))?;
            }
        }
        match &self.scope {
            Some(Scope::Prefix(prefix)) => write!(f, ", prefix = {}", quoted(prefix))?,
            Some(Scope::Key(key)) => write!(f, ", key = {}", quoted(key))?,
            None => {}
        }
        f.write_str(" }")
    }
}
