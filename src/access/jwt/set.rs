//! The public keys of an issuer, as a JWKS file (RFC 7517) has them.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde::{Deserialize, de::IgnoredAny};

use super::key::{Key, Numbers};
use crate::clock::HashSet;

/// The most keys of one issuer.
const MOST_KEYS: usize = 16;
/// What ring verifies.
const LEAST_RSA_BITS: usize = 2048;
const MOST_RSA_BITS: usize = 8192;
/// The bytes of a number of P-256, and of a key of Ed25519.
const CURVE_BYTES: usize = 32;
/// The longest exponent of RSA, in bytes.
const MOST_EXPONENT_BYTES: usize = 4;

/// The keys of one issuer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::access) struct Keys(Vec<Key>);

#[derive(Deserialize)]
struct Set {
    keys: Vec<Jwk>,
}

/// One key. What is not for signatures, or for other algorithms, is left out.
#[derive(Deserialize)]
struct Jwk {
    kty: String,
    #[serde(rename = "use")]
    usage: Option<String>,
    key_ops: Option<Vec<String>>,
    kid: Option<String>,
    alg: Option<String>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
    /// What private keys have.
    d: Option<IgnoredAny>,
    /// What secret keys have.
    k: Option<IgnoredAny>,
}

impl Keys {
    /// Reads the keys. The content is that of the file.
    ///
    /// # Errors
    /// What is wrong with them, for people.
    pub(in crate::access) fn read(
        content: impl FnOnce() -> Result<String, String>,
    ) -> Result<Self, String> {
        let set: Set = serde_json::from_str(&content()?)
            .map_err(|error| format!("is no JWKS, which is JSON with a list \"keys\": {error}"))?;
        let (mut keys, mut faults) = (Vec::new(), Vec::new());
        for (at, jwk) in set.keys.into_iter().enumerate() {
            match jwk.numbers() {
                Ok(Some(numbers)) => keys.push(Key { kid: jwk.kid.map(Into::into), numbers }),
                Ok(None) => {}
                Err(fault) => {
                    let number = at + 1;
                    faults.push(match jwk.kid {
                        Some(kid) => format!("key {number} ({kid:?}) {fault}"),
                        None => format!("key {number} {fault}"),
                    });
                }
            }
        }
        faults.extend(unnamed(&keys));
        if !faults.is_empty() {
            return Err(format!("has faults: {}", faults.join("; ")));
        }
        match keys.len() {
            0 => Err("has no public key for signatures by RS256, ES256 or EdDSA".to_owned()),
            1..=MOST_KEYS => Ok(Self(keys)),
            more => {
                Err(format!("has {more} keys for signatures: at most {MOST_KEYS} may be in use"))
            }
        }
    }

    pub(super) fn all(&self) -> &[Key] {
        &self.0
    }
}

impl Jwk {
    /// The numbers of the key; `None` if it is not for the signatures that count here.
    fn numbers(&self) -> Result<Option<Numbers>, String> {
        if self.d.is_some() || self.k.is_some() {
            return Err("is private or secret: the file must have public keys alone".to_owned());
        }
        let signs = self.usage.as_deref().is_none_or(|usage| usage == "sig")
            && self.key_ops.as_ref().is_none_or(|all| all.iter().any(|one| one == "verify"));
        let is_for = |alg: &str| signs && self.alg.as_deref().is_none_or(|own| own == alg);
        match (self.kty.as_str(), self.crv.as_deref()) {
            ("RSA", _) if is_for("RS256") => self.rsa().map(Some),
            ("EC", Some("P-256")) if is_for("ES256") => self.point().map(Some),
            ("OKP", Some("Ed25519")) if is_for("EdDSA") => {
                bytes("x", self.x.as_deref(), CURVE_BYTES).map(Numbers::Ed25519).map(Some)
            }
            _ => Ok(None),
        }
    }

    fn rsa(&self) -> Result<Numbers, String> {
        let n = number("n", self.n.as_deref())?;
        let e = number("e", self.e.as_deref())?;
        let bits = n.len() * 8 - n.first().map_or(0, |first| first.leading_zeros() as usize);
        if !(LEAST_RSA_BITS..=MOST_RSA_BITS).contains(&bits) {
            return Err(format!(
                "has {bits} bits: an RSA key must have from {LEAST_RSA_BITS} to {MOST_RSA_BITS}"
            ));
        }
        let is_odd = |number: &[u8]| number.last().is_some_and(|last| last % 2 == 1);
        if !is_odd(&n) || !is_odd(&e) || e == [1] || e.len() > MOST_EXPONENT_BYTES {
            return Err("has numbers that no RSA key has".to_owned());
        }
        Ok(Numbers::Rsa { n, e })
    }

    fn point(&self) -> Result<Numbers, String> {
        let x = bytes("x", self.x.as_deref(), CURVE_BYTES)?;
        let y = bytes("y", self.y.as_deref(), CURVE_BYTES)?;
        // This byte says that both numbers follow.
        Ok(Numbers::P256([vec![4], x, y].concat()))
    }
}

/// What keeps a JWT from naming one of several keys.
fn unnamed(keys: &[Key]) -> Option<String> {
    if keys.len() < 2 {
        return None;
    }
    if keys.iter().any(|key| key.kid.is_none()) {
        let fault =
            "a key has no kid: where a file has several keys, a JWT must name one by its kid";
        return Some(fault.to_owned());
    }
    let mut named = HashSet::default();
    let twice = keys.iter().find(|key| !named.insert((&key.kid, key.algorithm())))?;
    let kid = twice.kid.as_deref().unwrap_or_default();
    Some(format!(
        "two keys for one algorithm have the kid {kid:?}: a JWT could not name one of them"
    ))
}

fn decoded(name: &str, text: Option<&str>) -> Result<Vec<u8>, String> {
    let text = text.ok_or_else(|| format!("has no {name}"))?;
    URL_SAFE_NO_PAD.decode(text).map_err(|_| format!("has a number {name} that is not base64url"))
}

/// A number, without leading zeros.
fn number(name: &str, text: Option<&str>) -> Result<Vec<u8>, String> {
    let bytes = decoded(name, text)?;
    Ok(bytes.into_iter().skip_while(|byte| *byte == 0).collect())
}

/// A number of a fixed length.
fn bytes(name: &str, text: Option<&str>, length: usize) -> Result<Vec<u8>, String> {
    let bytes = decoded(name, text)?;
    if bytes.len() == length {
        return Ok(bytes);
    }
    Err(format!("has a number {name} of {} bytes, and not of {length}", bytes.len()))
}
