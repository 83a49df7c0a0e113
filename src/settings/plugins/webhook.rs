//! The kind `webhook`.

use std::ops::RangeInclusive;

use base64::{Engine, engine::general_purpose::STANDARD};
use config::{ConfigError, Value};

use super::{
    super::{
        plaintext,
        secret::Secret,
        table::section,
        value::{Format, Shown},
    },
    strict::{flag, must_be, text, texts},
};

/// The prefix of a webhook's secret.
pub const WEBHOOK_SECRET: &str = "whsec_";
/// The length of a webhook's secret in bytes, according to Standard Webhooks.
const SECRET_BYTES: RangeInclusive<usize> = 24..=64;

section! {
    /// Posts each fence to a URL. A 2xx status confirms.
    pub struct WebhookPlugin {
        /// URL to post to. A 2xx status confirms.
        url: String = String::new(), required = true,
            example = r#""https://fence.example.org/tenure""#, read address, show without_path, if plain_text;
        /// Signing secrets (Standard Webhooks), newest first. Each of them signs. Never displayed.
        secrets: Vec<Secret> = Vec::new(), required = true,
            example = r#"["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"]"#;
        /// Whether the URL may be http:// on another machine. Anyone on the network path can then confirm a fence that
        /// never ran.
        accept_plaintext: bool = false, read flag;
    }
}

/// The part of a URL between its scheme and its path.
fn authority(rest: &str) -> &str {
    rest.split(['/', '?', '#']).next().unwrap_or_default()
}

fn address(value: Value) -> Result<String, ConfigError> {
    let fits = |url: &String| {
        let rest = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://"));
        let host = rest.map(authority);
        host.is_some_and(|host| !host.is_empty() && !host.contains('@'))
    };
    let expecting = "a URL such as https://fence.example.org/tenure, without a user in it";
    must_be(expecting, text(value).filter(fits))
}

/// For many services, whoever knows the path may post.
fn without_path(url: &str) -> Shown {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let authority = authority(rest);
    let (_, host) = authority.rsplit_once('@').unwrap_or(("", authority));
    if rest.trim_end_matches('/') == host {
        return Shown::Text(url.to_owned());
    }
    let shown = format!("{scheme}://{host}");
    Shown::Hidden(format!(" beyond {shown:?}"))
}

fn plain_text(webhook: &WebhookPlugin) -> Option<String> {
    if webhook.accept_plaintext { None } else { plaintext::of_webhook(&webhook.url) }
}

/// Secrets that sign.
impl Format for Vec<Secret> {
    fn read(value: Value) -> Result<Self, ConfigError> {
        let secret = |secret: String| {
            let bytes = STANDARD.decode(secret.strip_prefix(WEBHOOK_SECRET)?).ok()?;
            SECRET_BYTES.contains(&bytes.len()).then(|| Secret::new(secret))
        };
        let secrets: Option<Self> = texts(value)
            .and_then(|texts| texts.into_iter().map(secret).collect())
            .filter(|secrets: &Self| !secrets.is_empty());
        let (least, most) = SECRET_BYTES.into_inner();
        let expecting = format!(
            "a list of at least one secret, each {WEBHOOK_SECRET} and the base64 of {least} to {most} bytes"
        );
        must_be(expecting, secrets)
    }

    fn show(&self) -> Shown {
        if self.is_empty() { Shown::Nothing } else { Shown::Hidden(String::new()) }
    }
}
