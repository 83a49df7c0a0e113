//! Writes settings as TOML.

use std::fmt::Write;

use serde_json::Value;

use super::{Loaded, Nats, Plugin, PluginKind, Secret, Settings, format_duration, secret::SECRETS};

impl Loaded {
    /// The settings as TOML that reads back as the same settings. With `with_origin`, a comment names the layer of each
    /// value. For a secret, the output only says that it is set.
    #[must_use]
    pub fn to_toml(&self, with_origin: bool) -> String {
        let mut rows: Vec<(String, String, Value)> = values(&self.settings)
            .into_iter()
            .filter_map(|(path, value)| {
                let (section, key) = path.rsplit_once('.')?;
                Some((section.to_owned(), key.to_owned(), value))
            })
            .collect();
        rows.sort_by(|a, b| a.0.cmp(&b.0));
        let mut text = String::new();
        let mut open = None;
        for (section, key, value) in &rows {
            if open != Some(section) {
                let gap = if open.is_some() { "\n" } else { "" };
                let _ = writeln!(text, "{gap}[{section}]");
                open = Some(section);
            }
            let hidden = *value != "" && SECRETS.contains(&format!("{section}.{key}").as_str());
            if hidden {
                // This is a comment, since a placeholder would read back as a wrong value.
                let _ = write!(text, "# {key} is set, and not shown");
            } else {
                // A JSON string is a TOML basic string; numbers and booleans are the same.
                let _ = write!(text, "{key} = {value}");
            }
            if with_origin {
                let origin = self.origin(&format!("{section}.{key}")).to_string();
                let _ = write!(text, "  # {}", origin.replace(char::is_control, " "));
            }
            text.push('\n');
        }
        for plugin in &self.settings.plugins {
            text.push_str(&list(plugin));
        }
        self.add_policies(&mut text, with_origin);
        text
    }

    fn add_policies(&self, text: &mut String, with_origin: bool) {
        for (at, policy) in self.settings.policies.iter().enumerate() {
            let Ok(Value::Object(fields)) = serde_json::to_value(policy) else { continue };
            text.push_str("\n[[policy]]\n");
            for (key, value) in fields {
                let _ = write!(text, "{key} = {value}");
                if with_origin {
                    let origin = self.origin(&format!("policy[{at}].{key}")).to_string();
                    let _ = write!(text, "  # {}", origin.replace(char::is_control, " "));
                }
                text.push('\n');
            }
        }
    }
}

/// Every key with its value.
pub(super) fn values(settings: &Settings) -> Vec<(String, Value)> {
    let mut found = Vec::new();
    let tree = serde_json::to_value(settings).expect("settings are text and numbers");
    collect(String::new(), tree, &mut found);
    found
}

fn collect(path: String, value: Value, found: &mut Vec<(String, Value)>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                let path = if path.is_empty() { name } else { format!("{path}.{name}") };
                collect(path, value, found);
            }
        }
        leaf => found.push((path, leaf)),
    }
}

/// A plugin as it would be written in a file, without its secrets.
fn list(plugin: &Plugin) -> String {
    let mut text = String::from("\n[[plugin]]\n");
    let line = |text: &mut String, key: &str, value: &Value| {
        let _ = writeln!(text, "{key} = {value}");
    };
    let given = |text: &mut String, key: &str, value: &str| {
        if !value.is_empty() {
            line(text, key, &value.into());
        }
    };
    let hidden = |text: &mut String, key: &str, secret: bool| {
        if secret {
            let _ = writeln!(text, "# {key} is set, and not shown");
        }
    };
    given(&mut text, "name", &plugin.name);
    given(&mut text, "kind", plugin.kind.as_str());
    given(&mut text, "timeout", &format_duration(plugin.timeout));
    line(&mut text, "retries", &plugin.retries.into());
    line(&mut text, "concurrency", &plugin.concurrency.into());
    match &plugin.kind {
        PluginKind::Exec { command, environment } => {
            match command.as_slice() {
                // The arguments may contain a password.
                [program, _, ..] => {
                    let _ = writeln!(text, "# command is set, and not shown beyond {program:?}");
                }
                _ => line(&mut text, "command", &command.clone().into()),
            }
            hidden(&mut text, "environment", !environment.is_empty());
        }
        PluginKind::Webhook { url, secrets, accept_plaintext } => {
            // For many services, whoever knows the path may post.
            let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
            let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
            let (_, host) = authority.rsplit_once('@').unwrap_or(("", authority));
            if rest.trim_end_matches('/') == host {
                given(&mut text, "url", url);
            } else {
                let shown = format!("{scheme}://{host}");
                let _ = writeln!(text, "# url is set, and not shown beyond {shown:?}");
            }
            hidden(&mut text, "secrets", !secrets.is_empty());
            line(&mut text, "accept_plaintext", &(*accept_plaintext).into());
        }
        PluginKind::Nats { servers, subject, mode } => {
            given(&mut text, "subject", subject);
            given(&mut text, "mode", mode.as_str());
            if let Some(nats) = servers {
                let Nats { url, user, password, token, .. } = &**nats;
                given(&mut text, "url", url);
                given(&mut text, "user", user);
                let set = |secret: &Secret| !secret.is_empty();
                hidden(&mut text, "password", set(password));
                hidden(&mut text, "token", set(token));
                let paths = [
                    ("credentials", &nats.credentials),
                    ("password_file", &nats.password_file),
                    ("token_file", &nats.token_file),
                    ("tls_ca", &nats.tls_ca),
                    ("tls_cert", &nats.tls_cert),
                    ("tls_key", &nats.tls_key),
                ];
                for (key, path) in paths {
                    given(&mut text, key, &path.to_string_lossy());
                }
                line(&mut text, "tls_required", &nats.tls_required.into());
                line(&mut text, "accept_plaintext", &nats.accept_plaintext.into());
            }
        }
        PluginKind::Postgres { url, url_file, table, accept_plaintext } => {
            hidden(&mut text, "url", !url.is_empty());
            given(&mut text, "url_file", &url_file.to_string_lossy());
            given(&mut text, "table", table);
            line(&mut text, "accept_plaintext", &(*accept_plaintext).into());
        }
        PluginKind::Log => {}
        #[cfg(feature = "testing")]
        PluginKind::Panic => {}
    }
    text
}
