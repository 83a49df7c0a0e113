//! The parts of a JWT, before anything of it is believed.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde::{
    Deserialize, Deserializer,
    de::{Error as _, IgnoredAny},
};

use super::{
    fault::{JwtFault, MAX_BYTES},
    key::Algorithm,
};

/// The parts of a JWT.
pub(super) struct Parts<'t> {
    pub(super) header: Header,
    /// The claims, as JSON.
    pub(super) claims: Vec<u8>,
    /// What is signed.
    pub(super) message: &'t [u8],
    pub(super) signature: Vec<u8>,
}

/// What matters of a header. Keys and addresses in a header are not looked at.
#[derive(Debug, Deserialize)]
pub(super) struct Header {
    pub(super) alg: Algorithm,
    #[serde(default, deserialize_with = "present")]
    pub(super) kid: Option<String>,
    #[serde(default, deserialize_with = "present")]
    crit: Option<IgnoredAny>,
}

impl<'t> Parts<'t> {
    pub(super) fn of(token: &'t str) -> Result<Self, JwtFault> {
        if token.len() > MAX_BYTES {
            return Err(JwtFault::TooLong);
        }
        let (message, signature) = token.rsplit_once('.').ok_or(JwtFault::Form)?;
        let (header, claims) = message.split_once('.').ok_or(JwtFault::Form)?;
        let decode = |part: &str| URL_SAFE_NO_PAD.decode(part).map_err(|_| JwtFault::Form);
        let (header, claims, signature) = (decode(header)?, decode(claims)?, decode(signature)?);
        let header: Header = object(&header).map_err(|_| JwtFault::Header)?;
        if header.crit.is_some() {
            return Err(JwtFault::Critical);
        }
        Ok(Self { header, claims, message: message.as_bytes(), signature })
    }
}

/// Reads an object of JSON. A list of its values is none, though serde would take it for one.
pub(super) fn object<'j, T: Deserialize<'j>>(json: &'j [u8]) -> Result<T, serde_json::Error> {
    if json.trim_ascii_start().starts_with(b"{") {
        serde_json::from_slice(json)
    } else {
        Err(serde_json::Error::custom("it is no object"))
    }
}

/// Reads what may be absent, but has a value if it is there: null is none.
pub(super) fn present<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    T::deserialize(deserializer).map(Some)
}
