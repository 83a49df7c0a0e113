//! A client of a stream (`GET /v1/stream`), which sees every message.

use std::{collections::VecDeque, net::SocketAddr};

use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::{io::BufReader, net::TcpStream};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{Message, protocol::Role},
};

use super::{Connection, Reply, soon};

/// What asks for an upgrade.
pub const UPGRADE: [(&str, &str); 4] = [
    ("Connection", "Upgrade"),
    ("Upgrade", "websocket"),
    ("Sec-WebSocket-Version", "13"),
    ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
];
/// What answers that key (RFC 6455, 1.3).
const ACCEPT: &str = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";

/// An open stream.
pub struct Talk {
    socket: WebSocketStream<BufReader<TcpStream>>,
    next: u64,
    /// Messages that came before the one that was waited for.
    unread: VecDeque<Value>,
    /// The first message.
    pub hello: Value,
}

impl Talk {
    /// Opens a stream.
    pub async fn open(addr: SocketAddr) -> Self {
        Self::open_with(addr, &[]).await.unwrap_or_else(|reply| panic!("{}", reply.text()))
    }

    /// Opens a stream with more headers.
    ///
    /// # Errors
    /// The answer, if the server does not upgrade.
    pub async fn open_with(addr: SocketAddr, headers: &[(&str, &str)]) -> Result<Self, Reply> {
        let mut connection = Connection::open(addr).await;
        let headers = [&UPGRADE[..], headers].concat();
        connection.send("GET", "/v1/stream", &headers, b"").await;
        let (status, headers) = soon("a head", connection.head()).await.expect("a head");
        if status != 101 {
            let find = |name: &str| headers.iter().find(|(there, _)| there == name);
            let length =
                find("content-length").map_or(0, |(_, length)| length.parse().expect("a number"));
            let mut body = vec![0; length];
            tokio::io::AsyncReadExt::read_exact(&mut connection.stream, &mut body)
                .await
                .expect("a body");
            return Err(Reply { status, headers, body });
        }
        let accept = headers.iter().find(|(name, _)| name == "sec-websocket-accept");
        assert_eq!(accept.map(|(_, accept)| accept.as_str()), Some(ACCEPT));
        let socket = WebSocketStream::from_raw_socket(connection.stream, Role::Client, None).await;
        let mut talk = Self { socket, next: 0, unread: VecDeque::new(), hello: Value::Null };
        talk.hello = talk.pushed("hello").await;
        Ok(talk)
    }

    /// Sends a text, whatever it is.
    pub async fn send_text(&mut self, text: String) {
        self.socket.send(Message::text(text)).await.expect("the stream is open");
    }

    /// Sends a message of another kind.
    pub async fn send_message(&mut self, message: Message) {
        self.socket.send(message).await.expect("the stream is open");
    }

    /// Sends a message, if the stream is still open.
    ///
    /// # Errors
    /// It is not.
    pub async fn try_send(
        &mut self,
        message: Message,
    ) -> Result<(), tokio_tungstenite::tungstenite::Error> {
        self.socket.send(message).await
    }

    /// Begins a call with a body. Returns its id.
    pub async fn begin(&mut self, op: &str, body: &Value) -> u64 {
        self.begin_with(op, &Value::Null, body).await
    }

    /// Begins a call with parameters, unless they are null, and a body, unless it is null. Returns its id.
    pub async fn begin_with(&mut self, op: &str, params: &Value, body: &Value) -> u64 {
        let id = self.next;
        self.next += 1;
        let mut call = json!({ "id": id, "op": op });
        if !params.is_null() {
            call["params"] = params.clone();
        }
        if !body.is_null() {
            call["body"] = body.clone();
        }
        self.send_text(call.to_string()).await;
        id
    }

    /// Makes a call with a body, and waits for its answer.
    pub async fn call(&mut self, op: &str, body: &Value) -> Value {
        let id = self.begin(op, body).await;
        self.answer(id).await
    }

    /// A call that is to succeed. Returns its document.
    pub async fn ok(&mut self, op: &str, body: &Value) -> Value {
        let answer = self.call(op, body).await;
        assert!(answer["status"].as_u64().is_some_and(|status| status < 300), "{answer}");
        answer["body"].clone()
    }

    /// The answer to the call with this id.
    pub async fn answer(&mut self, id: u64) -> Value {
        self.find(&format!("the answer to {id}"), |message| message["id"] == id).await
    }

    /// The document of the next message of its own with this name.
    pub async fn pushed(&mut self, name: &str) -> Value {
        self.find(name, |message| message.get(name).is_some()).await[name].clone()
    }

    async fn find(&mut self, what: &str, such: impl Fn(&Value) -> bool) -> Value {
        if let Some(at) = self.unread.iter().position(&such) {
            return self.unread.remove(at).expect("it is there");
        }
        loop {
            let message = soon(what, self.message()).await;
            let message = message.unwrap_or_else(|end| panic!("{what}: the stream ended: {end:?}"));
            if such(&message) {
                return message;
            }
            self.unread.push_back(message);
        }
    }

    /// The next message as it comes; or the code and the reason of the end, if there was one.
    pub async fn message(&mut self) -> Result<Value, Option<(u16, String)>> {
        loop {
            match self.socket.next().await {
                Some(Ok(Message::Text(text))) => {
                    return Ok(serde_json::from_str(text.as_str()).expect("JSON"));
                }
                Some(Ok(Message::Close(told))) => {
                    let told = told.map(|told| (told.code.into(), told.reason.as_str().to_owned()));
                    return Err(told);
                }
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return Err(None),
            }
        }
    }

    /// How the stream ends.
    pub async fn end(&mut self) -> Option<(u16, String)> {
        let end = async {
            loop {
                if let Err(end) = self.message().await {
                    return end;
                }
            }
        };
        soon("the end of the stream", end).await
    }

    /// The code with which the stream ends.
    pub async fn code(&mut self) -> Option<u16> {
        self.end().await.map(|(code, _)| code)
    }

    /// The connection itself, to break it.
    pub fn connection(&mut self) -> &mut TcpStream {
        self.socket.get_mut().get_mut()
    }
}
