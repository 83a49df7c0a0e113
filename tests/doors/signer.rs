//! Signs JWTs as an issuer does, for tests alone. Every key but that of RSA is drawn anew.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD as BASE64};
use ring::{
    rand::SystemRandom,
    signature::{
        ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _,
        RSA_PKCS1_SHA256, RsaKeyPair, RsaPublicKeyComponents,
    },
};
use rustls::pki_types::{PrivatePkcs8KeyDer, pem::PemObject as _};
use serde_json::{Value, json};

const RSA: &str = include_str!("../certificates/rsa-test-only.pem");

/// A private key of an issuer.
pub enum Signer {
    Rsa(RsaKeyPair),
    P256(EcdsaKeyPair),
    Ed25519(Ed25519KeyPair),
}

impl Signer {
    /// The one key of RSA, of 2048 bits.
    pub fn rsa() -> Self {
        let der = PrivatePkcs8KeyDer::from_pem_slice(RSA.as_bytes()).expect("PEM");
        Self::Rsa(RsaKeyPair::from_pkcs8(der.secret_pkcs8_der()).expect("a key"))
    }

    /// A new key of P-256.
    pub fn p256() -> Self {
        let (kind, random) = (&ECDSA_P256_SHA256_FIXED_SIGNING, SystemRandom::new());
        let drawn = EcdsaKeyPair::generate_pkcs8(kind, &random).expect("a key");
        Self::P256(EcdsaKeyPair::from_pkcs8(kind, drawn.as_ref(), &random).expect("a key"))
    }

    /// A new key of Ed25519.
    pub fn ed25519() -> Self {
        let drawn = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).expect("a key");
        Self::Ed25519(Ed25519KeyPair::from_pkcs8(drawn.as_ref()).expect("a key"))
    }

    /// The algorithm, as headers name it.
    pub fn alg(&self) -> &'static str {
        match self {
            Self::Rsa(_) => "RS256",
            Self::P256(_) => "ES256",
            Self::Ed25519(_) => "EdDSA",
        }
    }

    /// The public key, with this `kid`, as a JWKS has it.
    pub fn jwk(&self, kid: &str) -> Value {
        let (alg, usage) = (self.alg(), "sig");
        match self {
            Self::Rsa(pair) => {
                let RsaPublicKeyComponents::<Vec<u8>> { n, e } = pair.public().into();
                let (n, e) = (BASE64.encode(n), BASE64.encode(e));
                json!({ "kty": "RSA", "kid": kid, "use": usage, "alg": alg, "n": n, "e": e })
            }
            Self::P256(pair) => {
                let (x, y) = pair.public_key().as_ref()[1..].split_at(32);
                let (x, y) = (BASE64.encode(x), BASE64.encode(y));
                json!({ "kty": "EC", "crv": "P-256", "kid": kid, "use": usage, "alg": alg, "x": x, "y": y })
            }
            Self::Ed25519(pair) => {
                let x = BASE64.encode(pair.public_key().as_ref());
                json!({ "kty": "OKP", "crv": "Ed25519", "kid": kid, "use": usage, "alg": alg, "x": x })
            }
        }
    }

    /// The signature of a message.
    pub fn sign(&self, message: &[u8]) -> Vec<u8> {
        let random = SystemRandom::new();
        match self {
            Self::Rsa(pair) => {
                let mut signature = vec![0; pair.public().modulus_len()];
                let signed = pair.sign(&RSA_PKCS1_SHA256, &random, message, &mut signature);
                signed.expect("a signature");
                signature
            }
            Self::P256(pair) => pair.sign(&random, message).expect("a signature").as_ref().to_vec(),
            Self::Ed25519(pair) => pair.sign(message).as_ref().to_vec(),
        }
    }

    /// A JWT with this `kid` and these claims.
    pub fn jwt(&self, kid: &str, claims: &Value) -> String {
        let header = json!({ "alg": self.alg(), "kid": kid, "typ": "JWT" });
        compose(&header, claims, |message| self.sign(message))
    }
}

/// A JWT of these parts, with whatever signature.
pub fn compose(header: &Value, claims: &Value, sign: impl Fn(&[u8]) -> Vec<u8>) -> String {
    let encode = |part: &Value| BASE64.encode(part.to_string());
    let message = format!("{}.{}", encode(header), encode(claims));
    let signature = BASE64.encode(sign(message.as_bytes()));
    format!("{message}.{signature}")
}

/// A JWKS file with these keys.
pub fn jwks(keys: &[Value]) -> String {
    json!({ "keys": keys }).to_string()
}
