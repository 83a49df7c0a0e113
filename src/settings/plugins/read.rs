//! Reads and checks `[[plugin]]`.

use std::{ops::RangeInclusive, time::Duration};

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::Value;

use super::{
    super::{
        Fault, Nats, Secret, format_duration, plaintext,
        rows::{Reader, Row, span, text, texts},
        validate,
    },
    FENCE_TABLE, NatsMode, Plugin, PluginKind, WEBHOOK_SECRET,
};

/// The length of a webhook's secret in bytes, according to Standard Webhooks.
const WEBHOOK_SECRET_BYTES: RangeInclusive<usize> = 24..=64;
/// The bounds of how long one attempt may take.
const TIMEOUTS: RangeInclusive<Duration> = Duration::from_millis(10)..=Duration::from_secs(3600);
const MAX_RETRIES: u64 = 100;
/// The highest concurrency. Each fence takes a thread, a process or a connection.
const MAX_CONCURRENCY: u64 = 1024;
/// The longest name, which is a label of metrics.
const MAX_NAME: usize = 64;

/// Reads the plugins of a file. A plugin with a fault is left out.
pub(in crate::settings) fn read(rows: &[Row], faults: &mut Vec<Fault>) -> Vec<Plugin> {
    let mut plugins: Vec<Plugin> = Vec::new();
    for row in rows.iter().filter(|row| row.list == "plugin") {
        let mut reader = Reader::new(row.clone(), faults);
        let plugin = one(&mut reader);
        let twice = |plugin: &Plugin| plugins.iter().any(|other| other.name == plugin.name);
        if plugin.as_ref().is_some_and(twice) {
            reader.fault("name", "another plugin has this name");
        }
        let kind = plugin.as_ref().map(|plugin| plugin.kind.as_str());
        match kind {
            Some(kind) => reader.finish(&format!("of kind {kind} ")),
            // The known keys depend on the kind.
            None if !KINDS.iter().any(|kind| reader.is(kind)) => {}
            None => reader.finish(""),
        }
        plugins.extend(plugin);
    }
    plugins
}

const KINDS: &[&str] = &[
    "exec",
    "webhook",
    "nats",
    "postgres",
    "log",
    #[cfg(feature = "testing")]
    "panic",
];

impl Reader<'_> {
    /// A flag that is off by default.
    fn flag(&mut self, key: &'static str) -> bool {
        self.optional(key, "true or false", Value::as_bool).unwrap_or_default()
    }

    fn is(&self, kind: &str) -> bool {
        self.peek("kind").and_then(Value::as_str) == Some(kind)
    }
}

fn one(reader: &mut Reader<'_>) -> Option<Plugin> {
    let label = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    let name = reader.required("name", "1 to 64 letters, digits, _, - and .", |value| {
        text(value).filter(|n| (1..=MAX_NAME).contains(&n.len()) && n.chars().all(label))
    });
    let [least, most] = [*TIMEOUTS.start(), *TIMEOUTS.end()].map(format_duration);
    let timeout = reader.optional(
        "timeout",
        &format!("a duration in quotes such as \"10s\", from {least} to {most}"),
        |value| span(value).filter(|span| TIMEOUTS.contains(span)),
    );
    let number = |range: RangeInclusive<u64>| {
        move |value: &Value| value.as_u64().filter(|number| range.contains(number))
    };
    let retries = reader.optional(
        "retries",
        &format!("a whole number from 0 to {MAX_RETRIES}"),
        number(0..=MAX_RETRIES),
    );
    let concurrency = reader.optional(
        "concurrency",
        &format!("a whole number from 1 to {MAX_CONCURRENCY}"),
        number(1..=MAX_CONCURRENCY),
    );
    let list = "\"exec\", \"webhook\", \"nats\", \"postgres\" or \"log\"";
    let kind = reader.required("kind", list, |value| {
        KINDS.iter().copied().find(|kind| value.as_str() == Some(kind))
    });
    let kind = match kind? {
        #[cfg(feature = "testing")]
        "panic" => Some(PluginKind::Panic),
        "exec" => exec(reader),
        "webhook" => webhook(reader),
        "nats" => nats(reader),
        "postgres" => postgres(reader),
        _ => Some(PluginKind::Log),
    };
    Some(Plugin {
        name: name?,
        timeout: timeout.unwrap_or(Duration::from_secs(10)),
        retries: u32::try_from(retries.unwrap_or(3)).unwrap_or(u32::MAX),
        concurrency: usize::try_from(concurrency.unwrap_or(32)).unwrap_or(1),
        kind: kind?,
    })
}

fn exec(reader: &mut Reader<'_>) -> Option<PluginKind> {
    let expecting = "a list of texts: the program, then its arguments";
    let command = reader.required("command", expecting, |value| {
        texts(value).filter(|words| {
            words.first().is_some_and(|program| !program.is_empty())
                && !words.iter().any(|word| word.contains('\0'))
        })
    });
    let expecting = "a table of texts; names that begin with TENURE_ are taken";
    let environment = reader.optional("environment", expecting, |value| {
        let entry = |(name, value): (&String, &Value)| {
            let fits = !name.is_empty() && !name.contains(['=', '\0']);
            let value = text(value).filter(|value| !value.contains('\0'))?;
            (fits && !name.starts_with("TENURE_")).then(|| (name.clone(), Secret::new(value)))
        };
        value.as_object()?.iter().map(entry).collect()
    });
    Some(PluginKind::Exec { command: command?, environment: environment.unwrap_or_default() })
}

