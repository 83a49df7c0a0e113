//! The cookie of the status page.
//!
//! Guarantees: a cookie names a principal and one of its tokens; it is good for 12 h, on every node of the store, for as
//! long as the access file has that token. No token can be computed from it.
//!
//! Assumes: the caller of [`Cookies::open`] accepts a cookie for reading alone.

use std::{sync::Arc, time::Duration};

use actix_web::{HttpRequest, http::header};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD as BASE64};
use hmac::{Hmac, Mac as _};
use sha2::Sha256;

use crate::{
    access::{Access, Principal, TokenDigest},
    lease::ClusterSecret,
};

/// The cookie's name.
pub const COOKIE: &str = "tenure";
/// How long a cookie is good for.
pub const LIFE: Duration = Duration::from_secs(12 * 3600);

/// The cookie that a request shows, whatever it is worth.
pub fn shown_cookie(request: &HttpRequest) -> Option<&str> {
    let headers = request.headers().get_all(header::COOKIE);
    let mut pairs = headers.filter_map(|value| value.to_str().ok()).flat_map(|all| all.split(';'));
    pairs.find_map(|pair| pair.trim().strip_prefix(COOKIE)?.strip_prefix('='))
}

/// Makes and reads cookies.
pub struct Cookies {
    key: Hmac<Sha256>,
}

impl Cookies {
    /// The cookies of one store.
    #[must_use]
    pub fn new(secret: &ClusterSecret) -> Self {
        Self { key: secret.key_of("tenure page 1") }
    }

    /// A cookie for the principal that shows this token.
    pub fn seal(&self, access: &Access, token: &str, now_ms: u64) -> Option<String> {
        let principal = access.by_token(token).filter(|principal| !principal.expired(now_ms))?;
        let until = now_ms + u64::try_from(LIFE.as_millis()).unwrap_or(u64::MAX);
        let digest = TokenDigest::of(token).to_string();
        let said = format!("{}.{until}.{}", BASE64.encode(&*principal.name), BASE64.encode(digest));
        let tag = self.tag(&said).finalize().into_bytes();
        Some(format!("{said}.{}", BASE64.encode(tag)))
    }

    /// The principal that a cookie names.
    pub fn open<'a>(
        &self,
        access: &'a Access,
        cookie: &str,
        now_ms: u64,
    ) -> Option<&'a Arc<Principal>> {
        let (said, tag) = cookie.rsplit_once('.')?;
        self.tag(said).verify_slice(&BASE64.decode(tag).ok()?).ok()?;
        let mut parts = said.split('.');
        let name = String::from_utf8(BASE64.decode(parts.next()?).ok()?).ok()?;
        let until: u64 = parts.next()?.parse().ok()?;
        let digest = String::from_utf8(BASE64.decode(parts.next()?).ok()?).ok()?;
        let has = |principal: &&Arc<Principal>| {
            principal.tokens().iter().any(|token| token.to_string() == digest)
        };
        access.by_name(&name).filter(has).filter(|_| now_ms < until)
    }

    fn tag(&self, said: &str) -> Hmac<Sha256> {
        let mut mac = self.key.clone();
        mac.update(said.as_bytes());
        mac
    }
}
