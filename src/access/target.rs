//! What an order for the revocation list names, and what a caller shows that may be named.

use std::{fmt, net::Ipv4Addr};

use super::{certificates::CertificateNames, token::TokenDigest};
use crate::lease::is_hidden;

/// The longest name of a certificate in an order, in bytes.
pub const MAX_CERTIFICATE_BYTES: usize = 512;

/// The proof by which a caller is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Credential {
    /// A token or a JWT, by its digest.
    Bearer(TokenDigest),
    /// A certificate that was verified: its names, and the digest of the part that its authority signed.
    Certificate { names: CertificateNames, digest: TokenDigest },
    /// A proof that cannot be revoked by itself: the user of a process, or the word of another node.
    Other,
}

impl Credential {
    /// Whether it is the certificate with this name or digest.
    pub(super) fn is_certificate(&self, revoked: &str) -> bool {
        match self {
            Self::Certificate { names, digest } => {
                names.has(revoked) || digest.to_string() == revoked
            }
            _ => false,
        }
    }
}

/// A principal or a credential that an order revokes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A principal, however it proves who it is.
    Principal(Box<str>),
    /// A token or a JWT.
    Token(TokenDigest),
    /// A certificate: by one of its names, or by `sha256:` and the digest of the part that its authority signed.
    Certificate(Box<str>),
}

impl Target {
    /// A certificate, by one of its names or by its digest.
    ///
    /// # Errors
    /// What is wrong with the text.
    pub fn certificate(text: &str) -> Result<Self, String> {
        if text.starts_with("sha256:") {
            let digest = text.parse::<TokenDigest>();
            let digest = digest.map_err(|_| {
                "is no digest of a certificate: write sha256: and the 64 hexadecimal digits of the SHA-256 of the part \
                 that its authority signed, or use tenure access revoke --certificate-file"
            })?;
            return Ok(Self::Certificate(digest.to_string().into()));
        }
        if text.is_empty() || text.len() > MAX_CERTIFICATE_BYTES {
            return Err(format!("must have from 1 to {MAX_CERTIFICATE_BYTES} bytes"));
        }
        if text.contains('*') || text.chars().any(is_hidden) {
            return Err("must be an exact name: a URI or a DNS name, without *".to_owned());
        }
        let is_uri = text.contains(':');
        let is_label = |label: &str| {
            let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
            !label.is_empty() && label.chars().all(fits)
        };
        if !is_uri && (!text.split('.').all(is_label) || text.parse::<Ipv4Addr>().is_ok()) {
            return Err("is neither a URI, such as spiffe://prod/worker, nor a DNS name, such as \
                        worker.example: other names in certificates do not count"
                .to_owned());
        }
        Ok(Self::Certificate(if is_uri { text.into() } else { text.to_ascii_lowercase().into() }))
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Principal(name) => write!(f, "the principal {name:?}"),
            Self::Token(digest) => write!(f, "the token {digest}"),
            Self::Certificate(name) => write!(f, "the certificate {name:?}"),
        }
    }
}

/// An order: to revoke a target, or to end its revocation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessOrder {
    pub target: Target,
    /// Whether the target is revoked. Otherwise its revocation ends.
    pub revokes: bool,
}
