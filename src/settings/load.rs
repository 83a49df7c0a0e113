//! Turns layers into settings. Every leaf is checked by itself, so that no fault hides another.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::LazyLock,
};

use config::{Config, ConfigError, ValueKind};

use super::{
    Fault, Faults, Origin, Settings, Sources,
    layers::{Layers, Leaf},
    plugins, policies,
    rows::{self, LISTS},
    secret::SECRETS,
    show, validate,
};

/// Valid settings, and the layer that each value came from.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The settings.
    pub settings: Settings,
    pub(super) origins: BTreeMap<String, Origin>,
}

impl Loaded {
    /// The layer that a key such as `server.listen` came from.
    #[must_use]
    pub fn origin(&self, key: &str) -> Origin {
        self.origins.get(key).cloned().unwrap_or_default()
    }
}

impl Sources {
    /// Reads all layers, checks every value, and lets stronger layers override weaker ones.
    ///
    /// # Errors
    /// All faults in all layers, including faults in values that a stronger layer overrides.
    pub fn load(&self) -> Result<Loaded, Faults> {
        self.layers().load()
    }
}

impl Layers {
    /// Checks every value, and lets stronger layers override weaker ones.
    pub(super) fn load(self) -> Result<Loaded, Faults> {
        let Self { leaves, rows, mut faults } = self;
        let known = &*KNOWN;
        let mut origins = BTreeMap::new();
        let mut sound = Vec::new();
        let (judged, read) = judge(known, &leaves);
        for (leaf, judged) in leaves.iter().zip(judged) {
            match judged {
                Ok(()) if known.keys.contains(&leaf.path) => {
                    origins.insert(leaf.path.clone(), leaf.origin.clone());
                    sound.push(leaf);
                }
                Ok(()) => {}
                Err(problem) => faults.push(Fault {
                    origin: leaf.origin.clone(),
                    key: Some(leaf.path.clone()),
                    problem,
                }),
            }
        }
        let read = read.map_or_else(|| overlay(&sound), Ok);
        let mut settings = read.map_err(|error| {
            let problem = say(&error);
            Faults(vec![Fault { origin: Origin::Default, key: None, problem }])
        })?;
        settings.plugins = plugins::read(&rows, &mut faults);
        faults.extend(validate::faults(&settings).into_iter().map(|(key, problem)| Fault {
            origin: origins.get(key).cloned().unwrap_or_default(),
            key: Some(key.to_owned()),
            problem,
        }));
        let (of_policies, of_plugins): (Vec<_>, Vec<_>) =
            rows.into_iter().partition(|row| row.list == "policy");
        settings.policies = policies::read(&of_policies, &mut faults);
        let read = (&settings.policies[..], &of_policies[..]);
        faults.extend(policies::placed_faults(read, &settings.limits, &known_plugins(&settings)));
        origins.extend(rows::origins(&of_policies).chain(rows::origins(&of_plugins)));
        if faults.is_empty() { Ok(Loaded { settings, origins }) } else { Err(Faults(faults)) }
    }
}

/// The names of the `[[plugin]]` tables.
pub(super) fn known_plugins(settings: &Settings) -> Vec<String> {
    settings.plugins.iter().map(|plugin| plugin.name.clone()).collect()
}

/// The keys and sections that exist.
struct Known {
    keys: BTreeSet<String>,
    sections: BTreeSet<String>,
}

impl Known {
    fn of(defaults: &Settings) -> Self {
        let keys: BTreeSet<String> =
            show::values(defaults).into_iter().map(|(path, _)| path).collect();
        let sections =
            keys.iter().filter_map(|path| Some(path.rsplit_once('.')?.0.to_owned())).collect();
        Self { keys, sections }
    }

    fn unknown(&self, path: &str) -> String {
        let list = |names: Vec<&str>| names.join(", ");
        match path.rsplit_once('.') {
            Some((section, _)) if self.sections.contains(section) => {
                let inside =
                    |key: &&String| key.rsplit_once('.').is_some_and(|(s, _)| s == section);
                let names = self.keys.iter().filter(inside).map(|key| &key[section.len() + 1..]);
                format!("no such key; [{section}] has {}", list(names.collect()))
            }
            _ => {
                let names = self.sections.iter().map(String::as_str).collect();
                format!("no such key; the sections are {}", list(names))
            }
        }
    }
}

static KNOWN: LazyLock<Known> = LazyLock::new(|| Known::of(&Settings::default()));

/// The fault of each leaf, if any; and the settings, if no value is wrong and none is set twice.
fn judge(known: &Known, leaves: &[Leaf]) -> (Vec<Result<(), String>>, Option<Settings>) {
    let mut judged: Vec<_> = leaves.iter().map(|leaf| of_path(known, leaf)).collect();
    let valued = |at: &usize| judged[*at].is_ok() && known.keys.contains(&leaves[*at].path);
    let valued: Vec<usize> = (0..leaves.len()).filter(valued).collect();
    let paths: BTreeSet<_> = valued.iter().map(|at| &leaves[*at].path).collect();
    let read = if paths.len() == valued.len() {
        judge_values(leaves, &valued, &mut judged)
    } else {
        // If a stronger value overrode a weaker one here, it would hide the weaker one's fault.
        valued.iter().for_each(|at| drop(judge_values(leaves, &[*at], &mut judged)));
        None
    };
    (judged, read)
}

/// Checks values of different keys: all at once, and in halves if something is wrong.
fn judge_values(
    leaves: &[Leaf],
    at: &[usize],
    judged: &mut [Result<(), String>],
) -> Option<Settings> {
    let read = overlay(&at.iter().map(|at| &leaves[*at]).collect::<Vec<_>>());
    match (read, at) {
        (Ok(settings), _) => return Some(settings),
        (Err(error), [at]) => {
            // The library's message quotes the value.
            let secret = SECRETS.contains(&leaves[*at].path.as_str());
            let quiet = "must be text in quotes".to_owned();
            judged[*at] = Err(if secret { quiet } else { say(&error) });
        }
        (Err(_), _) => {
            let (first, second) = at.split_at(at.len() / 2);
            judge_values(leaves, first, judged);
            judge_values(leaves, second, judged);
        }
    }
    None
}

/// Checks whether such a key or section exists.
fn of_path(known: &Known, leaf: &Leaf) -> Result<(), String> {
    if known.sections.contains(&leaf.path) {
        return match leaf.value.kind {
            ValueKind::Table(_) => Ok(()),
            _ => Err("is a section, and has no value of its own".into()),
        };
    }
    let list = leaf.path.split('.').next().unwrap_or_default();
    if LISTS.contains(&list) {
        return Err(format!("is a list of tables, written [[{list}]], and only a file can set it"));
    }
    if !known.keys.contains(&leaf.path) {
        return Err(known.unknown(&leaf.path));
    }
    Ok(())
}

/// The defaults, overridden by these values.
fn overlay(leaves: &[&Leaf]) -> Result<Settings, ConfigError> {
    if leaves.is_empty() {
        return Ok(Settings::default());
    }
    let mut builder = Config::builder();
    for leaf in leaves {
        builder = builder.set_override(&leaf.path, leaf.value.clone())?;
    }
    builder.build()?.try_deserialize()
}

/// The message alone: the fault already names the key and the origin.
pub(super) fn say(error: &ConfigError) -> String {
    match error {
        ConfigError::At { error, .. } => say(error),
        ConfigError::Type { unexpected, expected, .. } => {
            format!("invalid type: {unexpected}, expected {expected}")
        }
        other => other.to_string(),
    }
}
