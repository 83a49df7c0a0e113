//! A public key of an issuer, and the one algorithm that it is for.

use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents,
    UnparsedPublicKey,
};
use serde::Deserialize;

/// An algorithm of signatures. There is no other, so nothing can name one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Hash)]
pub(super) enum Algorithm {
    #[serde(rename = "RS256")]
    Rs256,
    #[serde(rename = "ES256")]
    Es256,
    #[serde(rename = "EdDSA")]
    EdDsa,
}

/// A public key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Key {
    /// Its name among the keys of its issuer.
    pub(super) kid: Option<Box<str>>,
    pub(super) numbers: Numbers,
}

/// The numbers of a public key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Numbers {
    /// Modulus and exponent, without leading zeros.
    Rsa {
        n: Vec<u8>,
        e: Vec<u8>,
    },
    /// A point of P-256, not compressed.
    P256(Vec<u8>),
    Ed25519(Vec<u8>),
}

impl Key {
    /// The algorithm that the key is for.
    pub(super) fn algorithm(&self) -> Algorithm {
        match &self.numbers {
            Numbers::Rsa { .. } => Algorithm::Rs256,
            Numbers::P256(_) => Algorithm::Es256,
            Numbers::Ed25519(_) => Algorithm::EdDsa,
        }
    }

    /// Whether the signature of the message is by this key.
    pub(super) fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        let verified = match &self.numbers {
            Numbers::Rsa { n, e } => RsaPublicKeyComponents { n: n.as_slice(), e: e.as_slice() }
                .verify(&RSA_PKCS1_2048_8192_SHA256, message, signature),
            Numbers::P256(point) => {
                UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point.as_slice())
                    .verify(message, signature)
            }
            Numbers::Ed25519(key) => {
                UnparsedPublicKey::new(&ED25519, key.as_slice()).verify(message, signature)
            }
        };
        verified.is_ok()
    }
}
