//! A client: takes, keeps, gives back and abandons leases, and notes what it was told.

use std::{cell::Cell, io, ops::Deref};

use serde_json::{Value, json};
use tenure::clock::Chance;

use crate::history::{self, Event, Op};

use crate::support::{
    clock::{ms, now},
    dice::Dice as _,
    harness::{Connection, Grant, Reply, Server},
};

/// Keys that all workers contend for; most of them are held when a crash comes, and in their grace
/// after it.
const HOT: u64 = 16;
/// Keys among which they seldom meet.
const KEYS: u64 = 120;
/// How often a server that takes no work yet is asked again.
const STARTING: u32 = 400;

/// What the workers of a lane write down.
#[derive(Debug, Default)]
pub struct Notes {
    notes: history::Notes,
    /// How many calls were answered.
    pub answers: Cell<u64>,
}

impl Deref for Notes {
    type Target = history::Notes;

    fn deref(&self) -> &history::Notes {
        &self.notes
    }
}

impl Notes {
    pub fn push(&self, event: Event) {
        self.log.push(now().0, event);
    }

    fn asks(&self, worker: &str, op: Op, key: &str) -> u64 {
        self.notes.asks(now().0, worker, op, key, None)
    }

    fn told(&self, call: u64, grant: &Grant, until: u64, is_grant: bool) {
        let (worker, key, token) = (owner_of(grant), grant.key.clone(), grant.token);
        let (call, session) = (Some(call), None);
        self.push(Event::Told { call, worker, key, token, until, grant: is_grant, session });
    }

    fn refused(&self, call: u64, answer: &Value) {
        // What became of the call whose answer was lost, this one does not say.
        if answer["code"] == "request-id-spent" {
            self.lost(now().0, call);
        } else {
            self.notes.refused(now().0, call, answer);
        }
    }

    /// The holder's window closes.
    fn shut(&self, grant: &Grant, why: &str) {
        self.notes.shut(now().0, &owner_of(grant), &grant.key, grant.token, why);
    }

    /// The answer, unless it is lost.
    async fn call(
        &self,
        connection: &mut Connection,
        call: u64,
        path: &str,
        body: &Value,
    ) -> io::Result<Reply> {
        for _ in 0..STARTING {
            connection.send("POST", path, &[], body.to_string().as_bytes()).await;
            let reply = connection.try_receive().await;
            let reply = reply.inspect_err(|_| self.lost(now().0, call))?;
            self.answers.set(self.answers.get() + 1);
            // It has begun to listen and not to work, and did nothing.
            if reply.status != 503 || reply.json()["code"] != "draining" {
                return Ok(reply);
            }
            tokio::time::sleep(ms(5)).await;
        }
        panic!("it takes no work");
    }
}

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
    pub async fn work(&mut self, server: &Server, notes: &Notes) {
        // It may have ended already.
        if let Ok(mut connection) = connect(server).await {
            let _ = self.try_work(&mut connection, notes).await;
        }
    }

    async fn try_work(&mut self, connection: &mut Connection, notes: &Notes) -> io::Result<()> {
        if let Some((owner, body)) = self.lost.clone() {
            self.acquire(connection, notes, &owner, body).await?;
            self.lost = None;
        }
        for grant in std::mem::take(&mut self.kept) {
            if beat(connection, notes, &grant).await? {
                self.end(connection, notes, grant).await?;
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
            let granted = self.acquire(connection, notes, &owner, body).await?;
            self.lost = None;
            if let Some(grant) = granted {
                for _ in 0..self.chance.below(3) {
                    beat(connection, notes, &grant).await?;
                }
                self.end(connection, notes, grant).await?;
            }
        }
    }

    async fn acquire(
        &mut self,
        connection: &mut Connection,
        notes: &Notes,
        owner: &str,
        body: Value,
    ) -> io::Result<Option<Grant>> {
        let call = notes.asks(owner, Op::Acquire, body["key"].as_str().expect("a key"));
        let sent = now();
        let reply = notes.call(connection, call, "/v1/acquire", &body).await?;
        if reply.status != 200 {
            assert_eq!(reply.status, 409, "{}", reply.text());
            notes.refused(call, &reply.json());
            return Ok(None);
        }
        let grant = Grant::of(&reply.ok());
        assert_eq!(owner_of(&grant), owner);
        notes.told(call, &grant, (sent + ms(grant.valid_for_ms)).0, true);
        Ok(Some(grant))
    }

    /// Gives it back, keeps it over the next crash, or lets it run out.
    async fn end(
        &mut self,
        connection: &mut Connection,
        notes: &Notes,
        grant: Grant,
    ) -> io::Result<()> {
        match self.chance.below(20) {
            0 => Ok(()),
            1 if self.kept.len() < 2 => {
                self.kept.push(grant);
                Ok(())
            }
            _ => {
                let call = notes.asks(&owner_of(&grant), Op::Release, &grant.key);
                notes.shut(&grant, "released");
                let reply = notes.call(connection, call, "/v1/release", &grant.proof()).await?;
                if reply.ok()["released"] == true {
                    notes.released(now().0, call, &grant.key, grant.token);
                } else {
                    notes.push(Event::Refused { call, why: "over".to_owned() });
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

fn owner_of(grant: &Grant) -> String {
    grant.lease["owner"].as_str().expect("an owner").to_owned()
}

/// Whether it still holds the lease.
async fn beat(connection: &mut Connection, notes: &Notes, grant: &Grant) -> io::Result<bool> {
    let call = notes.asks(&owner_of(grant), Op::Heartbeat, &grant.key);
    let sent = now();
    let reply = notes.call(connection, call, "/v1/heartbeat", &grant.proof()).await?;
    if reply.status == 200 {
        let body = reply.json();
        assert_eq!(body["token"], grant.token);
        let valid = body["valid_for_ms"].as_u64().expect("valid_for_ms");
        notes.told(call, grant, (sent + ms(valid)).0, false);
        return Ok(true);
    }
    let lost = reply.problem(409, "lease-lost");
    // A key remembers its last tenure only.
    assert!(["expired", "unknown-lease"].contains(&lost["reason"].as_str().expect("a reason")));
    notes.refused(call, &lost);
    notes.shut(grant, "lost");
    Ok(false)
}
