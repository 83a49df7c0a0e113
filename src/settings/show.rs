//! Writes settings as TOML.

use super::{
    load::Loaded,
    table::{About, shown},
    tree::{Setting, TABLE},
    value::Shown,
};

impl Loaded {
    /// The settings as TOML that reads back as the same settings. With `with_origin`, a comment names the layer of each
    /// value. For a secret, the output only says that it is set.
    #[must_use]
    pub fn to_toml(&self, with_origin: bool) -> String {
        let mut settings: Vec<&Setting> = TABLE.iter().collect();
        settings.sort_unstable_by_key(|setting| (&setting.section, setting.about.key));
        let mut text = String::new();
        for section in settings.chunk_by(|one, next| one.section == next.section) {
            let lines =
                section.iter().map(|setting| (setting.about, (setting.show)(&self.settings)));
            let origin = with_origin.then_some(&*section[0].section);
            self.add(&mut text, &format!("[{}]", section[0].section), lines, origin);
        }
        for plugin in &self.settings.plugins {
            let lines = shown(plugin).into_iter().chain(plugin.kind.shown());
            let lines = lines.filter(|(_, shown)| *shown != Shown::Text(String::new()));
            self.add(&mut text, "[[plugin]]", lines, None);
        }
        for (at, policy) in self.settings.policies.iter().enumerate() {
            let mut lines = shown(policy);
            lines.sort_unstable_by_key(|(about, _)| about.key);
            let origin = with_origin.then(|| format!("policy[{at}]"));
            self.add(&mut text, "[[policy]]", lines.into_iter(), origin.as_deref());
        }
        text
    }

    /// Adds a section with its values. `place` is where their origins are, if those are told.
    fn add(
        &self,
        text: &mut String,
        head: &str,
        values: impl Iterator<Item = (&'static About, Shown)>,
        place: Option<&str>,
    ) {
        if !text.is_empty() {
            text.push('\n');
        }
        *text += head;
        text.push('\n');
        for (about, shown) in values {
            let Some(line) = shown.line(about.key) else { continue };
            *text += &line;
            if let Some(place) = place {
                let origin = self.origin(&format!("{place}.{}", about.key)).to_string();
                *text += &format!("  # {}", origin.replace(char::is_control, " "));
            }
            text.push('\n');
        }
    }
}
