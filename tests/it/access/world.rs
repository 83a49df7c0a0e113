//! A coordinator whose callers know everything that is public, and what the model says of each call.

use std::{collections::HashSet, fmt::Debug};

use serde_json::{Value, json};
use tenure::clock::Chance;

use super::{
    cast::Guarded,
    rights::{Rights, State, may},
};
use crate::support::{
    dice::Dice,
    harness::{Connection, Reply},
};

pub const KEYS: [&str; 6] = ["a/1", "a/2", "ab/1", "b/1", "b/a/1", "c"];
pub const OWNERS: [&str; 4] = ["w", "w-1", "x-1", "y"];
/// What a call for several keys names, the right that it needs, and the pool, if it names one.
pub const RANGES: [(&str, Option<&str>); 5] =
    [("a/", Some("pool-a")), ("b/", Some("pool-b")), ("a", None), ("b/", None), ("c", None)];
/// So many request ids, which everybody uses.
const REQUESTS: usize = 30;

/// The value of a key, which only this key has.
fn value_of(key: &str) -> String {
    format!("value of {key};")
}

/// A session, and to whom its id was told.
pub struct Session {
    pub by: usize,
    pub id: String,
    pub digest: String,
    pub is_open: bool,
}

pub struct World {
    pub guarded: Guarded,
    pub cast: Vec<Rights>,
    connection: Connection,
    pub states: Vec<State>,
    /// The keys that have a record.
    pub known: Vec<bool>,
    /// Every lease id, and to whom it was told.
    pub told: Vec<(usize, String)>,
    pub sessions: Vec<Session>,
    /// Which principal has used which request id.
    used: HashSet<(usize, usize)>,
    pub carried_out: usize,
    /// Who calls.
    pub at: usize,
}

/// What a call came to that was to come to something else.
pub fn differs(what: &str, reply: &Reply, expected: &dyn Debug) -> Result<(), String> {
    Err(format!("{what}: {} {}, and not {expected:?}", reply.status, reply.text()))
}

impl World {
    pub async fn new(guarded: Guarded, cast: Vec<Rights>) -> Self {
        Self {
            connection: Connection::open(guarded.server.addr).await,
            guarded,
            cast,
            states: vec![State::Free; KEYS.len()],
            known: vec![false; KEYS.len()],
            told: Vec::new(),
            sessions: Vec::new(),
            used: HashSet::new(),
            carried_out: 0,
            at: 0,
        }
    }

    pub fn who(&self) -> &Rights {
        &self.cast[self.at]
    }

    /// A call, by whoever is at it. `Err`: the answer has an id that another principal was told, or the value of a key
    /// that the caller neither may read nor was granted or checked by this call: those are in `about`.
    pub async fn ask(
        &mut self,
        method: &str,
        path: &str,
        body: &Value,
        about: &[&str],
    ) -> Result<Reply, String> {
        let name = &self.cast[self.at].name;
        let reply = super::cast::call(&mut self.connection, name, method, path, body).await;
        let text = reply.text();
        let leases = self.told.iter().map(|(to, id)| (*to, id));
        let mut ids = leases.chain(self.sessions.iter().map(|session| (session.by, &session.id)));
        if ids.any(|(to, id)| to != self.at && text.contains(id.as_str())) {
            return Err(format!("{name} is told another's id by {method} {path} {body}: {text}"));
        }
        let about = if reply.status == 200 { about } else { &[] };
        let hidden = |key: &&str| !may(&self.who().read, key) && !about.contains(key);
        if KEYS.into_iter().filter(|key| hidden(key)).any(|key| text.contains(&value_of(key))) {
            return Err(format!("{name} is told a value by {method} {path} {body}: {text}"));
        }
        Ok(reply)
    }

