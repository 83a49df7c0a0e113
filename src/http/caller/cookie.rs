//! The cookie of the status page.
//!
//! Guarantees: a cookie names a principal and one of its tokens; it is good for 12 h, on every node of the store, for as
//! long as the access file has that token. Neither the token nor its digest can be computed from it: it has a code that
//! is made of the digest with a key of the store. Where the node's URL is https, the cookie is `__Host-tenure`: a browser
//! takes it from this host alone, over TLS, and sends it to no other host name and path.
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

/// The cookie's name where it may cross plain text, and where it may not.
const PLAIN: &str = "tenure";
const SECURE: &str = "__Host-tenure";
/// The bytes of the code that stands for a token. It only tells the tokens of one principal apart: the tag of the whole
/// cookie keeps it from being forged.
const CODE_BYTES: usize = 16;
/// How long a cookie is good for.
pub const LIFE: Duration = Duration::from_secs(12 * 3600);

/// Makes and reads cookies.
pub struct Cookies {
    key: Hmac<Sha256>,
    /// Makes the codes of tokens.
    tokens: Hmac<Sha256>,
    /// Whether browsers reach the node over TLS alone.
    is_secure: bool,
}

impl Cookies {
    /// The cookies of one store, at a node with this URL.
    #[must_use]
    pub fn new(secret: &ClusterSecret, url: &str) -> Self {
        let (key, tokens) = (secret.key_of("tenure page 2"), secret.key_of("tenure page token 2"));
        Self { key, tokens, is_secure: url.starts_with("https:") }
    }

