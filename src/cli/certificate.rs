//! The certificate of a coordinator's port: read at the start, and followed while it runs.

use std::{sync::Arc, time::Duration};

use reqwest::Url;

use super::expiry;
use crate::{
    clock::{Clock as _, SystemClock},
    settings::Settings,
    telemetry::{FileKind, Metrics},
    tls::{Certificates, Change, Served, ServerFault},
};

/// How often the files are looked at.
const LOOK: Duration = Duration::from_secs(2);

/// The certificate of a port that speaks TLS.
#[derive(Clone)]
pub(super) struct Certificate {
    pub(super) served: Arc<Served>,
    pub(super) metrics: Arc<Metrics>,
    /// When each certificate in use is valid.
    all: Arc<Certificates>,
    /// The host in the coordinator's URL.
    host: Arc<str>,
}

impl Certificate {
    /// Reads the files of the TLS settings, if the port speaks TLS, and follows them from then on. `url` is the
    /// coordinator's own.
    ///
    /// # Errors
    /// A file cannot be used.
    pub(super) fn open(
        settings: &Settings,
        url: &str,
        metrics: &Arc<Metrics>,
        all: &Arc<Certificates>,
    ) -> Result<Option<Self>, ServerFault> {
        let Some(files) = settings.server.tls_files() else { return Ok(None) };
        let served = Arc::new(Served::open(files)?);
        let url = Url::parse(url).ok();
        let host = url.as_ref().and_then(Url::host_str).unwrap_or_default();
        let host = host.trim_matches(['[', ']']).into();
        let certificate = Self { served, metrics: metrics.clone(), all: all.clone(), host };
        certificate.show();
        actix::spawn(certificate.clone().follow());
        Ok(Some(certificate))
    }

    async fn follow(self) {
        loop {
            tokio::time::sleep(LOOK).await;
            let served = self.served.clone();
            // Leases are served on this thread, and a disk may be slow.
            let change = tokio::task::spawn_blocking(move || served.follow()).await;
            match change.unwrap_or(Change::Nothing) {
                Change::Nothing => {}
                Change::Applied => self.applied("the files changed"),
                Change::Refused(fault) => self.refused(&fault),
            }
        }
    }

    /// Reads the files again at once.
    pub(super) fn reload(&self) {
        match self.served.reload() {
            Ok(()) => self.applied("SIGHUP"),
            Err(fault) => self.refused(&fault),
        }
    }

    fn applied(&self, reason: &str) {
        tracing::info!(reason, "the TLS files are in effect for new connections");
        self.metrics.files.applied(FileKind::Tls);
        self.show();
        expiry::tell(&self.all);
    }

    fn refused(&self, fault: &ServerFault) {
        let now_ms = SystemClock::new().wall_ms();
        self.metrics.files.refused(FileKind::Tls, &[fault.to_string()], now_ms);
        tracing::error!(%fault, "the TLS files cannot be used: the old certificate stays");
    }

    /// Shows what matters of the certificate in effect.
    fn show(&self) {
        self.metrics.certificate_expires(self.served.expires());
        for named in self.served.named() {
            expiry::put(&self.all, &self.metrics, named);
        }
        if !self.served.is_for(&self.host) {
            tracing::warn!(
                host = &*self.host,
                "the certificate is for other names than the host in this coordinator's URL: have one issued for this \
                 host, or set node.advertise_url"
            );
        }
    }
}