    /// One random call.
    pub async fn step(&mut self, dice: &mut Chance) -> Result<(), String> {
        self.at = dice.index(self.cast.len());
        let done = match dice.index(40) {
            0..12 => self.acquire(dice).await,
            12..16 => self.acquire_any(dice).await,
            16..28 if !self.told.is_empty() => self.show_lease_id(dice).await,
            28..30 => self.open_session(dice).await,
            30..33 if !self.sessions.is_empty() => self.show_session_id(dice).await,
            33..39 => self.read(dice).await,
            39 => self.read_events().await,
            _ => Ok(()),
        };
        done.map_err(|how| format!("{}: {how}", self.who().name))
    }

    fn granted(&mut self, on: usize, owner: &'static str, grant: &Value) {
        let lease_id = grant["lease_id"].as_str().expect("lease_id").to_owned();
        let token = grant["token"].as_u64().expect("a token");
        self.told.push((self.at, lease_id.clone()));
        self.states[on] = State::Held { by: self.at, owner, lease_id, token };
        self.known[on] = true;
        self.carried_out += 1;
    }

    async fn acquire(&mut self, dice: &mut Chance) -> Result<(), String> {
        let (at, on, owner) = (self.at, dice.index(KEYS.len()), OWNERS[dice.index(OWNERS.len())]);
        let (key, reclaim) = (KEYS[on], dice.index(2) == 0);
        let mut body = json!({ "key": key, "owner": owner, "ttl_ms": 600_000, "reclaim": reclaim,
                               "value": value_of(key) });
        let mut repeats = false;
        if dice.index(3) == 0 {
            let request = dice.index(REQUESTS);
            body["request_id"] = format!("r{request}").into();
            repeats = !self.used.insert((at, request));
        }
        let (may, open) =
            (self.who().may_acquire(&[key], owner), self.states[on].is_open(at, owner, reclaim));
        let anothers = !self.sessions.is_empty() && dice.index(8) == 0;
        if anothers {
            // Under a session of another principal, whatever the key is.
            let session = &self.sessions[dice.index(self.sessions.len())];
            if session.by == at {
                return Ok(());
            }
            body["session"] = session.id.clone().into();
            body.as_object_mut().expect("an object").remove("ttl_ms");
        }
        let expected = if !may {
            403
        } else if open && !anothers {
            200
        } else {
            409
        };
        let reply = self.ask("POST", "/v1/acquire", &body, &[key]).await?;
        // A principal may repeat its own request: the model leaves those out, whatever comes of them.
        let own = repeats && may && !anothers && [200, 409, 422].contains(&reply.status);
        if reply.status != expected && !own {
            return differs(&format!("acquire {body}"), &reply, &expected);
        }
        if reply.status == 200 {
            self.granted(on, owner, &reply.json());
        }
        Ok(())
    }

    async fn acquire_any(&mut self, dice: &mut Chance) -> Result<(), String> {
        let owner = OWNERS[dice.index(OWNERS.len())];
        let mut body = json!({ "owner": owner, "ttl_ms": 600_000, "count": 1 });
        let (one, other) = (dice.index(KEYS.len()), dice.index(KEYS.len()));
        let (candidates, may): (Vec<usize>, bool) = if one != other && dice.index(2) == 0 {
            body["keys"] = json!([KEYS[one], KEYS[other]]);
            (vec![one, other], self.who().may_acquire(&[KEYS[one], KEYS[other]], owner))
        } else {
            let (prefix, pool) = RANGES[dice.index(RANGES.len())];
            match pool {
                Some(pool) => body["pool"] = pool.into(),
                None => body["prefix"] = prefix.into(),
            }
            let found = |at: &usize| self.known[*at] && KEYS[*at].starts_with(prefix);
            ((0..KEYS.len()).filter(found).collect(), self.who().may_acquire_under(prefix, owner))
        };
        let open = |on: &&usize| self.states[**on].is_open(self.at, owner, false);
        let open: Vec<usize> = candidates.iter().filter(open).copied().collect();
        let is_sure = open.iter().any(|on| matches!(self.states[*on], State::Free));
        let about: Vec<&str> = open.iter().map(|on| KEYS[*on]).collect();
        let reply = self.ask("POST", "/v1/acquire-any", &body, &about).await?;
        let fits = match reply.status {
            200 => may && !open.is_empty(),
            // A call by prefix or pool need not find a key that is offered.
            409 => may && !is_sure,
            400 => self.is_hidden(&body),
            status => status == 403 && !may && !self.is_hidden(&body),
        };
        if !fits {
            return differs(&format!("acquire-any {body}"), &reply, &(may, about));
        }
        if reply.status == 200 {
            let grants = reply.json()["grants"].as_array().expect("grants").clone();
            let on = open.into_iter().find(|on| grants[0]["key"] == KEYS[*on]);
            let Some(on) = on.filter(|_| grants.len() == 1) else {
                return differs("acquire-any", &reply, &about);
            };
            self.granted(on, owner, &grants[0]);
        }
        Ok(())
    }

