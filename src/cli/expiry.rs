//! Tells of certificates that are not valid, or soon will not be: at the start, once a day, and when one of them changed.

use std::{sync::Arc, time::Duration};

use crate::{
    clock::{Clock, SystemClock, rfc3339},
    settings::Settings,
    telemetry::Metrics,
    tls::{Certificates, Expiry, NamedCertificates},
};

/// How often the log tells of them.
const DAY: Duration = Duration::from_secs(24 * 3600);

/// Reads when the certificates are valid that this process uses until its end, and tells of all certificates in use from
/// then on.
pub(super) fn start(settings: &Settings, certificates: &Arc<Certificates>, metrics: &Arc<Metrics>) {
    for (setting, path, are_authorities) in settings.certificate_files() {
        // Those of the port are followed.
        if setting == "server.tls_cert" || setting == "server.tls_client_ca" {
            continue;
        }
        match NamedCertificates::read(&setting, &path, are_authorities) {
            Ok(named) => put(certificates, metrics, named),
            Err(why) => {
                let path = path.display();
                tracing::warn!(setting, %path, why, "the end of these certificates is not known");
            }
        }
    }
    let certificates = certificates.clone();
    actix::spawn(async move {
        loop {
            tell(&certificates);
            tokio::time::sleep(DAY).await;
        }
    });
}

/// From now on, these are in use for their setting.
pub(super) fn put(certificates: &Certificates, metrics: &Metrics, named: NamedCertificates) {
    // The certificate of the port has a metric of its own.
    if named.setting != "server.tls_cert" {
        metrics.named_certificate_expires(&named.setting, named.expires(now()));
    }
    certificates.put(named);
}

/// Logs each certificate that is not valid, or soon will not be.
pub(super) fn tell(certificates: &Certificates) {
    for (NamedCertificates { setting, path, .. }, expiry) in certificates.judge(now()) {
        let (setting, path) = (&*setting, path.display());
        match expiry {
            Expiry::Over(at) => {
                let expired = rfc3339(at.saturating_mul(1000));
                tracing::error!(setting, %path, expired, "a certificate has expired: replace the file");
            }
            Expiry::NotYet(at) => {
                let begins = rfc3339(at.saturating_mul(1000));
                tracing::error!(
                    setting, %path, begins,
                    "a certificate is not valid yet: replace the file, or set this machine's clock"
                );
            }
            Expiry::Soon(at) => {
                let expires = rfc3339(at.saturating_mul(1000));
                tracing::warn!(setting, %path, expires, "a certificate expires soon: replace the file");
            }
        }
    }
}

fn now() -> u64 {
    SystemClock::new().wall_ms() / 1000
}
