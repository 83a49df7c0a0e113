//! Where the keys of a pool go: the rules of its policies.

use std::sync::Arc;

use crate::lease::{labels::Labels, place_rule::PlaceRule, policy::Policies, rules::Rules};

/// The rules of a pool's policies. Keys whose policies say the same are one class.
#[derive(Clone, Debug, PartialEq)]
pub struct PlaceTable {
    policies: Arc<Policies>,
    applied: Rules,
    /// The class of each policy.
    classes: Box<[usize]>,
    rules: Box<[PlaceRule]>,
}

impl PlaceTable {
    /// The rules of a pool; `None` if its keys go anywhere.
    #[must_use]
    pub fn of_pool(policies: &Arc<Policies>, pool: &str, applied: Rules) -> Option<Self> {
        let mut rules: Vec<PlaceRule> = Vec::new();
        let class = |policy: &Arc<crate::lease::Policy>| {
            if *policy.pool != *pool {
                return 0;
            }
            let known = rules.iter().position(|rule| *rule == policy.place);
            known.unwrap_or_else(|| {
                rules.push(policy.place.clone());
                rules.len() - 1
            })
        };
        let classes = policies.iter().map(class).collect();
        let has_rules = rules.iter().any(|rule| !rule.is_empty());
        has_rules.then(|| Self {
            policies: policies.clone(),
            applied,
            classes,
            rules: rules.into(),
        })
    }

    /// The rule of each class.
    #[must_use]
    pub fn rules(&self) -> &[PlaceRule] {
        &self.rules
    }

    /// The class of a key of the pool.
    #[must_use]
    pub fn class_of(&self, key: &str) -> usize {
        self.classes[self.policies.place_of(key)]
    }

    /// Whether a member with these labels may have a key.
    #[must_use]
    pub fn allows(&self, key: &str, labels: &Labels) -> bool {
        self.allows_class(self.class_of(key), labels)
    }

    /// Whether a member with these labels may have the keys of a class.
    #[must_use]
    pub fn allows_class(&self, class: usize, labels: &Labels) -> bool {
        self.applied.a_member_may_have(self.rules[class].allows(labels))
    }
}
