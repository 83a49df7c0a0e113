//! The certificate of a coordinator's port: read at the start, and followed while it runs.

use std::sync::Arc;

use reqwest::Url;

use super::{
    expiry,
    follower::{Changing, Follower},
};
use crate::{
    clock::{Clock as _, SystemClock},
    settings::Settings,
    telemetry::{FileKind, Files, Metrics},
    tls::{Certificates, Change, Served, ServerFault},
};

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
    /// Reads the files of the TLS settings, if the port speaks TLS. `url` is the coordinator's own.
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
        Ok(Some(certificate))
    }

    /// Follows the files from now on.
    pub(super) fn follow(&self) -> Follower {
        Follower::start(self.clone())
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

impl Changing for Certificate {
    const KIND: FileKind = FileKind::Tls;
    type Look = Change;

    fn look(&self) -> Change {
        self.served.follow()
    }

    fn read(&self) -> Change {
        self.served.reload().map_or_else(Change::Refused, |()| Change::Applied)
    }

    fn tell(&self, found: Change, reason: &str) {
        match found {
            Change::Nothing => {}
            Change::Applied => self.applied(reason),
            Change::Refused(fault) => self.refused(&fault),
        }
    }

    fn files(&self) -> &Files {
        &self.metrics.files
    }
}
