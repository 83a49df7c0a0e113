//! One entry of `may`: verbs, and the keys that they are for.

use std::fmt;

use super::{quoted::quoted, verb::Verb};

/// One entry of a principal's `may`.
#[derive(Clone, Debug)]
pub struct Right {
    /// The verbs that it allows.
    pub verbs: Box<[Verb]>,
    /// What the keys begin with; `None` if the verbs have no keys.
    pub prefix: Option<Box<str>>,
    /// Its line in the file.
    pub line: usize,
}

impl Right {
    /// Whether it allows the verb for a key. A verb without keys is allowed for any.
    #[must_use]
    pub fn allows(&self, verb: Verb, key: &str) -> bool {
        let for_key = self.prefix.as_deref().is_none_or(|prefix| key.starts_with(prefix));
        self.verbs.contains(&verb) && for_key
    }

    /// Whether it allows the verb for every key that the other right is for.
    pub(super) fn contains(&self, verb: Verb, other: &Self) -> bool {
        self.allows(verb, other.prefix.as_deref().unwrap_or_default())
    }
}

/// Two rights that allow the same are equal, wherever they are.
impl PartialEq for Right {
    fn eq(&self, other: &Self) -> bool {
        self.verbs == other.verbs && self.prefix == other.prefix
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
        if let Some(prefix) = &self.prefix {
            write!(f, ", prefix = {}", quoted(prefix))?;
        }
        f.write_str(" }")
    }
}
