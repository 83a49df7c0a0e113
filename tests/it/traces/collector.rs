//! A collector on a port of its own: an HTTP server that reads OTLP with the types that OpenTelemetry publishes.

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex, MutexGuard},
};

use opentelemetry_proto::tonic::{
    collector::trace::v1::ExportTraceServiceRequest,
    common::v1::{KeyValue, any_value},
    trace::v1,
};

use crate::support::clock::eventually;

/// How a collector treats requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// It takes the spans.
    Takes,
    /// It answers that it does not take them.
    Refuses,
    /// It reads them, and never answers.
    Hangs,
}

/// A span as the collector read it.
#[derive(Clone, Debug)]
pub struct Span {
    /// The name of the node that made it.
    pub node: String,
    pub name: String,
    pub trace: String,
    pub id: String,
    /// Empty for the first span of a trace.
    pub parent: String,
    pub state: String,
    pub kind: v1::span::SpanKind,
    pub from: u64,
    pub to: u64,
    pub failed: bool,
    pub attributes: BTreeMap<String, String>,
}

impl Span {
    pub fn attribute(&self, name: &str) -> &str {
        self.attributes.get(name).map_or("", String::as_str)
    }
}

/// What a collector saw.
#[derive(Default)]
struct Seen {
    spans: Vec<Span>,
    /// Head and body of each request.
    texts: Vec<String>,
    /// What was wrong with requests.
    faults: Vec<String>,
}

pub struct Collector {
    pub url: String,
    seen: Arc<Mutex<Seen>>,
}

impl Collector {
    pub fn start(manner: Manner) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("bound"));
        let seen = Arc::<Mutex<Seen>>::default();
        let shared = seen.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let seen = shared.clone();
                std::thread::spawn(move || serve(stream, &seen, manner));
            }
        });
        Self { url, seen }
    }

    /// The settings of a node that sends its spans here.
    pub fn sets(&self) -> Vec<String> {
        vec![format!("telemetry.otlp_endpoint={}", self.url)]
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().expect("what was seen")
    }

    /// Every span so far.
    pub fn spans(&self) -> Vec<Span> {
        let seen = self.seen();
        assert_eq!(seen.faults, [""; 0], "requests are as the protocol demands");
        seen.spans.clone()
    }

    /// The requests so far, as texts.
    pub fn texts(&self) -> Vec<String> {
        self.seen().texts.clone()
    }

    /// Waits until there is a span that fits.
    pub async fn span(&self, what: &str, fits: impl Fn(&Span) -> bool) -> Span {
        let mut found = None;
        eventually(what, async || {
            found = self.spans().into_iter().find(&fits);
            found.is_some()
        })
        .await;
        found.expect("just found")
    }

    /// Waits for the span with this name whose parent is that one.
    pub async fn child(&self, name: &str, of: &str) -> Span {
        let what = format!("{name} below {of}");
        self.span(&what, |span| span.name == name && span.parent == of).await
    }
}

/// Serves one connection.
fn serve(stream: TcpStream, seen: &Mutex<Seen>, manner: Manner) {
    let mut answers = stream.try_clone().expect("a handle");
    let mut reader = BufReader::new(stream);
    while let Some((head, body)) = request(&mut reader) {
        let fault = fault(&head, &body);
        let mut all = seen.lock().expect("what was seen");
        all.texts.push(format!("{head}{}", String::from_utf8_lossy(&body)));
        match (fault, serde_json::from_slice::<ExportTraceServiceRequest>(&body)) {
            (Some(fault), _) => all.faults.push(fault),
            (None, Err(error)) => all.faults.push(error.to_string()),
            (None, Ok(request)) if manner == Manner::Takes => all.spans.extend(read(&request)),
            (None, Ok(_)) => {}
        }
        drop(all);
        let status = match manner {
            Manner::Takes => "200 OK",
            Manner::Refuses => "400 Bad Request",
            Manner::Hangs => continue,
        };
        let answer = format!(
            "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{{}}"
        );
        if answers.write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}

/// The head and the body of the next request.
fn request(reader: &mut BufReader<TcpStream>) -> Option<(String, Vec<u8>)> {
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap_or(0) == 0 {
            return None;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
        head.push_str(&line);
        if line == "\r\n" {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some((head, body))
}

/// What is wrong with a request besides its content.
fn fault(head: &str, body: &[u8]) -> Option<String> {
    let lower = head.to_ascii_lowercase();
    if !head.starts_with("POST /v1/traces HTTP/1.1\r\n") {
        return Some(format!("it is no export of traces: {head}"));
    }
    if !lower.contains("content-type: application/json\r\n") {
        return Some(format!("it says not that it is JSON: {head}"));
    }
    body.is_empty().then(|| "it has no body".to_owned())
}

fn read(request: &ExportTraceServiceRequest) -> Vec<Span> {
    let mut spans = Vec::new();
    for of_resource in &request.resource_spans {
        let resource = of_resource.resource.as_ref().expect("a resource");
        let resource = attributes(&resource.attributes);
        assert!(!resource["service.name"].is_empty() && !resource["service.version"].is_empty());
        let node = &resource["service.instance.id"];
        let all = of_resource.scope_spans.iter().flat_map(|of_scope| &of_scope.spans);
        spans.extend(all.map(|span| Span {
            node: node.clone(),
            name: span.name.clone(),
            trace: hex(&span.trace_id),
            id: hex(&span.span_id),
            parent: hex(&span.parent_span_id),
            state: span.trace_state.clone(),
            kind: span.kind(),
            from: span.start_time_unix_nano,
            to: span.end_time_unix_nano,
            failed: span.status.as_ref().is_some_and(|status| status.code == 2),
            attributes: attributes(&span.attributes),
        }));
    }
    spans
}

fn attributes(all: &[KeyValue]) -> BTreeMap<String, String> {
    let value = |one: &KeyValue| match one.value.as_ref().and_then(|value| value.value.as_ref()) {
        Some(any_value::Value::StringValue(text)) => text.clone(),
        Some(any_value::Value::IntValue(number)) => number.to_string(),
        other => panic!("{}: {other:?}", one.key),
    };
    all.iter().map(|one| (one.key.clone(), value(one))).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
