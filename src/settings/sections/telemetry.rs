//! `[telemetry]`: logs and traces.

use std::path::PathBuf;

use tracing_subscriber::EnvFilter;

use super::super::{
    content::Content,
    plaintext,
    table::section,
    urls::{HTTP, has_scheme},
    value::written_as_text,
};

section! {
    /// The section `[telemetry]`: which log lines are written, and in which format; where traces go.
    pub struct Telemetry {
        /// Which log lines are written: "error", "warn", "info", "debug", "trace", or directives such as
        /// "info,tenure::actor=debug".
        log: String = "info".into(), if no_filter;
        /// "text" for people; "json" for one JSON object per line.
        log_format: LogFormat = LogFormat::Text;
        /// Maximum number of log lines per second about changes of ownership. Suppressed lines are counted. 0: no
        /// limit.
        ownership_lines_per_second: u32 = 1000;
        /// URL of a collector of traces that speaks OTLP over HTTP, such as http://127.0.0.1:4318. Spans are posted to
        /// /v1/traces below it. Empty: no traces.
        otlp_endpoint: String = String::new(), if not_a_collector, if headers_in_plain_text;
        /// File with headers for the collector, such as a token: one on each line, written "name: value". It is read
        /// at the start. Empty: none.
        otlp_headers_file: PathBuf = PathBuf::new(), file Content::Headers;
        /// PEM file with the certificate authorities for an https collector. No other authority is trusted for it.
        /// Empty: the authorities of the operating system.
        otlp_ca: PathBuf = PathBuf::new(), file Content::Pem("CERTIFICATE");
        /// Share of calls that begin a trace, if their caller sends no traceparent; heartbeats never do. A caller that
        /// sends one decides by its flag "sampled".
        trace_ratio: f64 = 0.0, in 0.0..=1.0;
        /// Name of this service in traces.
        service_name: String = "tenure".into(), if nameless;
    }
}

fn not_a_collector(telemetry: &Telemetry) -> Option<&'static str> {
    let url = telemetry.otlp_endpoint.as_str();
    if url.is_empty() {
        None
    } else if !has_scheme(url, &HTTP) || url.contains(char::is_whitespace) {
        Some("must be a URL such as http://127.0.0.1:4318")
    } else if url.contains('@') {
        Some("must not have credentials: write them to the file of otlp_headers_file")
    } else if url.trim_end_matches('/').ends_with("/v1/traces") {
        Some("must be written without /v1/traces, which is added")
    } else if url.contains(['?', '#']) {
        Some("must not have a query")
    } else {
        None
    }
}

fn headers_in_plain_text(telemetry: &Telemetry) -> Option<String> {
    let has_headers = !telemetry.otlp_headers_file.as_os_str().is_empty();
    plaintext::of_collector(&telemetry.otlp_endpoint).filter(|_| has_headers)
}

fn nameless(telemetry: &Telemetry) -> Option<&'static str> {
    telemetry.service_name.is_empty().then_some("must not be empty")
}

fn no_filter(telemetry: &Telemetry) -> Option<String> {
    let error = EnvFilter::try_new(&telemetry.log).err()?;
    Some(format!("is not a log filter: {error}"))
}

/// The format of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// Plain text, for people.
    Text,
    /// One JSON object per line.
    Json,
}

impl LogFormat {
    fn as_str(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Json => "json",
        }
    }
}

written_as_text! {
    LogFormat: "\"text\" or \"json\"",
        |text| [Self::Text, Self::Json].into_iter().find(|format| format.as_str() == text),
        |format| format.as_str().to_owned();
}
