//! Reads `[[plugin]]`. One plugin's faults hide no other's.

use config::{Value, ValueKind};

use super::{
    super::{
        fault::Fault,
        listed::ListedTable,
        stores::Nats,
        table::{Row, Section},
        value::say,
    },
    nats::{NatsPlugin, connect, connection},
    plugin::{Plugin, PluginKind},
};

/// Reads the plugins of a file. A plugin is left out if a required key is missing or wrong.
pub(in crate::settings) fn read(tables: &[ListedTable], faults: &mut Vec<Fault>) -> Vec<Plugin> {
    let mut plugins: Vec<Plugin> = Vec::new();
    for table in tables {
        let mut reader = Reader { table, known: Vec::new(), sound: true, faults: &mut *faults };
        plugins.extend(reader.plugin(&plugins));
    }
    plugins
}

struct Reader<'a> {
    table: &'a ListedTable,
    /// The keys that the plugin can have.
    known: Vec<&'static str>,
    /// Whether every required key is there and right.
    sound: bool,
    faults: &'a mut Vec<Fault>,
}

impl Reader<'_> {
    fn plugin(&mut self, others: &[Plugin]) -> Option<Plugin> {
        let mut plugin = Plugin::default();
        self.fill(&mut plugin);
        if !self.has_kind(&plugin) {
            // The known keys depend on the kind.
            return None;
        }
        self.fill_kind(&mut plugin.kind);
        if self.sound && others.iter().any(|other| other.name == plugin.name) {
            self.fault("name", "another plugin has this name");
        }
        self.refuse_unknown(&plugin);
        self.sound.then_some(plugin)
    }

    fn has_kind(&self, plugin: &Plugin) -> bool {
        let kind = self.table.get("kind").map(|value| &value.kind);
        matches!(kind, Some(ValueKind::String(name)) if name == plugin.kind.as_str())
    }

    fn fill_kind(&mut self, kind: &mut PluginKind) {
        match kind {
            PluginKind::Exec(exec) => self.fill(exec),
            PluginKind::Webhook(webhook) => self.fill(webhook),
            PluginKind::Nats(nats) => {
                self.fill(nats);
                self.fill_servers(nats);
            }
            PluginKind::Postgres(postgres) => {
                self.fill(postgres);
                if self.has("url") == self.has("url_file") {
                    self.fault("url", "either url or url_file must be given");
                }
            }
            PluginKind::Log => {}
            #[cfg(feature = "testing")]
            PluginKind::Panic => {}
        }
    }

    /// Reads the settings of a section, and checks them.
    fn fill<S: Section>(&mut self, section: &mut S) {
        for row in S::ROWS {
            self.fill_one(section, row);
        }
        self.check(section, |problem| problem);
    }

    fn fill_one<S: 'static>(&mut self, section: &mut S, row: &Row<S>) {
        let (key, required) = (row.about.key, row.about.required);
        self.known.push(key);
        let Some(value) = self.table.get(key).cloned() else {
            if required {
                self.miss(section, row);
            }
            return;
        };
        if let Err(error) = (row.set)(section, value) {
            self.sound &= !required;
            self.fault(key, say(&error));
        }
    }

    fn miss<S: 'static>(&mut self, section: &mut S, row: &Row<S>) {
        self.sound = false;
        if let Err(error) = (row.set)(section, Value::new(None, ValueKind::Nil)) {
            self.fault(row.about.key, format!("is missing; it {}", say(&error)));
        }
    }

    fn check<S: Section>(&mut self, section: &S, say: impl Fn(String) -> String) {
        for row in S::ROWS {
            for problem in row.faults(section) {
                self.fault(row.about.key, say(problem));
            }
        }
    }

    fn fill_servers(&mut self, fence: &mut NatsPlugin) {
        let mut servers = Nats { url: String::new(), ..Nats::default() };
        for row in connection() {
            let key = row.about.key;
            self.known.push(key);
            let Some(value) = self.table.get(key).cloned() else { continue };
            if let Err(error) = connect(&mut servers, row, value) {
                self.fault(key, say(&error));
            }
        }
        if self.has("url") {
            self.check(&servers, |problem| problem.replace("store.nats.", ""));
            fence.servers = Some(Box::new(servers));
            return;
        }
        for row in connection().filter(|row| self.has(row.about.key)).collect::<Vec<_>>() {
            let problem = "needs url; without one the servers of [store.nats] are meant";
            self.fault(row.about.key, problem);
        }
    }

    /// A key that was not read is a fault.
    fn refuse_unknown(&mut self, plugin: &Plugin) {
        let kind =
            if self.sound { format!("of kind {} ", plugin.kind.as_str()) } else { String::new() };
        self.known.sort_unstable();
        let problem = format!("no such key; a plugin {kind}has {}", self.known.join(", "));
        let table = self.table;
        for cell in table.cells.iter().filter(|cell| !self.known.contains(&&*cell.key)) {
            self.faults.push(table.fault(&cell.key, &*problem));
        }
    }

    fn has(&self, key: &str) -> bool {
        self.table.get(key).is_some()
    }

    fn fault(&mut self, key: &str, problem: impl Into<String>) {
        self.faults.push(self.table.fault(key, problem));
    }
}
