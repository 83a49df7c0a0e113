//! What the callers of a [`World`] ask that changes no lease: sessions, lists, checks and events.

use serde_json::{Value, json};
use tenure::clock::Chance;

use super::{
    rights::{State, may, may_all_of},
    world::{KEYS, OWNERS, RANGES, Session, World, differs},
};
use crate::support::{dice::Dice, harness::Reply};

/// A page of a list: its names, and where the next page begins.
type Page = (Vec<String>, Option<String>);

impl World {
    pub async fn open_session(&mut self, dice: &mut Chance) -> Result<(), String> {
        let owner = OWNERS[dice.index(OWNERS.len())];
        let mut body = json!({ "owner": owner, "ttl_ms": 600_000 });
        let mut needs = None;
        if let (prefix, Some(pool)) = RANGES[dice.index(RANGES.len())] {
            body["pool"] = pool.into();
            needs = Some(prefix);
        }
        let expected = !self.who().hold.is_empty()
            && needs.map_or_else(
                || self.who().acts_as(owner),
                |prefix| self.who().may_acquire_under(prefix, owner),
            );
        let reply = self.ask("POST", "/v1/sessions", &body, &[]).await?;
        let fits = match reply.status {
            201 => expected,
            400 => self.who().acts_as(owner) && self.is_hidden(&body),
            status => status == 403 && !expected,
        };
        if !fits {
            return differs(&format!("open a session {body}"), &reply, &expected);
        }
        if expected {
            let opened = reply.json();
            let text = |name: &str| opened[name].as_str().expect(name).to_owned();
            let (id, digest) = (text("id"), text("digest"));
            self.sessions.push(Session { by: self.at, id, digest, is_open: true });
        }
        Ok(())
    }

    /// A call that shows a session id that anybody was told.
    pub async fn show_session_id(&mut self, dice: &mut Chance) -> Result<(), String> {
        let on = dice.index(self.sessions.len());
        let Session { by, id, is_open, .. } = &self.sessions[on];
        let is_own = *by == self.at;
        let expected = is_own && *is_open && !self.who().hold.is_empty();
        let path = format!("/v1/sessions/{id}");
        // Nobody drains a session of its own: it would end at some time.
        let (method, path, ends) = match dice.index(4) {
            0 | 1 => ("POST", format!("{path}/heartbeat"), false),
            2 if !is_own => ("POST", format!("{path}/drain"), false),
            _ => ("DELETE", path, true),
        };
        let body = if ends { Value::Null } else { json!({}) };
        let reply = self.ask(method, &path, &body, &[]).await?;
        let done = reply.status == 200 && reply.json()["destroyed"] != false;
        if done != expected || (reply.status == 403) != self.who().hold.is_empty() {
            return differs(&format!("{method} {path}"), &reply, &expected);
        }
        if done && ends {
            self.sessions[on].is_open = false;
        }
        Ok(())
    }

    /// A call that reads.
    pub async fn read(&mut self, dice: &mut Chance) -> Result<(), String> {
        let on = dice.index(KEYS.len());
        match dice.index(9) {
            0 => self.list_page_by_page().await,
            1 => {
                let all = self.readable(|key, _| key > KEYS[on]);
                let path = format!("/v1/leases?limit=2&after={}", KEYS[on]);
                let expected: Vec<_> = all.into_iter().take(2).collect();
                self.lists(&path, &expected).await
            }
            2 => {
                let owner = OWNERS[dice.index(OWNERS.len())];
                let holds =
                    |state: &State| matches!(state, State::Held { owner: by, .. } if *by == owner);
                let expected = self.readable(|_, state| holds(state));
                self.lists(&format!("/v1/leases?owner={owner}"), &expected).await
            }
            3 => {
                let is_readable = may(&self.who().read, KEYS[on]);
                self.gets(&format!("/v1/leases/{}", KEYS[on]), &[], is_readable, self.known[on])
                    .await
            }
            4 => {
                let is_checked = may(&self.who().check, KEYS[on]);
                let path = format!("/v1/leases/{}?gate=1", KEYS[on]);
                self.gets(&path, &[KEYS[on]], is_checked, self.known[on]).await
            }
            5 => self.check(on, dice).await,
            6 => self.list_sessions().await,
            7 if !self.sessions.is_empty() => {
                let Session { by, digest, is_open, .. } =
                    &self.sessions[dice.index(self.sessions.len())];
                let is_there = *by == self.at && *is_open;
                let path = format!("/v1/sessions/{digest}");
                self.gets(&path, &[], !self.who().read.is_empty(), is_there).await
            }
            _ => self.pools().await,
        }
    }

    /// The known keys that the caller may read and that fit, in order.
    fn readable(&self, fits: impl Fn(&str, &State) -> bool) -> Vec<String> {
        let known = (0..KEYS.len()).filter(|on| self.known[*on]);
        let is_shown =
            |on: &usize| may(&self.who().read, KEYS[*on]) && fits(KEYS[*on], &self.states[*on]);
        let mut keys: Vec<String> = known.filter(is_shown).map(|on| KEYS[on].to_owned()).collect();
        keys.sort_unstable();
        keys
    }

    /// A call about one thing.
    async fn gets(
        &mut self,
        path: &str,
        about: &[&str],
        allowed: bool,
        is_there: bool,
    ) -> Result<(), String> {
        let expected = if !allowed {
            403
        } else if is_there {
            200
        } else {
            404
        };
        let reply = self.ask("GET", path, &Value::Null, about).await?;
        if reply.status == expected { Ok(()) } else { differs(path, &reply, &expected) }
    }

