//! Layers to settings: every leaf is judged by itself, so that no fault hides another.

use std::collections::{BTreeMap, BTreeSet};

use config::{Config, ConfigError, ValueKind};

use super::{
    Fault, Faults, Origin, Settings, Sources,
    layers::{Layers, Leaf},
    plugins, policies,
    rows::LISTS,
    secret::SECRETS,
    show, validate,
};

/// Settings that are valid, and where each value came from.
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
    /// Reads all layers, judges every value, and puts them on top of each other.
    ///
    /// # Errors
    /// Everything that is wrong in any layer, also in values that a stronger layer replaces.
    pub fn load(&self) -> Result<Loaded, Faults> {
        let Layers { leaves, rows, mut faults } = self.layers();
        let known = Known::of(&Settings::default());
        let mut origins = BTreeMap::new();
        let mut sound = Vec::new();
        for leaf in &leaves {
            match judge(&known, leaf) {
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
        let mut settings = overlay(&sound).map_err(|error| {
            let problem = say(&error);
            Faults(vec![Fault { origin: Origin::Default, key: None, problem }])
        })?;
        settings.plugins = plugins::read(&rows, &mut faults);
        faults.extend(validate::faults(&settings).into_iter().map(|(key, problem)| Fault {
            origin: origins.get(key).cloned().unwrap_or_default(),
            key: Some(key.to_owned()),
            problem,
        }));
        let of_policies: Vec<_> = rows.into_iter().filter(|row| row.list == "policy").collect();
        settings.policies = policies::read(&of_policies, &mut faults);
        let read = (&settings.policies[..], &of_policies[..]);
        faults.extend(policies::placed_faults(read, &settings.limits, &known_plugins(&settings)));
        origins.extend(policies::origins(&of_policies));
        if faults.is_empty() { Ok(Loaded { settings, origins }) } else { Err(Faults(faults)) }
    }
}

/// The names of the `[[plugin]]` tables.
pub(super) fn known_plugins(settings: &Settings) -> Vec<String> {
    settings.plugins.iter().map(|plugin| plugin.name.clone()).collect()
}

/// The keys and sections that there are.
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

fn judge(known: &Known, leaf: &Leaf) -> Result<(), String> {
    if known.sections.contains(&leaf.path) {
        return match leaf.value.kind {
            ValueKind::Table(_) => Ok(()),
            _ => Err("is a section, and takes no value itself".into()),
        };
    }
    let list = leaf.path.split('.').next().unwrap_or_default();
    if LISTS.contains(&list) {
        return Err(format!("is a list of tables, written [[{list}]], and stands in a file alone"));
    }
    if !known.keys.contains(&leaf.path) {
        return Err(known.unknown(&leaf.path));
    }
    overlay(&[leaf]).map(drop).map_err(|error| {
        // The library's sentence quotes the value.
        if SECRETS.contains(&leaf.path.as_str()) {
            return "must be text in quotes".into();
        }
        say(&error)
    })
}

/// The defaults with these values on top.
fn overlay(leaves: &[&Leaf]) -> Result<Settings, ConfigError> {
    let mut builder = Config::builder().add_source(Config::try_from(&Settings::default())?);
    for leaf in leaves {
        builder = builder.set_override(&leaf.path, leaf.value.clone())?;
    }
    builder.build()?.try_deserialize()
}

/// The sentence alone: key and origin are told by the fault.
pub(super) fn say(error: &ConfigError) -> String {
    match error {
        ConfigError::At { error, .. } => say(error),
        ConfigError::Type { unexpected, expected, .. } => {
            format!("invalid type: {unexpected}, expected {expected}")
        }
        other => other.to_string(),
    }
}
