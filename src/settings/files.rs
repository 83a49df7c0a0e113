//! Checks the files that the settings name: whether they exist, and have the expected content.
//!
//! This is not part of loading: settings can also be shown on a machine that lacks their files.

use std::path::Path;

use super::{Fault, Faults, Loaded, Settings, StoreKind};
#[cfg(feature = "postgres")]
use super::{Plugin, PluginKind};

/// The expected content of a file.
#[derive(Clone, Copy)]
enum Holds {
    /// A first line.
    Line,
    /// A PEM section whose name ends with this.
    Pem(&'static str),
}

impl Loaded {
    /// Checks every file that this coordinator would read, including files that it only reads on demand, but not the
    /// files of a store that is not in use.
    ///
    /// # Errors
    /// All faults of all files.
    pub fn check_files(&self) -> Result<(), Faults> {
        let Settings { node, checks, store, .. } = &self.settings;
        let nats = &store.nats;
        let authorities = [("node.ca", &*node.ca), ("checks.ca", &*checks.ca)];
        let authorities = authorities.map(|(key, path)| (key, path, Holds::Pem("CERTIFICATE")));
        let named: [(&str, &Path, Holds); 6] = [
            ("store.nats.credentials", &nats.credentials, Holds::Pem("JWT")),
            ("store.nats.password_file", &nats.password_file, Holds::Line),
            ("store.nats.token_file", &nats.token_file, Holds::Line),
            ("store.nats.tls_ca", &nats.tls_ca, Holds::Pem("CERTIFICATE")),
            ("store.nats.tls_cert", &nats.tls_cert, Holds::Pem("CERTIFICATE")),
            ("store.nats.tls_key", &nats.tls_key, Holds::Pem("PRIVATE KEY")),
        ];
        let of_store = named.into_iter().filter(|_| store.kind == StoreKind::Nats);
        let named = authorities.into_iter().chain(of_store);
        let faults: Vec<Fault> = named
            .filter(|(_, path, _)| !path.as_os_str().is_empty())
            .filter_map(|(key, path, holds)| {
                let problem = look(path, holds).err()?;
                let problem = format!("names {}, which {problem}", path.display());
                Some(Fault { origin: self.origin(key), key: Some(key.to_owned()), problem })
            })
            .chain(self.postgres_files())
            .collect();
        if faults.is_empty() { Ok(()) } else { Err(Faults(faults)) }
    }
}

impl Loaded {
    /// The faults of database URLs in files.
    #[cfg(feature = "postgres")]
    fn postgres_files(&self) -> Vec<Fault> {
        let plugins = self.settings.plugins.iter().enumerate();
        let fault = |(at, plugin): (usize, &Plugin)| {
            let PluginKind::Postgres { url_file, accept_plaintext: false, url, .. } = &plugin.kind
            else {
                return None;
            };
            // A URL that cannot be parsed is reported when the plugin is created.
            let url = url.or_file("url_file", url_file).ok().flatten()?;
            let problem = super::of_postgres(&url.parse().ok()?)?;
            let key = format!("plugin[{at}].url_file");
            let problem = format!("names {}, whose URL {problem}", url_file.display());
            Some(Fault { origin: self.origin(&key), key: Some(key), problem })
        };
        plugins.filter_map(fault).collect()
    }

    #[cfg(not(feature = "postgres"))]
    fn postgres_files(&self) -> Vec<Fault> {
        Vec::new()
    }
}

fn look(path: &Path, holds: Holds) -> Result<(), String> {
    let content =
        std::fs::read_to_string(path).map_err(|error| format!("cannot be read: {error}"))?;
    match holds {
        Holds::Line if content.lines().next().is_none_or(str::is_empty) => {
            Err("has an empty first line".to_owned())
        }
        Holds::Pem(name) => {
            let begins = |line: &str| {
                let inside = line.trim().strip_prefix("-----BEGIN ");
                inside.is_some_and(|inside| inside.trim_end_matches('-').ends_with(name))
            };
            let found = content.lines().any(begins);
            if found { Ok(()) } else { Err(format!("has no {name} in PEM form")) }
        }
        Holds::Line => Ok(()),
    }
}
