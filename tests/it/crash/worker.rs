//! A client: takes, keeps, gives back and abandons leases, and notes what it was told.

use std::{
    cell::RefCell,
    io,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::crash::{Chance, history::History};

use crate::support::harness::{Connection, Grant, Reply, Server};

/// Keys that all workers contend for; most of them are held when a crash comes, and in their grace
/// after it.
const HOT: u64 = 16;
/// Keys among which they seldom meet.
const KEYS: u64 = 120;
/// How often a server that takes no work yet is asked again.
const STARTING: u32 = 400;

/// A worker, over all cycles.
#[derive(Debug)]
pub struct Worker {
    name: usize,
    chance: Chance,
    attempts: u64,
    /// An acquire with a request id whose answer was lost.
    lost: Option<(String, Value)>,
    /// Leases that it keeps over a crash.
    kept: Vec<Grant>,
}

impl Worker {
    pub fn new(name: usize, seed: u64) -> Self {
        Self { name, chance: Chance::new(seed), attempts: 0, lost: None, kept: Vec::new() }
    }

    /// Works until the connection breaks.
    pub async fn work(&mut self, server: &Server, history: &RefCell<History>) {
        // It may have ended already.
        if let Ok(mut connection) = connect(server).await {
            let _ = self.try_work(server, &mut connection, history).await;
        }
    }

    async fn try_work(
        &mut self,
        server: &Server,
        connection: &mut Connection,
        history: &RefCell<History>,
    ) -> io::Result<()> {
        if let Some((owner, body)) = self.lost.clone() {
            self.acquire(connection, history, &owner, body).await?;
            self.lost = None;
        }
        for grant in std::mem::take(&mut self.kept) {
            let (reply, told) = beat(connection, history, &grant).await?;
            let whole = told.duration_since(server.started) < ttl_of(&grant);
            history.borrow_mut().kept_over_a_crash(&grant, reply.status == 200, whole);
            if reply.status == 200 {
                self.end(connection, history, grant).await?;
            }
        }
        loop {
            self.attempts += 1;
            let owner = format!("w{}-{}", self.name, self.attempts);
            let among = if self.chance.below(4) == 0 { HOT } else { KEYS };
            let mut body = json!({
                "key": format!("k{}", self.chance.below(among)),
                "owner": owner,
                "ttl_ms": 300 + self.chance.below(300),
            });
            if self.chance.below(2) == 0 {
                body["request_id"] = json!(owner);
            }
            if self.chance.below(3) == 0 {
                body["wait_ms"] = json!(40);
            }
            if body.get("request_id").is_some() {
                self.lost = Some((owner.clone(), body.clone()));
            }
            let granted = self.acquire(connection, history, &owner, body).await?;
            self.lost = None;
            if let Some(grant) = granted {
                for _ in 0..self.chance.below(3) {
                    beat(connection, history, &grant).await?;
                }
                self.end(connection, history, grant).await?;
            }
        }
    }

    async fn acquire(
        &mut self,
        connection: &mut Connection,
        history: &RefCell<History>,
        owner: &str,
        body: Value,
    ) -> io::Result<Option<Grant>> {
        history.borrow_mut().asked(owner);
        let sent = Instant::now();
        let reply = call(connection, history, "/v1/acquire", &body).await?;
        let told = Instant::now();
        if reply.status != 200 {
            assert_eq!(reply.status, 409, "{}", reply.text());
            let spent = reply.json()["code"] == "request-id-spent";
            history.borrow_mut().refused(owner, spent);
            return Ok(None);
        }
        let grant = Grant::of(&reply.ok());
        let until = sent + Duration::from_millis(grant.valid_for_ms);
        history.borrow_mut().granted(&grant, told, until);
        Ok(Some(grant))
    }

    /// Gives it back, keeps it over the next crash, or lets it run out.
    async fn end(
        &mut self,
        connection: &mut Connection,
        history: &RefCell<History>,
        grant: Grant,
    ) -> io::Result<()> {
        match self.chance.below(20) {
            0 => Ok(()),
            1 if self.kept.len() < 2 => {
                self.kept.push(grant);
                Ok(())
            }
            _ => {
                history.borrow_mut().gives_back(&grant);
                let reply = call(connection, history, "/v1/release", &grant.proof()).await?;
                if reply.ok()["released"] == true {
                    history.borrow_mut().released(&grant);
                }
                Ok(())
            }
        }
    }
}

/// An error when it has ended.
pub async fn connect(server: &Server) -> io::Result<Connection> {
    Ok(Connection::over(tokio::net::TcpStream::connect(server.addr).await?))
}

pub fn ttl_of(grant: &Grant) -> Duration {
    Duration::from_millis(grant.lease["ttl_ms"].as_u64().expect("ttl_ms"))
}

async fn beat(
    connection: &mut Connection,
    history: &RefCell<History>,
    grant: &Grant,
) -> io::Result<(Reply, Instant)> {
    let sent = Instant::now();
    let reply = call(connection, history, "/v1/heartbeat", &grant.proof()).await?;
    let told = Instant::now();
    if reply.status == 200 {
        let body = reply.json();
        assert_eq!(body["token"], grant.token);
        let valid = body["valid_for_ms"].as_u64().expect("valid_for_ms");
        history.borrow_mut().granted(grant, told, sent + Duration::from_millis(valid));
    } else {
        let lost = reply.problem(409, "lease-lost");
        // A key remembers its last tenure only.
        assert!(["expired", "unknown-lease"].contains(&lost["reason"].as_str().expect("a reason")));
        history.borrow_mut().gives_back(grant);
    }
    Ok((reply, told))
}

async fn call(
    connection: &mut Connection,
    history: &RefCell<History>,
    path: &str,
    body: &Value,
) -> io::Result<Reply> {
    for _ in 0..STARTING {
        connection.send("POST", path, &[], body.to_string().as_bytes()).await;
        let reply = connection.try_receive().await?;
        history.borrow_mut().answers += 1;
        // It has begun to listen and not to work, and did nothing.
        if reply.status != 503 || reply.json()["code"] != "draining" {
            return Ok(reply);
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("it takes no work");
}
