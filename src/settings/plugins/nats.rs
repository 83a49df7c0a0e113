//! The kind `nats`.

use config::{ConfigError, Value};

use super::{
    super::{
        stores::Nats,
        table::{About, Row, Section as _, section, shown},
        value::{Format, Shown},
    },
    strict::{any_text, flag, must_be, text},
};

section! {
    /// Sends a request to, or publishes on, a NATS subject.
    pub struct NatsPlugin {
        /// Subject.
        subject: String = String::new(), required = true,
            example = r#""fence.storage""#, read subject;
        /// "request": a reply that begins with +OK or ok confirms. "publish": the acknowledgement of the stream
        /// confirms.
        mode: NatsMode = NatsMode::Request;
    } with {
        /// The servers and the client's credentials; `None`: those of `[store.nats]`. The settings of the bucket are
        /// not used.
        servers: Option<Box<Nats>>,
    }
}

/// What confirms a fence over NATS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NatsMode {
    /// An answer that begins with `+OK` or `ok`.
    Request,
    /// The acknowledgement of a stream.
    Publish,
}

impl NatsMode {
    /// The name of the mode in settings.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Request => "request",
            Self::Publish => "publish",
        }
    }
}

impl Format for NatsMode {
    fn read(value: Value) -> Result<Self, ConfigError> {
        let name = text(value);
        let mode = [Self::Request, Self::Publish]
            .into_iter()
            .find(|mode| name.as_deref() == Some(mode.as_str()));
        must_be("\"request\" or \"publish\"", mode)
    }

    fn show(&self) -> Shown {
        Shown::Text(self.as_str().to_owned())
    }
}

fn subject(value: Value) -> Result<String, ConfigError> {
    let token = |token: &str| {
        let bad = |c: char| c.is_whitespace() || c.is_control() || matches!(c, '*' | '>');
        !token.is_empty() && !token.contains(bad)
    };
    let subject = text(value).filter(|subject| subject.split('.').all(token));
    must_be("a subject without wildcards, such as fence.storage", subject)
}

/// The servers, as the shipped file explains them.
static SERVERS: About = About {
    key: "url",
    help: &[
        "Servers. Omitted: those of [store.nats], with their authentication. If set, credentials, user, password,",
        " password_file, token, token_file, tls_ca, tls_cert, tls_key, tls_required and accept_plaintext can be set here",
        " as well.",
    ],
    range: &[],
    example: Some(r#""nats://10.0.0.7:4222""#),
    required: false,
    secret: false,
};

/// The settings of `[store.nats]` that make a connection. A plugin may have its own.
const CONNECTION: [&str; 12] = [
    "url",
    "user",
    "password",
    "token",
    "credentials",
    "password_file",
    "token_file",
    "tls_ca",
    "tls_cert",
    "tls_key",
    "tls_required",
    "accept_plaintext",
];
/// Those of them that are `true` or `false`; the others are text.
const FLAGS: [&str; 2] = ["tls_required", "accept_plaintext"];

pub(super) fn connection() -> impl Iterator<Item = &'static Row<Nats>> {
    let row = |key: &str| Nats::ROWS.iter().find(|row| row.about.key == key);
    CONNECTION.into_iter().filter_map(row)
}

/// Sets a part of the connection.
pub(super) fn connect(
    servers: &mut Nats,
    row: &Row<Nats>,
    value: Value,
) -> Result<(), ConfigError> {
    let right = if FLAGS.contains(&row.about.key) {
        flag(value.clone()).map(drop)
    } else {
        any_text(value.clone()).map(drop)
    };
    right.and_then(|()| (row.set)(servers, value))
}

impl NatsPlugin {
    /// The settings, and those of the servers if it has its own.
    pub(super) fn shown(&self) -> Vec<(&'static About, Shown)> {
        let mut settings = shown(self);
        let url = self.servers.as_ref().map_or(Shown::Nothing, |servers| servers.url.show());
        settings.push((&SERVERS, url));
        if let Some(servers) = &self.servers {
            settings.extend(connection().skip(1).map(|row| (&row.about, (row.show)(servers))));
        }
        settings
    }
}