    /// The name of a cookie.
    fn name(&self) -> &'static str {
        if self.is_secure { SECURE } else { PLAIN }
    }

    /// The cookie that a request shows, whatever it is worth.
    pub fn shown<'r>(&self, request: &'r HttpRequest) -> Option<&'r str> {
        let headers = request.headers().get_all(header::COOKIE);
        let mut pairs =
            headers.filter_map(|value| value.to_str().ok()).flat_map(|all| all.split(';'));
        pairs.find_map(|pair| pair.trim().strip_prefix(self.name())?.strip_prefix('='))
    }

    /// What a browser is to keep until it is closed, and to send with requests of this origin's pages alone. Without a
    /// cookie: it is to keep none.
    pub fn set(&self, cookie: Option<&str>) -> String {
        let secure = if self.is_secure { "; Secure" } else { "" };
        let (name, end) = (self.name(), if cookie.is_some() { "" } else { "; Max-Age=0" });
        let cookie = cookie.unwrap_or_default();
        format!("{name}={cookie}; Path=/; HttpOnly; SameSite=Strict{secure}{end}")
    }

    /// A cookie for the principal that shows this token.
    pub fn seal(&self, access: &Access, token: &str, now_ms: u64) -> Option<String> {
        let principal = access.by_token(token).filter(|principal| !principal.expired(now_ms))?;
        let until = now_ms + u64::try_from(LIFE.as_millis()).unwrap_or(u64::MAX);
        let code = BASE64.encode(self.code(&TokenDigest::of(token)));
        let said = format!("{}.{until}.{code}", BASE64.encode(&*principal.name));
        let tag = self.tag(&said).finalize().into_bytes();
        Some(format!("{said}.{}", BASE64.encode(tag)))
    }

    /// The principal that a cookie names, and the token for which it was made.
    pub fn open<'a>(
        &self,
        access: &'a Access,
        cookie: &str,
        now_ms: u64,
    ) -> Option<(&'a Arc<Principal>, TokenDigest)> {
        let (said, tag) = cookie.rsplit_once('.')?;
        self.tag(said).verify_slice(&BASE64.decode(tag).ok()?).ok()?;
        let mut parts = said.split('.');
        let name = String::from_utf8(BASE64.decode(parts.next()?).ok()?).ok()?;
        let until: u64 = parts.next()?.parse().ok()?;
        let code = BASE64.decode(parts.next()?).ok()?;
        let principal = access.by_name(&name).filter(|_| now_ms < until)?;
        let is_of = |token: &&TokenDigest| self.code(token)[..] == code[..];
        principal.tokens().iter().find(is_of).map(|token| (principal, *token))
    }

    fn tag(&self, said: &str) -> Hmac<Sha256> {
        let mut mac = self.key.clone();
        mac.update(said.as_bytes());
        mac
    }

    /// What stands for a token in a cookie.
    fn code(&self, token: &TokenDigest) -> [u8; CODE_BYTES] {
        let mut mac = self.tokens.clone();
        mac.update(token.to_string().as_bytes());
        let tag = mac.finalize().into_bytes();
        tag.first_chunk().copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use actix_web::test::TestRequest;
    use sha2::Digest as _;

    use super::*;

    fn access(tokens: &[&str]) -> Access {
        let tokens: Vec<String> =
            tokens.iter().map(|token| format!("\"{}\"", TokenDigest::of(token))).collect();
        let file = format!(
            "[[principal]]\nname = \"p\"\ntoken = [{}]\nmay = [{{ verb = \"observe\" }}]\n",
            tokens.join(", ")
        );
        Access::parse(Path::new("f"), &file, 0).expect("a file")
    }

    #[test]
    fn a_cookie_is_good_on_every_node_of_the_store_and_holds_no_digest() {
        let secret = ClusterSecret::new(&[7; 32]);
        let [one, other] = [(); 2].map(|()| Cookies::new(&secret, "https://a"));
        let access_file = access(&["first", "second"]);
        let cookie = one.seal(&access_file, "second", 0).expect("a cookie");
        let (principal, token) = other.open(&access_file, &cookie, 1).expect("it is good");
        assert_eq!((&*principal.name, token), ("p", TokenDigest::of("second")));
        let digest = Sha256::digest(b"second");
        for part in cookie.split('.').filter_map(|part| BASE64.decode(part).ok()) {
            let text = String::from_utf8_lossy(&part).into_owned();
            assert!(!part.windows(16).any(|some| some == &digest[..16]), "{cookie}");
            assert!(!text.contains("sha256") && !text.contains("second"), "{cookie}");
        }
        assert!(other.open(&access(&["first"]), &cookie, 1).is_none(), "the token is gone");
        let life = u64::try_from(LIFE.as_millis()).expect("a number");
        assert!(other.open(&access_file, &cookie, life).is_none(), "it has ended");
        let another = Cookies::new(&ClusterSecret::new(&[8; 32]), "https://a");
        assert!(another.open(&access_file, &cookie, 1).is_none(), "another store");
    }

    #[test]
    fn over_tls_the_cookie_is_of_this_host_alone() {
        let secret = ClusterSecret::new(&[7; 32]);
        let (tls, plain) = (Cookies::new(&secret, "https://a"), Cookies::new(&secret, "http://a"));
        let set = tls.set(Some("c"));
        assert!(set.starts_with("__Host-tenure=c; Path=/;") && set.contains("; Secure"), "{set}");
        assert!(!set.contains("Domain"), "{set}");
        let ends = tls.set(None);
        assert!(ends.starts_with("__Host-tenure=;") && ends.ends_with("; Max-Age=0"), "{ends}");
        let set = plain.set(Some("c"));
        assert!(set.starts_with("tenure=c; Path=/;") && !set.contains("Secure"), "{set}");
        let both = ("cookie", "a=b; tenure=plain; __Host-tenure=secure");
        let request = TestRequest::get().insert_header(both).to_http_request();
        assert_eq!((tls.shown(&request), plain.shown(&request)), (Some("secure"), Some("plain")));
        let one = TestRequest::get().insert_header(("cookie", "tenure=plain")).to_http_request();
        assert_eq!(tls.shown(&one), None, "another server of the host name may have set it");
    }
}
