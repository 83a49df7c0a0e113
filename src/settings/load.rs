//! Turns layers into settings. Every value is checked by itself, so that no fault hides another.

use std::collections::{BTreeMap, BTreeSet};

use config::ValueKind;

use super::{
    fault::{Fault, Faults, Origin},
    layers::{Layers, Leaf},
    listed::{self, LISTS},
    plugins, policies, posture,
    sources::Sources,
    tree::{Setting, Settings, TABLE, setting},
    value::say,
};

/// Valid settings, and the layer that each value came from.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The settings, each from the strongest source that sets it.
    pub settings: Settings,
    origins: BTreeMap<String, Origin>,
}

impl Loaded {
    /// The layer that a key such as `server.listen` came from.
    #[must_use]
    pub fn origin(&self, key: &str) -> Origin {
        self.origins.get(key).cloned().unwrap_or_default()
    }

    pub(super) fn fault(&self, key: &str, problem: String) -> Fault {
        Fault { origin: self.origin(key), key: Some(key.to_owned()), problem }
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
        let Self { leaves, tables, mut faults } = self;
        let mut loaded = Loaded { settings: Settings::default(), origins: BTreeMap::new() };
        faults.extend(leaves.into_iter().filter_map(|leaf| loaded.apply(leaf).err()));
        let (of_policies, of_plugins): (Vec<_>, Vec<_>) =
            tables.into_iter().partition(|table| table.list == "policy");
        loaded.settings.plugins = plugins::read(&of_plugins, &mut faults);
        let found = loaded.settings.faults().into_iter();
        faults.extend(found.map(|(path, problem)| loaded.fault(path, problem)));
        let exposed = posture::fault(&loaded.settings);
        faults.extend(exposed.map(|(path, problem)| loaded.fault(path, problem)));
        loaded.settings.policies = policies::read(&of_policies, &mut faults);
        let settings = &loaded.settings;
        let (read, plugins) = (&settings.policies[..], plugins::names(&settings.plugins));
        let placed = policies::placed_faults((read, &of_policies), &settings.limits, &plugins);
        faults.extend(placed);
        loaded.origins.extend(listed::origins(&of_policies).chain(listed::origins(&of_plugins)));
        Faults(faults).or(loaded)
    }
}

impl Loaded {
    /// Sets what the leaf says.
    fn apply(&mut self, leaf: Leaf) -> Result<(), Fault> {
        let Leaf { path, value, origin } = leaf;
        let problem = match setting(&path) {
            Some(setting) => match (setting.set)(&mut self.settings, value) {
                Ok(()) => {
                    self.origins.insert(path, origin);
                    return Ok(());
                }
                // The library's message quotes the value.
                Err(_) if setting.about.secret => "must be text in quotes".to_owned(),
                Err(error) => say(&error),
            },
            None => match misplaced(&path, &value.kind) {
                Some(problem) => problem,
                None => return Ok(()),
            },
        };
        Err(Fault { origin, key: Some(path), problem })
    }
}

/// The fault of a value that no setting has; `None` for an empty section.
fn misplaced(path: &str, kind: &ValueKind) -> Option<String> {
    let list = path.split('.').next().unwrap_or_default();
    if in_section(path).next().is_some() {
        let empty = matches!(kind, ValueKind::Table(_));
        (!empty).then(|| "is a section, and has no value of its own".to_owned())
    } else if LISTS.contains(&list) {
        Some(format!("is a list of tables, written [[{list}]], and only a file can set it"))
    } else {
        Some(unknown(path))
    }
}

fn unknown(path: &str) -> String {
    let section = path.rsplit_once('.').map_or("", |(section, _)| section);
    let keys: BTreeSet<&str> = in_section(section).map(|setting| setting.about.key).collect();
    if keys.is_empty() {
        let sections: BTreeSet<&str> = TABLE.iter().map(|setting| &*setting.section).collect();
        format!("no such key; the sections are {}", listing(sections))
    } else {
        format!("no such key; [{section}] has {}", listing(keys))
    }
}

fn in_section(section: &str) -> impl Iterator<Item = &'static Setting> {
    TABLE.iter().filter(move |setting| setting.section == section)
}

fn listing(names: BTreeSet<&str>) -> String {
    names.into_iter().collect::<Vec<_>>().join(", ")
}
