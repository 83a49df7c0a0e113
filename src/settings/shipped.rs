//! `config/tenure.toml`, the shipped file: every setting with its meaning and default, written from the table.

use super::{
    plugins::{Plugin, PluginKind},
    policies::Policy,
    table::{About, shown},
    tree::{Settings, TABLE},
    value::Shown,
};

/// The longest line of the file, in bytes.
const WIDTH: usize = 120;
const HEAD: [&str; 3] = [
    "All settings of tenure with their defaults. No setting is required.",
    "Sources, weakest first: these defaults < the file (`--config`) < the environment \
     (`TENURE__SERVER__LISTEN=0.0.0.0:7373`) < flags (`--listen`, `--data-dir`, `--store`, `--set section.key=value`). \
     `tenure config check` reports every error. `tenure config show --origin` shows the source of each value. Settings \
     are read once, at startup. The [[policy]] and [[plugin]] tables are also reread on SIGHUP, and so are the TLS files \
     that [server] names.",
    "Durations are written \"250ms\", \"15s\", \"2m\", \"24h\"; sizes \"512KiB\", \"8MiB\", \"1GiB\".",
];
const POLICIES: &str = "Policies: settings for the keys under a prefix. [[policy]] tables are read only from the file, not \
    from the environment or flags. On SIGHUP the file is reread. Its policies apply to held leases at their next grant, \
    heartbeat with a ttl, or end. A file with errors changes nothing. At most 256 policies.";
const PLUGINS: &str = "Plugins that fence resources, or are notified of ownership changes. A policy names those that \
    fence in `fence`; `on` says of what a plugin is notified. There is none by default. They are read only from the \
    file, in any number. docs/fencing.md and docs/notifications.md say what each kind guarantees. Common to all kinds:";
/// An example of each kind, with its name.
const EXAMPLES: [(&str, &str); 5] = [
    ("power", "exec"),
    ("hook", "webhook"),
    ("bus", "nats"),
    ("accounts", "postgres"),
    ("note", "log"),
];
const LOG: &str = "log: writes a line to the log and confirms. It fences nothing.";

/// The text of `config/tenure.toml`: every setting with its default, range and meaning.
#[must_use]
pub fn shipped_file() -> String {
    let mut text = HEAD.map(|paragraph| comment("#", paragraph)).join("#\n");
    let defaults = Settings::default();
    for section in TABLE.chunk_by(|one, next| one.section == next.section) {
        text += &format!("\n[{}]\n", section[0].section);
        text.extend(
            section.iter().map(|setting| entry("", setting.about, &(setting.show)(&defaults))),
        );
    }
    text += &format!("\n{}#\n# [[policy]]\n", comment("#", POLICIES));
    text.extend(entries(shown(&Policy::default())));
    text += &format!("\n{}", comment("#", PLUGINS));
    for (at, (name, kind)) in EXAMPLES.into_iter().enumerate() {
        text += "#\n# [[plugin]]\n";
        text += &example(name, kind, at == 0);
    }
    text
}

/// A plugin. What all kinds have in common is explained once.
fn example(name: &str, kind: &str, explained: bool) -> String {
    let kind = PluginKind::named(kind).unwrap_or(PluginKind::Log);
    let plugin = Plugin { name: name.to_owned(), kind, ..Plugin::default() };
    let of_kind = entries(plugin.kind.shown());
    if explained {
        return entries(shown(&plugin)).chain(of_kind).collect();
    }
    let log = if plugin.kind == PluginKind::Log { comment("# #", LOG) } else { String::new() };
    let head = format!("# name = {name:?}\n{log}# kind = {:?}\n", plugin.kind.as_str());
    std::iter::once(head).chain(of_kind).collect()
}

fn entries(settings: Vec<(&'static About, Shown)>) -> impl Iterator<Item = String> {
    settings.into_iter().map(|(about, value)| entry("# ", about, &value))
}

/// A key with its help, its range and its value, behind `mark`.
fn entry(mark: &str, about: &About, value: &Shown) -> String {
    let line = match about.example {
        Some("") => None,
        Some(example) => Some(format!("{} = {example}", about.key)),
        None => value.line(about.key),
    };
    let Some(line) = line else { return String::new() };
    let range: String = about.range.iter().map(|range| format!(" {}.", range())).collect();
    let help = comment(&format!("{mark}#"), &(about.help.concat() + &range));
    format!("{help}{mark}{line}\n")
}

/// Writes text as lines that begin with `mark`.
fn comment(mark: &str, text: &str) -> String {
    let (mut lines, mut line) = (String::new(), mark.to_owned());
    for word in text.split_whitespace() {
        if line.len() + 1 + word.len() > WIDTH {
            lines += &format!("{line}\n");
            mark.clone_into(&mut line);
        }
        line += &format!(" {word}");
    }
    format!("{lines}{line}\n")
}
