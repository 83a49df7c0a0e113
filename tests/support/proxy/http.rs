//! A proxy before a DynamoDB endpoint that counts requests and loses, delays or answers some itself.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    task::JoinHandle,
};

/// What happens to a request.
#[derive(Clone, Debug)]
pub enum Fate {
    /// It is passed on.
    Pass,
    /// It is answered with this status and error code, and not passed on.
    Answer(u16, &'static str),
    /// It is passed on and carried out; the reply is lost.
    LoseReply,
    /// It is never answered, nor passed on.
    Hang,
    /// It is passed on after a while, although nobody waits for the answer by then.
    Late(Duration),
}

type Rule = Box<dyn FnMut(&str, &str) -> Fate + Send>;

/// A running proxy.
pub struct HttpProxy {
    addr: SocketAddr,
    inner: Arc<Inner>,
    task: JoinHandle<()>,
}

struct Inner {
    upstream: SocketAddr,
    rule: Mutex<Rule>,
    counts: Mutex<BTreeMap<String, usize>>,
    units: Mutex<BTreeMap<String, f64>>,
}

impl HttpProxy {
    pub async fn to(upstream: SocketAddr) -> Self {
        let rule: Rule = Box::new(|_, _| Fate::Pass);
        let inner = Inner {
            upstream,
            rule: Mutex::new(rule),
            counts: Mutex::default(),
            units: Mutex::default(),
        };
        let inner = Arc::new(inner);
        let serving = Arc::clone(&inner);
        let (addr, task) = super::listen(move |near| serve(near, Arc::clone(&serving))).await;
        Self { addr, inner, task }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.addr)
    }

    /// Decides from now on: by the operation (`PutItem`) and the request's body.
    pub fn rule(&self, rule: impl FnMut(&str, &str) -> Fate + Send + 'static) {
        *self.inner.rule.lock().unwrap() = Box::new(rule);
    }

    /// How often an operation was asked for.
    pub fn count(&self, operation: &str) -> usize {
        self.inner.counts.lock().unwrap().get(operation).copied().unwrap_or(0)
    }

    /// What the endpoint charged for an operation on an item of this kind (`l#`, `log`, `nodes`).
    pub fn units(&self, operation: &str, kind: &str) -> f64 {
        let units = self.inner.units.lock().unwrap();
        units.get(&format!("{operation} {kind}")).copied().unwrap_or(0.0)
    }

    /// Nobody listens any more.
    pub fn stop(&self) {
        self.task.abort();
    }
}

impl Drop for HttpProxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(mut stream: TcpStream, inner: Arc<Inner>) {
    let mut buffer = Vec::new();
    while let Some(request) = read_message(&mut stream, &mut buffer).await {
        let head = String::from_utf8_lossy(&request.0).to_lowercase();
        let operation = String::from_utf8_lossy(&request.0)
            .lines()
            .find(|line| line.to_lowercase().starts_with("x-amz-target:"))
            .and_then(|line| line.rsplit('.').next().map(|name| name.trim().to_owned()))
            .unwrap_or(head);
        *inner.counts.lock().unwrap().entry(operation.clone()).or_default() += 1;
        let body = String::from_utf8_lossy(&request.1).into_owned();
        let fate = (inner.rule.lock().unwrap())(&operation, &body);
        let reply = match fate {
            Fate::Pass => pass_on(&inner, &request).await,
            Fate::Answer(status, code) => Some(answer(status, code)),
            Fate::LoseReply => {
                pass_on(&inner, &request).await;
                None
            }
            Fate::Hang => {
                tokio::time::sleep(Duration::from_secs(60)).await;
                None
            }
            Fate::Late(span) => {
                tokio::time::sleep(span).await;
                pass_on(&inner, &request).await
            }
        };
        let Some(reply) = reply else { return };
        charge(&inner, &operation, &body, &reply);
        if stream.write_all(&reply).await.is_err() {
            return;
        }
    }
}

fn charge(inner: &Inner, operation: &str, body: &str, reply: &[u8]) {
    let reply = String::from_utf8_lossy(reply);
    let units = reply.split("\"CapacityUnits\":").nth(1).and_then(|rest| {
        rest.split(|c: char| !c.is_ascii_digit() && c != '.').next()?.parse::<f64>().ok()
    });
    let kinds = ["l#", "log", "nodes", "meta"];
    let kind = kinds.iter().find(|kind| body.contains(&format!("\"{kind}")));
    if let (Some(units), Some(kind)) = (units, kind) {
        *inner.units.lock().unwrap().entry(format!("{operation} {kind}")).or_default() += units;
    }
}

fn answer(status: u16, code: &str) -> Vec<u8> {
    let body =
        format!("{{\"__type\":\"com.amazonaws.dynamodb.v20120810#{code}\",\"message\":\"m\"}}");
    let head = format!(
        "HTTP/1.1 {status} X\r\ncontent-type: application/x-amz-json-1.0\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    [head.into_bytes(), body.into_bytes()].concat()
}

async fn pass_on(inner: &Inner, request: &(Vec<u8>, Vec<u8>)) -> Option<Vec<u8>> {
    let mut upstream = TcpStream::connect(inner.upstream).await.ok()?;
    upstream.write_all(&request.0).await.ok()?;
    upstream.write_all(&request.1).await.ok()?;
    let (head, body) = read_message(&mut upstream, &mut Vec::new()).await?;
    Some([head, body].concat())
}

/// The head and the body of an HTTP message with a content length.
async fn read_message(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> Option<(Vec<u8>, Vec<u8>)> {
    let mut chunk = [0; 16 << 10];
    let end = loop {
        if let Some(at) = buffer.windows(4).position(|four| four == b"\r\n\r\n") {
            break at + 4;
        }
        let read = stream.read(&mut chunk).await.ok().filter(|read| *read > 0)?;
        buffer.extend_from_slice(&chunk[..read]);
    };
    let head = String::from_utf8_lossy(&buffer[..end]).to_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length:"));
    let length: usize = length.and_then(|length| length.trim().parse().ok()).unwrap_or(0);
    while buffer.len() < end + length {
        let read = stream.read(&mut chunk).await.ok().filter(|read| *read > 0)?;
        buffer.extend_from_slice(&chunk[..read]);
    }
    let rest = buffer.split_off(end + length);
    let message = std::mem::replace(buffer, rest);
    let (head, body) = message.split_at(end);
    Some((head.to_vec(), body.to_vec()))
}
