//! The client of one agent: it starts `tenure mcp` and speaks the protocol with it.
//!
//! Guarantees: every line that the program writes is a message; no line has a `lease_id`. The program ends when this is
//! dropped.

use std::{
    net::SocketAddr,
    process::{ExitStatus, Stdio},
    time::Duration,
};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout, Command},
};

use crate::support::clock::soon;

pub struct Client {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: Lines<BufReader<ChildStdout>>,
    /// The id of the latest request.
    last: u64,
    /// Answers that came before they were awaited.
    early: Vec<Value>,
}

/// What a tool answered.
#[derive(Clone, Debug)]
pub struct Told {
    pub failed: bool,
    pub message: String,
    pub data: Value,
    /// What it told besides.
    pub notices: Vec<String>,
}

impl Client {
    /// A program that has not been spoken to.
    pub fn silent(server: SocketAddr, arguments: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tenure"));
        command.args(["--server", &format!("http://{server}"), "mcp"]).args(arguments);
        command.env_remove("TENURE_OWNER").env_remove("TENURE_TOKEN_FILE");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().expect("the program starts");
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take().expect("a pipe"));
        let stdout = BufReader::new(stdout).lines();
        Self { child, stdin, stdout, last: 0, early: Vec::new() }
    }

    /// An agent with this name, after the handshake.
    pub async fn start(server: SocketAddr, owner: &str) -> Self {
        Self::with(server, &["--owner", owner]).await
    }

    /// An agent whose program has these arguments, after the handshake.
    pub async fn with(server: SocketAddr, arguments: &[&str]) -> Self {
        let mut client = Self::silent(server, arguments);
        let result = client.shake_hands("2025-06-18").await;
        assert_eq!(result["protocolVersion"], "2025-06-18");
        client
    }

    /// The handshake; returns its result.
    pub async fn shake_hands(&mut self, version: &str) -> Value {
        let info = json!({ "name": "a test", "version": "1" });
        let params = json!({ "protocolVersion": version, "capabilities": {}, "clientInfo": info });
        let answer = self.ask("initialize", params).await;
        self.notify("notifications/initialized", json!({})).await;
        answer["result"].clone()
    }

    pub async fn send(&mut self, line: &str) {
        let stdin = self.stdin.as_mut().expect("it is open");
        stdin.write_all(format!("{line}\n").as_bytes()).await.expect("it reads");
    }

    pub async fn notify(&mut self, method: &str, params: Value) {
        let message = json!({ "jsonrpc": "2.0", "method": method, "params": params });
        self.send(&message.to_string()).await;
    }

    /// Sends a request and does not wait; returns its id.
    pub async fn request(&mut self, method: &str, params: Value) -> u64 {
        self.last += 1;
        let message =
            json!({ "jsonrpc": "2.0", "id": self.last, "method": method, "params": params });
        self.send(&message.to_string()).await;
        self.last
    }

    /// Sends a request and waits for its answer.
    pub async fn ask(&mut self, method: &str, params: Value) -> Value {
        let id = self.request(method, params).await;
        self.answer(id).await
    }

    /// The next line.
    pub async fn receive(&mut self) -> Value {
        let line = soon("an answer", self.stdout.next_line()).await.expect("text");
        let line = line.expect("it goes on");
        assert!(!line.contains("lease_id"), "{line}");
        let message: Value = serde_json::from_str(&line).expect(&line);
        assert_eq!(message["jsonrpc"], "2.0", "{line}");
        message
    }

    /// The answer to the request with this id.
    pub async fn answer(&mut self, id: u64) -> Value {
        loop {
            if let Some(at) = self.early.iter().position(|message| message["id"] == id) {
                return self.early.remove(at);
            }
            let message = self.receive().await;
            self.early.push(message);
        }
    }

    /// Whether this request is answered within this time.
    pub async fn answers_within(&mut self, span: Duration, id: u64) -> bool {
        match tokio::time::timeout(span, self.answer(id)).await {
            Ok(answer) => {
                self.early.push(answer);
                true
            }
            Err(_) => false,
        }
    }

    /// Sends a call of a tool and does not wait; returns its id.
    pub async fn begin(&mut self, tool: &str, arguments: Value) -> u64 {
        self.request("tools/call", json!({ "name": tool, "arguments": arguments })).await
    }

    /// What the tool answered.
    pub async fn told(&mut self, id: u64) -> Told {
        Told::of(&self.answer(id).await)
    }

    /// Calls a tool.
    pub async fn call(&mut self, tool: &str, arguments: Value) -> Told {
        let id = self.begin(tool, arguments).await;
        self.told(id).await
    }

    /// A claim that is to be granted; returns its token.
    pub async fn claim(&mut self, key: &str) -> u64 {
        let told = self.call("claim", json!({ "key": key })).await.done();
        assert_eq!((&told["key"], &told["claimed"]), (&json!(key), &json!(true)));
        told["token"].as_u64().expect("a token")
    }

    pub fn pid(&self) -> u32 {
        self.child.id().expect("it runs")
    }

    /// Closes its input.
    pub fn close(&mut self) {
        self.stdin = None;
    }

    /// Waits for its end. No answer is left that was not awaited.
    pub async fn ended(mut self) -> ExitStatus {
        let rest = soon("the end of its output", self.stdout.next_line()).await.expect("text");
        assert_eq!(rest, None, "nobody asked for this");
        soon("its end", self.child.wait()).await.expect("it is our child")
    }
}

impl Told {
    /// Reads an answer, and checks that text and data say the same.
    pub fn of(answer: &Value) -> Self {
        let result = &answer["result"];
        let data = result["structuredContent"].clone();
        let texts = result["content"].as_array().unwrap_or_else(|| panic!("no result: {answer}"));
        let text = |part: &Value| {
            assert_eq!(part["type"], "text", "{answer}");
            part["text"].as_str().expect("a text").to_owned()
        };
        let mut texts: Vec<String> = texts.iter().map(text).collect();
        let message = texts.remove(0);
        assert_eq!(data["message"], message.as_str());
        let failed = result["isError"].as_bool().expect("a verdict");
        Self { failed, message, data, notices: texts }
    }

    /// The data of a call that was to succeed.
    #[track_caller]
    pub fn done(&self) -> Value {
        assert!(!self.failed, "{self:?}");
        self.data.clone()
    }

    /// The data of a call that was to fail, and whose message has this part.
    #[track_caller]
    pub fn refused(&self, part: &str) -> Value {
        assert!(self.failed && self.message.contains(part), "{self:?}");
        self.data.clone()
    }
}
