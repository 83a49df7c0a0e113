//! A subscriber of the event stream.

use serde_json::Value;

use super::{Connection, PATIENCE, Server};

/// What a stream says.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// An event: its id, its type and its data.
    Named { id: String, kind: String, data: Value },
    /// A line that starts with a colon.
    Comment,
}

/// An open stream.
#[derive(Debug)]
pub struct Stream {
    connection: Connection,
    buffer: String,
    /// How many deliveries came.
    pub chunks: usize,
}

impl Stream {
    /// Opens a stream; `query` without the question mark.
    pub async fn open(server: &Server, query: &str) -> Self {
        Self::open_with(server, query, &[]).await
    }

    pub async fn open_with(server: &Server, query: &str, headers: &[(&str, &str)]) -> Self {
        let mut connection = Connection::open(server.addr).await;
        connection.send("GET", &format!("/v1/events?{query}"), headers, b"").await;
        let (status, headers) = connection.head().await.expect("a head");
        assert_eq!(status, 200);
        let kind = headers.iter().find(|(name, _)| name == "content-type");
        assert_eq!(kind.map(|(_, kind)| kind.as_str()), Some("text/event-stream"));
        Self { connection, buffer: String::new(), chunks: 0 }
    }

    /// The next event or comment; `None` at the end of the stream.
    pub async fn next(&mut self) -> Option<Event> {
        loop {
            while let Some(end) = self.buffer.find("\n\n") {
                let block: String = self.buffer.drain(..end + 2).collect();
                if let Some(event) = parse(&block) {
                    return Some(event);
                }
            }
            let chunk = tokio::time::timeout(PATIENCE, self.connection.chunk()).await;
            match chunk.expect("a comment at the least").ok().flatten() {
                Some(chunk) => {
                    self.chunks += 1;
                    self.buffer.push_str(std::str::from_utf8(&chunk).expect("UTF-8"));
                }
                None => return None,
            }
        }
    }

    /// The next that is no comment.
    pub async fn event(&mut self) -> Option<(String, String, Value)> {
        loop {
            match self.next().await? {
                Event::Named { id, kind, data } => return Some((id, kind, data)),
                Event::Comment => {}
            }
        }
    }

    /// So many events; the stream must not end before.
    pub async fn events(&mut self, count: usize) -> Vec<(String, String, Value)> {
        let mut events = Vec::new();
        while events.len() < count {
            events.push(self.event().await.expect("the stream goes on"));
        }
        events
    }
}

fn parse(block: &str) -> Option<Event> {
    let field = |name: &str| {
        let lines = block.lines().filter_map(|line| line.strip_prefix(name));
        lines.map(str::trim_start).next()
    };
    if let Some(data) = field("data:") {
        let data = serde_json::from_str(data).expect("JSON");
        let id = field("id:").expect("an id").to_owned();
        return Some(Event::Named { id, kind: field("event:").expect("a type").to_owned(), data });
    }
    block.lines().any(|line| line.starts_with(':')).then_some(Event::Comment)
}