fn webhook(reader: &mut Reader<'_>) -> Option<PluginKind> {
    let expecting = "a URL such as https://fence.example.org/tenure, without a user in it";
    let url = reader.required("url", expecting, |value| {
        let fits = |url: &String| {
            let rest = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://"));
            let host = rest.and_then(|rest| rest.split(['/', '?', '#']).next());
            host.is_some_and(|host| !host.is_empty() && !host.contains('@'))
        };
        text(value).filter(fits)
    });
    let expecting = format!(
        "a list of at least one secret, each {WEBHOOK_SECRET} and the base64 of {} to {} bytes",
        WEBHOOK_SECRET_BYTES.start(),
        WEBHOOK_SECRET_BYTES.end()
    );
    let secrets = reader.required("secrets", &expecting, |value| {
        let secret = |secret: String| {
            let bytes = STANDARD.decode(secret.strip_prefix(WEBHOOK_SECRET)?).ok()?;
            WEBHOOK_SECRET_BYTES.contains(&bytes.len()).then(|| Secret::new(secret))
        };
        let secrets: Option<Vec<_>> = texts(value)?.into_iter().map(secret).collect();
        secrets.filter(|secrets| !secrets.is_empty())
    });
    let accept_plaintext = reader.flag("accept_plaintext");
    let open = url.as_deref().filter(|_| !accept_plaintext).and_then(plaintext::of_webhook);
    if let Some(problem) = open {
        reader.fault("url", problem);
    }
    Some(PluginKind::Webhook { url: url?, secrets: secrets?, accept_plaintext })
}

fn nats(reader: &mut Reader<'_>) -> Option<PluginKind> {
    let expecting = "a subject without wildcards, such as fence.storage";
    let subject = reader.required("subject", expecting, |value| {
        let token = |token: &str| {
            let bad = |c: char| c.is_whitespace() || c.is_control() || matches!(c, '*' | '>');
            !token.is_empty() && !token.contains(bad)
        };
        text(value).filter(|subject| subject.split('.').all(token))
    });
    let mode = reader.optional("mode", "\"request\" or \"publish\"", |value| {
        [NatsMode::Request, NatsMode::Publish]
            .into_iter()
            .find(|mode| value.as_str() == Some(mode.as_str()))
    });
    let url = reader.text("url");
    let section = Nats {
        url: url.clone().unwrap_or_default(),
        credentials: reader.path("credentials"),
        user: reader.text("user").unwrap_or_default(),
        password: reader.secret("password"),
        password_file: reader.path("password_file"),
        token: reader.secret("token"),
        token_file: reader.path("token_file"),
        tls_ca: reader.path("tls_ca"),
        tls_cert: reader.path("tls_cert"),
        tls_key: reader.path("tls_key"),
        tls_required: reader.flag("tls_required"),
        accept_plaintext: reader.flag("accept_plaintext"),
        ..Nats::default()
    };
    let servers = if reader.has("url") {
        for (key, problem) in validate::of_nats(&section) {
            let bare = |text: &str| text.replace("store.nats.", "");
            reader.fault(&bare(key), bare(&problem));
        }
        Some(Box::new(section))
    } else {
        let alone = [
            "credentials",
            "user",
            "password",
            "password_file",
            "token",
            "token_file",
            "tls_ca",
            "tls_cert",
            "tls_key",
            "tls_required",
            "accept_plaintext",
        ];
        for key in alone.into_iter().filter(|key| reader.has(key)).collect::<Vec<_>>() {
            reader.fault(key, "needs url; without one the servers of [store.nats] are meant");
        }
        None
    };
    let mode = mode.unwrap_or(NatsMode::Request);
    Some(PluginKind::Nats { servers, subject: subject?, mode })
}

fn postgres(reader: &mut Reader<'_>) -> Option<PluginKind> {
    let expecting = "a URL such as postgres://user@10.0.0.7/accounts";
    let url = reader.optional("url", expecting, |value| {
        let known = |url: &String| {
            ["postgres://", "postgresql://"].iter().any(|scheme| url.starts_with(scheme))
        };
        text(value).filter(known).map(Secret::new)
    });
    let url_file = reader.path("url_file");
    if reader.has("url") == reader.has("url_file") {
        reader.fault("url", "either url or url_file must be given");
    }
    let expecting = "the name of a table, perhaps with its schema: letters, digits and _";
    let table = reader.optional("table", expecting, |value| {
        let name = |name: &str| {
            let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
            !name.is_empty()
                && name.len() < 64
                && name.chars().all(word)
                && !name.starts_with(|c: char| c.is_ascii_digit())
        };
        text(value).filter(|table| table.split('.').count() <= 2 && table.split('.').all(name))
    });
    let table = table.unwrap_or_else(|| FENCE_TABLE.to_owned());
    let (url, accept_plaintext) = (url.unwrap_or_default(), reader.flag("accept_plaintext"));
    #[cfg(feature = "postgres")]
    if !accept_plaintext
        && let Some(problem) = url.reveal().parse().ok().as_ref().and_then(plaintext::of_postgres)
    {
        reader.fault("url", problem);
    }
    Some(PluginKind::Postgres { url, url_file, table, accept_plaintext })
}
