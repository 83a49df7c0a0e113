//! A subscriber of `/v1/events`.
//!
//! Guarantees
//! - Events are seen in the order and number in which they came.
//! - A `reset` is counted, and the stream goes on at the cursor that it named: what was skipped
//!   there, if anything, is then missing in the caller's own count.

use anyhow::{Context as _, Result, bail};
use futures_util::StreamExt as _;
use hyper::body::Incoming;
use serde::Deserialize;
use sse_stream::SseStream;

use super::{Connection, Target};

/// What the workloads look at in an event.
#[derive(Debug, Deserialize)]
pub struct Event {
    /// The key.
    pub subject: String,
    /// What happened to it.
    pub data: Change,
}

/// A change of ownership.
#[derive(Debug, Deserialize)]
pub struct Change {
    /// The number of the change among those of its key.
    pub seq: u64,
}

/// An open event stream.
pub struct Subscriber {
    target: Target,
    query: String,
    stream: SseStream<Incoming>,
    /// Where to go on, when the last event was a `reset`.
    resume: Option<String>,
    resets: u64,
}

impl Subscriber {
    /// Subscribes; `query` is the part after the question mark.
    pub async fn open(target: &Target, query: &str) -> Result<Self> {
        let (target, query) = (target.clone(), query.to_owned());
        let stream = open(&target, &query).await?;
        Ok(Self { target, query, stream, resume: None, resets: 0 })
    }

    /// How often the server cut this subscriber off, or skipped something.
    pub fn resets(&self) -> u64 {
        self.resets
    }

    /// The next event.
    ///
    /// A stream that ended with a `reset` is opened again at the cursor that the reset named, as
    /// any subscriber does.
    ///
    /// # Errors
    /// When the stream ends otherwise, or an event has another form.
    pub async fn next(&mut self) -> Result<Event> {
        loop {
            let Some(block) = self.stream.next().await else {
                let cursor = self.resume.take().context("the server ended the event stream")?;
                let query = format!("{}&after={cursor}", self.query);
                self.stream = open(&self.target, &query).await?;
                continue;
            };
            let block = block?;
            if block.event.as_deref() == Some("reset") {
                self.resets += 1;
                self.resume = block.id;
            } else if let Some(data) = block.data {
                self.resume = None;
                return serde_json::from_str(&data)
                    .with_context(|| format!("an event of another form: {data}"));
            }
        }
    }
}

async fn open(target: &Target, query: &str) -> Result<SseStream<Incoming>> {
    let request = target.get(&format!("/v1/events?{query}"))?;
    let (status, body) = Connection::open(target).await?.stream(request).await?;
    if status != 200 {
        bail!("GET /v1/events?{query}: {status}");
    }
    Ok(SseStream::new(body))
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    #[tokio::test]
    async fn a_stream_that_was_reset_goes_on_at_its_cursor() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let served = tokio::spawn(async move {
            let mut asked = Vec::new();
            for body in [
                "retry: 1\n\n:\n\nid: 7\nevent: granted\ndata: {\"subject\":\"a\",\"data\":{\"seq\":1}}\n\n\
                 id: 8\nevent: reset\ndata: {}\n\n",
                "id: 9\nevent: released\ndata: {\"subject\":\"b\",\"data\":{\"seq\":2}}\n\n",
            ] {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut request = vec![0; 1024];
                let length = stream.read(&mut request).await.unwrap();
                asked.push(String::from_utf8_lossy(&request[..length]).into_owned());
                let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
                let answer = format!("{head}{:x}\r\n{body}\r\n0\r\n\r\n", body.len());
                stream.write_all(answer.as_bytes()).await.unwrap();
            }
            asked
        });
        let target = Target::parse(&format!("http://{address}")).unwrap();
        let mut subscriber = Subscriber::open(&target, "prefix=a").await.unwrap();
        for (key, seq) in [("a", 1), ("b", 2)] {
            let event = subscriber.next().await.unwrap();
            assert_eq!((event.subject.as_str(), event.data.seq), (key, seq));
        }
        assert_eq!(subscriber.resets(), 1);
        assert!(subscriber.next().await.is_err(), "an end without a reset");
        assert!(served.await.unwrap()[1].starts_with("GET /v1/events?prefix=a&after=8 HTTP/1.1"));
    }
}
