//! `[store.nats]`: a key-value bucket of NATS JetStream.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use super::{
    super::{
        content::Content,
        plaintext::{all_loopback, has_tls_address},
        secret::Secret,
        table::section,
        urls::has_scheme,
    },
    bounds::REQUEST_TIMEOUTS,
};

section! {
    /// The section `[store.nats]`: the bucket, and how its servers are reached.
    pub struct Nats {
        /// Servers, separated by commas. tls:// instead of nats:// uses TLS.
        url: String = "nats://127.0.0.1:4222".into(), if odd_addresses, if plain_text;
        /// Key-value bucket. No other application may write to it. Letters, digits, _ and -.
        bucket: String = "tenure".into(), if odd_bucket;
        /// Replicas of a bucket that tenure creates. With three, one server may be lost. A server outside of a
        /// cluster supports only one.
        replicas: usize = 3, in 1..=5;
        /// Whether to create the bucket if it does not exist.
        create_bucket: bool = true;
        /// Number of changes per key that a bucket created by tenure keeps, for event streams that resume.
        history: u8 = 16, in 1..=64;
        /// Whether to use a bucket that may lose acknowledged writes: one in memory, one with an age or size limit, one
        /// with fewer replicas than configured above, or one with a single replica in a cluster.
        accept_data_loss: bool = false;
        /// Authentication, one of three ways. First: a credentials file as written by nsc.
        credentials: PathBuf = PathBuf::new(), file Content::Pem("JWT"), if several_identities;
        /// Second: a user and a password. Use password_file to keep the password out of this file.
        user: String = String::new(), if half_a_user;
        /// The password. It is never displayed.
        password: Secret = Secret::default();
        /// File whose first line is the password.
        password_file: PathBuf = PathBuf::new(), file Content::Line, if two_passwords;
        /// Third: a token. It is never displayed.
        token: Secret = Secret::default();
        /// File whose first line is the token.
        token_file: PathBuf = PathBuf::new(), file Content::Line, if two_tokens;
        /// PEM file with the authorities for the servers' certificates. Empty: the authorities of the operating system.
        tls_ca: PathBuf = PathBuf::new(), file Content::Pem("CERTIFICATE");
        /// PEM file with this client's certificate. Empty: none.
        tls_cert: PathBuf = PathBuf::new(), file Content::Pem("CERTIFICATE"), if half_a_certificate;
        /// PEM file with the key of that certificate.
        tls_key: PathBuf = PathBuf::new(), file Content::Pem("PRIVATE KEY");
        /// Whether to refuse a server that does not offer TLS. This is implied by any of the three settings above, and
        /// by a tls:// URL.
        tls_required: bool = false;
        /// Whether credentials may be sent to other machines in plain text, where they can be read on the network.
        /// Otherwise, credentials without TLS are a configuration error.
        accept_plaintext: bool = false;
        /// Time after which the outcome of a request counts as unknown.
        request_timeout: Duration = Duration::from_secs(2), in REQUEST_TIMEOUTS;
    }
}

impl Nats {
    /// Whether TLS is required: one of the TLS settings was made, or one address is `tls://`.
    #[must_use]
    pub fn requires_tls(&self) -> bool {
        let files = [&self.tls_ca, &self.tls_cert, &self.tls_key];
        self.tls_required || files.iter().any(|path| given(path)) || has_tls_address(&self.url)
    }

    fn has_credentials(&self) -> bool {
        given(&self.credentials) || self.has_password() || self.has_token()
    }

    fn has_password(&self) -> bool {
        !self.password.is_empty() || given(&self.password_file)
    }

    fn has_token(&self) -> bool {
        !self.token.is_empty() || given(&self.token_file)
    }
}

fn given(path: &Path) -> bool {
    !path.as_os_str().is_empty()
}

fn odd_addresses(nats: &Nats) -> Option<&'static str> {
    let mut servers = nats.url.split(',').map(str::trim);
    if !servers.clone().all(|url| has_scheme(url, &["nats://", "tls://"])) {
        return Some("must be URLs such as nats://10.0.0.7:4222, with commas between");
    }
    // A user in the URL would be shown with the settings, and in the log.
    let named = servers.any(|url| url.contains('@'));
    named.then_some("must not name a user: store.nats.user, password and token are for that")
}

/// Credentials must not cross the network in plain text, unless that is accepted.
fn plain_text(nats: &Nats) -> Option<&'static str> {
    let open = nats.has_credentials() && !nats.requires_tls() && !all_loopback(&nats.url);
    (open && !nats.accept_plaintext).then_some(
        "is plain text to another machine, and others on the network could read the credentials: write tls://, \
         set store.nats.tls_required = true or tls_ca, or set store.nats.accept_plaintext = true on a network \
         that you trust",
    )
}

fn odd_bucket(nats: &Nats) -> Option<&'static str> {
    let named = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let odd = nats.bucket.is_empty() || !nats.bucket.chars().all(named);
    odd.then_some("must be letters, digits, _ and -")
}

fn several_identities(nats: &Nats) -> Option<&'static str> {
    let user = !nats.user.is_empty() || nats.has_password();
    let ways = [given(&nats.credentials), user, nats.has_token()];
    let several = ways.into_iter().filter(|given| *given).count() > 1;
    several.then_some("at most one of credentials, user and token may be given")
}

fn half_a_user(nats: &Nats) -> Option<&'static str> {
    let half = nats.user.is_empty() == nats.has_password();
    half.then_some("and store.nats.password (or password_file) go together")
}

fn two_passwords(nats: &Nats) -> Option<&'static str> {
    let two = !nats.password.is_empty() && given(&nats.password_file);
    two.then_some("is given, and store.nats.password too")
}

fn two_tokens(nats: &Nats) -> Option<&'static str> {
    let two = !nats.token.is_empty() && given(&nats.token_file);
    two.then_some("is given, and store.nats.token too")
}

fn half_a_certificate(nats: &Nats) -> Option<&'static str> {
    let half = given(&nats.tls_cert) != given(&nats.tls_key);
    half.then_some("and store.nats.tls_key go together")
}
