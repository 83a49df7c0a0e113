//! What a caller needs besides an address: an authority that it trusts, a token.

use std::{path::PathBuf, sync::Arc};

use anyhow::{Context as _, Result};
use hyper::header::HeaderValue;
use tenure::client::Client;
use tokio_rustls::rustls::{
    ClientConfig, RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, pem::PemObject as _},
};

/// What a caller shows and what it trusts. The default is nothing, in plain text.
#[derive(Clone, Debug, Default)]
pub struct Means {
    tls: Option<Trust>,
    token: Option<String>,
}

/// By whom a server must be vouched for.
#[derive(Clone, Debug)]
struct Trust {
    ca: PathBuf,
    config: Arc<ClientConfig>,
}

impl Means {
    /// By TLS, to servers that the authority in this PEM file vouches for.
    pub fn trusting(self, ca: PathBuf) -> Result<Self> {
        let named = || format!("no authority in {}", ca.display());
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(&ca).with_context(named)?)?;
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider);
        let mut config = builder
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self { tls: Some(Trust { ca, config: Arc::new(config) }), ..self })
    }

    /// With this token.
    pub fn showing(self, token: &str) -> Self {
        Self { token: Some(token.to_owned()), ..self }
    }

    /// How connections are secured, if they are.
    pub fn tls(&self) -> Option<&Arc<ClientConfig>> {
        self.tls.as_ref().map(|trust| &trust.config)
    }

    /// The beginning of the URLs.
    pub fn scheme(&self) -> &'static str {
        if self.tls.is_some() { "https://" } else { "http://" }
    }

    /// The header that proves who calls.
    pub fn authorization(&self) -> Result<Option<HeaderValue>> {
        let header = |token: &String| HeaderValue::from_str(&format!("Bearer {token}"));
        Ok(self.token.as_ref().map(header).transpose()?)
    }

    /// The library's client.
    pub fn client(&self, url: &str) -> Result<Client> {
        let mut builder = Client::builder(url);
        if let Some(trust) = &self.tls {
            builder = builder.ca(&trust.ca);
        }
        if let Some(token) = &self.token {
            builder = builder.token(token);
        }
        Ok(builder.build()?)
    }
}