    /// A page of `kind`; `None` if the caller may read nothing, and is told so.
    async fn page(&mut self, path: &str, kind: &str, name: &str) -> Result<Option<Page>, String> {
        let reply = self.ask("GET", path, &Value::Null, &[]).await?;
        let expected = if self.who().read.is_empty() { 403 } else { 200 };
        if reply.status != expected {
            return differs(path, &reply, &expected).map(|()| None);
        }
        Ok((expected == 200).then(|| read_page(&reply, kind, name)))
    }

    async fn lists(&mut self, path: &str, expected: &[String]) -> Result<(), String> {
        match self.page(path, "leases", "key").await? {
            Some((keys, _)) if keys != expected => {
                Err(format!("{path} has {keys:?}, and not {expected:?}"))
            }
            _ => Ok(()),
        }
    }

    /// All pages but the last are full, and none names anything else.
    async fn list_page_by_page(&mut self) -> Result<(), String> {
        let (mut keys, mut after) = (Vec::new(), String::new());
        loop {
            let path = format!("/v1/leases?limit=2{after}");
            let Some((page, next)) = self.page(&path, "leases", "key").await? else {
                return Ok(());
            };
            let is_full = page.len() == 2;
            keys.extend(page);
            let Some(next) = next else { break };
            if !is_full || !may(&self.who().read, &next) {
                return Err(format!("{path} ends at {next} after {keys:?}"));
            }
            after = format!("&after={next}");
        }
        let expected = self.readable(|_, _| true);
        if keys == expected { Ok(()) } else { Err(format!("lists {keys:?}, and not {expected:?}")) }
    }

    /// A caller that may not read all keys sees its own sessions.
    async fn list_sessions(&mut self) -> Result<(), String> {
        let own = self.sessions.iter().filter(|session| session.by == self.at && session.is_open);
        let mut expected: Vec<String> = own.map(|session| session.digest.clone()).collect();
        expected.sort_unstable();
        let (mut found, mut after) = (Vec::new(), String::new());
        loop {
            let path = format!("/v1/sessions?limit=1{after}");
            let page = self.page(&path, "sessions", "digest").await?;
            let Some((page, next)) = page else { return Ok(()) };
            found.extend(page);
            let Some(next) = next else { break };
            if !expected.contains(&next) {
                return Err(format!("{path} ends at {next}, and its own are {expected:?}"));
            }
            after = format!("&after={next}");
        }
        found.sort_unstable();
        if found == expected { Ok(()) } else { Err(format!("sees {found:?}, not {expected:?}")) }
    }

    async fn check(&mut self, on: usize, dice: &mut Chance) -> Result<(), String> {
        let (held, token) = match &self.states[on] {
            State::Held { token, .. } => (true, *token),
            _ => (false, 1),
        };
        let is_right = dice.index(2) == 0;
        let body = json!({ "key": KEYS[on], "token": token + u64::from(!is_right) });
        let expected = may(&self.who().check, KEYS[on]).then_some(held && is_right);
        let reply = self.ask("POST", "/v1/check", &body, &[KEYS[on]]).await?;
        let told = if reply.status == 200 { reply.json()["current"].as_bool() } else { None };
        let fits = told == expected && (reply.status == 403) == expected.is_none();
        if fits { Ok(()) } else { differs(&format!("check {body}"), &reply, &expected) }
    }

    /// A pool is shown to whoever reads all its keys.
    async fn pools(&mut self) -> Result<(), String> {
        let pools = RANGES.into_iter().filter_map(|(prefix, pool)| Some((prefix, pool?)));
        let pools: Vec<(&str, &str)> = pools.collect();
        let reads = !self.who().read.is_empty();
        for (prefix, pool) in &pools {
            let is_shown = may_all_of(&self.who().read, prefix);
            self.gets(&format!("/v1/pools/{pool}"), &[], reads, is_shown).await?;
        }
        let shown = pools.iter().filter(|(prefix, _)| may_all_of(&self.who().read, prefix));
        let expected: Vec<String> = shown.map(|(_, pool)| (*pool).to_owned()).collect();
        let Some((mut found, _)) = self.page("/v1/pools", "pools", "pool").await? else {
            return Ok(());
        };
        found.sort_unstable();
        if found == expected { Ok(()) } else { Err(format!("sees the pools {found:?}")) }
    }

    /// The history has what the caller may read, and nothing else.
    pub async fn read_events(&mut self) -> Result<(), String> {
        let name = self.who().name.clone();
        if self.who().read.is_empty() {
            return self.gets("/v1/events?format=json&after=0", &[], false, true).await;
        }
        let mut expected = self.history("all").await;
        expected.retain(|event| may(&self.who().read, event["subject"].as_str().expect("a key")));
        let found = self.history(&name).await;
        let strange = found.iter().find(|event| !expected.contains(event));
        if found == expected { Ok(()) } else { Err(format!("its history differs: {strange:?}")) }
    }
}

fn read_page(reply: &Reply, kind: &str, name: &str) -> Page {
    let page = reply.json();
    let entries = page[kind].as_array().expect("a list").iter();
    let names = entries.map(|entry| entry[name].as_str().expect("a name").to_owned());
    (names.collect(), page["next"].as_str().map(str::to_owned))
}
