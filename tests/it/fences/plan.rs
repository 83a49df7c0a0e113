//! Which key has which policy, and how it is to end up.

use std::path::Path;

/// What a plugin does with an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Does {
    Confirms,
    FailsTwice,
    Hangs,
    Fails,
    Panics,
}

/// What a policy says of the fences of its keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    Before,
    BeforeOrAlarm,
    After,
    AfterOrAlarm,
}

const DOES: [(&str, Does); 5] = [
    ("confirms", Does::Confirms),
    ("twice", Does::FailsTwice),
    ("hangs", Does::Hangs),
    ("fails", Does::Fails),
    ("panics", Does::Panics),
];

const RULES: [(&str, Rule, &str, &str); 4] = [
    ("before", Rule::Before, "before-grant", "block"),
    ("before-alarm", Rule::BeforeOrAlarm, "before-grant", "grant-with-alarm"),
    ("after", Rule::After, "after-grant", "block"),
    ("after-alarm", Rule::AfterOrAlarm, "after-grant", "grant-with-alarm"),
];

/// Of so many keys one has nobody who waits for it.
const UNWANTED: usize = 8;
/// Programs of a plugin that run at a time.
const PLACES: usize = 12;
/// Programs of the plugin that hangs: they have the time to write a line down, and do nothing but wait.
const HANGING: usize = 48;
/// Programs that a node may leave running when it is killed: of all plugins but the one that panics.
pub const LEFT_RUNNING: usize = PLACES * (DOES.len() - 2) + HANGING;
/// How often a plugin tries: a time-out after the first failures of each is the last.
pub const TRIES: usize = 2;

/// A key, what its policy says, and who waits for it.
#[derive(Clone, Debug)]
pub struct Planned {
    pub key: String,
    pub rule: Rule,
    /// The plugins, each of which is to confirm.
    pub plugins: Vec<(&'static str, Does)>,
    pub wanted: bool,
}

/// How a key is to end up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ending {
    pub state: &'static str,
    /// Fences are left in the record.
    pub pending: bool,
    /// One of them failed for good.
    pub failed: bool,
}

impl Planned {
    pub fn confirms(&self) -> bool {
        self.plugins.iter().all(|(_, does)| matches!(does, Does::Confirms | Does::FailsTwice))
    }

    /// Whether nobody is granted the key before its fence is confirmed.
    pub fn is_before(&self) -> bool {
        matches!(self.rule, Rule::Before | Rule::BeforeOrAlarm)
    }

    /// Whether its fence is to run: before a grant always, after one where there is one.
    pub fn is_due(&self) -> bool {
        self.wanted || self.is_before()
    }

    pub fn ending(&self) -> Ending {
        let last = if self.wanted { "held" } else { "free" };
        let (state, pending, failed) = match (self.rule, self.confirms()) {
            (Rule::Before, false) => ("fencing", true, true),
            // They are not due before somebody else was granted the key.
            (Rule::After | Rule::AfterOrAlarm, _) if !self.wanted => (last, true, false),
            (Rule::After, false) => (last, true, true),
            _ => (last, false, false),
        };
        Ending { state, pending, failed }
    }
}

/// So many keys, of every kind.
pub fn keys(count: usize) -> Vec<Planned> {
    let kinds: Vec<_> = RULES
        .iter()
        .flat_map(|(prefix, rule, _, _)| {
            let one = DOES.iter().map(move |plugin| (*prefix, *rule, vec![*plugin]));
            one.chain([(*prefix, *rule, vec![DOES[0], DOES[1]])])
        })
        .collect();
    (0..count)
        .map(|n| {
            let (prefix, rule, plugins) = kinds[n % kinds.len()].clone();
            let names: Vec<_> = plugins.iter().map(|(name, _)| *name).collect();
            let key = format!("{prefix}/{}/{n}", names.join("-"));
            Planned { key, rule, plugins, wanted: (n / kinds.len()) % UNWANTED != 0 }
        })
        .collect()
}

/// The settings: a policy for every kind of key, a plugin for everything that one can do.
pub fn settings(program: &Path, journal: &Path, gate: &Path) -> String {
    let mut text = String::new();
    for (prefix, _, when, on_failure) in RULES {
        for (name, list) in DOES
            .map(|(name, _)| (name, format!("{name:?}")))
            .into_iter()
            .chain([("confirms-twice", "\"confirms\", \"twice\"".to_owned())])
        {
            text += &format!(
                "[[policy]]\nprefix = \"{prefix}/{name}/\"\nfence = [{list}]\nfence_when = \"{when}\"\n\
                 on_fence_failure = \"{on_failure}\"\nfence_timeout = \"2m\"\n\n",
            );
        }
    }
    for (name, does) in DOES {
        let (retries, timeout) = match does {
            Does::Confirms | Does::FailsTwice => (9, "20s"),
            Does::Hangs => (TRIES - 1, "1s"),
            Does::Fails => (TRIES - 1, "20s"),
            Does::Panics => (TRIES - 1, "5s"),
        };
        text += &format!("[[plugin]]\nname = \"{name}\"\nretries = {retries}\n");
        let places = if does == Does::Hangs { HANGING } else { PLACES };
        text += &format!("timeout = \"{timeout}\"\nconcurrency = {places}\n");
        text += &if does == Does::Panics {
            "kind = \"panic\"\n\n".to_owned()
        } else {
            format!("kind = \"exec\"\ncommand = [{program:?}, {name:?}, {journal:?}, {gate:?}]\n\n")
        };
    }
    text
}