    /// Whether a call names a pool of which the caller may neither read nor hold a key, though it may hold others.
    pub fn is_hidden(&self, body: &Value) -> bool {
        let Some(pool) = body["pool"].as_str() else { return false };
        let Some((prefix, _)) = RANGES.iter().find(|range| range.1 == Some(pool)) else {
            return false;
        };
        let mut rights = self.who().hold.iter().chain(&self.who().read);
        !self.who().hold.is_empty()
            && !rights.any(|right| {
                let start = right.strip_prefix('=').unwrap_or(right);
                start.starts_with(prefix) || prefix.starts_with(right)
            })
    }

    /// A call that shows a lease id: that of the key, or any that anybody was told.
    async fn show_lease_id(&mut self, dice: &mut Chance) -> Result<(), String> {
        let on = dice.index(KEYS.len());
        let key = KEYS[on];
        let lease_id = match &self.states[on] {
            State::Held { lease_id, .. } if dice.index(2) == 0 => lease_id.clone(),
            _ => self.told[dice.index(self.told.len())].1.clone(),
        };
        let expected = may(&self.who().hold, key) && self.states[on].is_proven(self.at, &lease_id);
        let proof = json!({ "key": key, "lease_id": lease_id });
        let batch = json!({ "leases": [proof] });
        let to = OWNERS[dice.index(OWNERS.len())];
        let mut offer = proof.clone();
        (offer["to"], offer["offer_ms"]) = (to.into(), 600_000.into());
        let (path, body, then) = match dice.index(7) {
            0 | 1 => ("/v1/heartbeat", proof, None),
            2 => ("/v1/heartbeats", batch, None),
            3 => ("/v1/release", proof, Some(State::Free)),
            4 => ("/v1/releases", batch, Some(State::Free)),
            5 => ("/v1/transfer", proof, Some(State::Free)),
            _ => ("/v1/transfer", offer, Some(State::Offered(to))),
        };
        let reply = self.ask("POST", path, &body, &[]).await?;
        let answer = reply.json();
        let answer = if answer["results"].is_array() { &answer["results"][0] } else { &answer };
        let status = answer["status"].as_u64().unwrap_or(u64::from(reply.status));
        let done = status == 200 && answer["released"] != false;
        if done != expected {
            return differs(&format!("{path} {body}"), &reply, &expected);
        }
        if done {
            self.carried_out += 1;
            if let Some(then) = then {
                self.states[on] = then;
            }
        }
        Ok(())
    }

    /// What anybody reads of all keys since the beginning.
    pub async fn history(&self, token: &str) -> Vec<Value> {
        let (mut events, mut after) = (Vec::new(), self.guarded.server_cursor("all").await);
        loop {
            let path = format!("/v1/events?format=json&after={after}");
            let page = self.guarded.get(token, &path).await.ok();
            assert_eq!(page["reset"], false, "the whole history is kept");
            let more = page["events"].as_array().expect("events").clone();
            after = page["next"].as_str().expect("next").to_owned();
            if more.is_empty() {
                return events;
            }
            events.extend(more);
        }
    }
}
