//! Which settings name files with certificates.

use std::path::PathBuf;

use super::{
    plugins::{NatsPlugin, PluginKind},
    stores::Nats,
    tree::{Settings, TABLE},
};

impl Settings {
    /// The settings in use that name files with certificates, each with its file, and whether these are authorities.
    #[must_use]
    pub fn certificate_files(&self) -> Vec<(String, PathBuf, bool)> {
        let uses_nats = self.plugins.iter().any(|plugin| {
            matches!(&plugin.kind, PluginKind::Nats(NatsPlugin { servers: None, .. }))
        });
        let in_use =
            |section: &str| self.store.uses(section) || uses_nats && section == "store.nats";
        let named = TABLE.iter().filter(|it| it.is_of_certificates && in_use(&it.section));
        let mut found: Vec<_> =
            named.map(|it| (it.path.clone(), PathBuf::from((it.show)(self).to_string()))).collect();
        for plugin in &self.plugins {
            let PluginKind::Nats(NatsPlugin { servers: Some(servers), .. }) = &plugin.kind else {
                continue;
            };
            let Nats { tls_ca, tls_cert, .. } = &**servers;
            for (key, path) in [("tls_ca", tls_ca), ("tls_cert", tls_cert)] {
                found.push((format!("{key} of the plugin {}", plugin.name), path.clone()));
            }
        }
        found.retain(|(_, path)| !path.as_os_str().is_empty());
        let is_own = |setting: &str| setting.contains("tls_cert");
        found
            .into_iter()
            .map(|(setting, path)| (setting.clone(), path, !is_own(&setting)))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_of_certificates_in_use_is_named() {
        let mut settings = Settings::default();
        assert_eq!(settings.certificate_files(), Vec::new());
        settings.server.tls_cert = "cert.pem".into();
        settings.server.tls_client_ca = "clients.pem".into();
        settings.node.ca = "nodes.pem".into();
        settings.checks.ca = "checks.pem".into();
        settings.telemetry.otlp_ca = "otlp.pem".into();
        settings.store.nats.tls_ca = "nats.pem".into();
        let names = |settings: &Settings| {
            let mut names: Vec<_> = settings
                .certificate_files()
                .into_iter()
                .map(|(setting, _, authorities)| (setting, authorities))
                .collect();
            names.sort_unstable();
            names
        };
        let expected = [
            ("checks.ca", true),
            ("node.ca", true),
            ("server.tls_cert", false),
            ("server.tls_client_ca", true),
            ("telemetry.otlp_ca", true),
        ];
        assert_eq!(names(&settings), expected.map(|(name, it)| (name.to_owned(), it)));
        settings.store.kind = crate::settings::StoreKind::Nats;
        assert!(names(&settings).contains(&("store.nats.tls_ca".to_owned(), true)));
    }
}
