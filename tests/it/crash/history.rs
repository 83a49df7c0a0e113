//! What the clients were told, what the store says, and whether the two fit.
//!
//! I1: windows of different tokens of a key never overlap. I2: tokens rise. I3: an acknowledged grant
//! or release survives. I4: `seq` has no hole. And R10: after a restart every held lease has a whole
//! ttl.

use std::{
    collections::HashMap,
    fmt,
    time::{Duration, Instant},
};

use serde_json::Value;

use crate::support::harness::Grant;

/// A span in which a client believed that it held the key.
#[derive(Clone, Copy, Debug)]
struct Window {
    token: u64,
    from: Instant,
    until: Instant,
}

/// What is known of one key.
#[derive(Debug, Default)]
struct KeyHistory {
    windows: Vec<Window>,
    /// Acknowledged grants and releases that the store has not been seen to have yet.
    granted: Vec<(u64, String)>,
    released: Vec<u64>,
    /// From the events.
    seq: u64,
    token: u64,
    tokens: HashMap<u64, String>,
    ended: HashMap<u64, String>,
    /// Those of them that ended while the leases were listed.
    ended_late: Vec<u64>,
    /// The lease that stood at the last restart: its token, and when its grace ends.
    inherited: Option<(u64, Instant)>,
    /// Tokens whose holder consented to their end, or heard of it.
    given_back: Vec<u64>,
    /// The highest token that a client was told.
    highest: u64,
}

/// How an acquire ended, as far as its client knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    InDoubt,
    Refused,
    Granted,
}

#[derive(Debug, Default)]
pub struct History {
    keys: HashMap<String, KeyHistory>,
    asked: HashMap<String, Asked>,
    pub counts: Counts,
    /// How many calls were answered.
    pub answers: u64,
}

/// What was seen.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    grants: u64,
    releases: u64,
    events: u64,
    kept: u64,
    stood: u64,
    graces: u64,
}

impl Counts {
    pub fn add(&mut self, other: Self) {
        self.grants += other.grants;
        self.releases += other.releases;
        self.events += other.events;
        self.kept += other.kept;
        self.stood += other.stood;
        self.graces += other.graces;
    }

    /// It was not nothing.
    pub fn is_load(&self) -> bool {
        self.grants > 0 && self.releases > 0 && self.events > 0 && self.stood > 0
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { grants, releases, events, kept, stood, graces } = self;
        write!(
            f,
            "{grants} grants, {releases} releases, {events} events, {stood} leases stood at a \
             restart, {kept} were kept on, {graces} were taken after their grace"
        )
    }
}

impl History {
    fn key(&mut self, grant: &Grant) -> &mut KeyHistory {
        self.keys.entry(grant.key.clone()).or_default()
    }

    pub fn asked(&mut self, owner: &str) {
        self.asked.insert(owner.to_owned(), Asked::InDoubt);
    }

    /// The answer was no; or that the grant of an answer that was lost is over.
    pub fn refused(&mut self, owner: &str, spent: bool) {
        let how = if spent { Asked::InDoubt } else { Asked::Refused };
        self.asked.insert(owner.to_owned(), how);
    }

    /// A grant, a grant repeated, or a heartbeat: the client holds the key from `told` to `until`.
    pub fn granted(&mut self, grant: &Grant, told: Instant, until: Instant) {
        let owner = grant.lease["owner"].as_str().expect("an owner").to_owned();
        self.asked.insert(owner.clone(), Asked::Granted);
        let key = self.key(grant);
        key.highest = key.highest.max(grant.token);
        if let Some(window) = key.windows.last_mut()
            && window.token == grant.token
            && told <= window.until
        {
            window.until = window.until.max(until);
            return;
        }
        if !key.windows.iter().any(|window| window.token == grant.token) {
            key.granted.push((grant.token, owner));
        }
        key.windows.push(Window { token: grant.token, from: told, until });
        let due = key.inherited.filter(|(token, _)| *token != grant.token);
        let consented = due.is_some_and(|(token, _)| key.given_back.contains(&token));
        if let Some((token, grace)) = due
            && !consented
        {
            let early = grace.saturating_duration_since(told);
            assert!(early.is_zero(), "{}: {token} had {early:?} of its grace left", grant.key);
        }
        let seen = u64::from(due.is_some() && !consented);
        key.inherited = key.inherited.filter(|(token, _)| *token == grant.token);
        self.counts.grants += 1;
        self.counts.graces += seen;
    }

    /// The holder's window closes: it sends a release, or heard that it lost the lease.
    pub fn gives_back(&mut self, grant: &Grant) {
        let now = Instant::now();
        let key = self.key(grant);
        key.given_back.push(grant.token);
        for window in key.windows.iter_mut().filter(|window| window.token == grant.token) {
            window.until = window.until.min(now);
        }
    }

    pub fn released(&mut self, grant: &Grant) {
        self.key(grant).released.push(grant.token);
        self.counts.releases += 1;
    }

    /// The first heartbeat after a crash, of a lease that was held before it.
    pub fn kept_over_a_crash(&mut self, grant: &Grant, alive: bool, within_grace: bool) {
        let key = self.key(grant);
        let stood = key.inherited.is_some_and(|(token, _)| token == grant.token);
        assert!(alive || !stood || !within_grace, "{grant:?} was lost in its grace");
        self.counts.kept += u64::from(alive);
    }

    /// Changes, in the order in which the store has them.
    pub fn read(&mut self, events: &[Value], after_the_list: bool) {
        for event in events {
            let data = &event["data"];
            let kind = event["type"].as_str().expect("type").rsplit('.').next().expect("short");
            let key = self.keys.entry(text(&data["key"])).or_default();
            assert_eq!(data["seq"], key.seq + 1, "a hole in {event}");
            key.seq += 1;
            self.counts.events += 1;
            let token = data["token"].as_u64().expect("token");
            if kind != "granted" {
                let token = data["previous"]["token"].as_u64().expect("token");
                key.ended.insert(token, kind.to_owned());
                if after_the_list {
                    key.ended_late.push(token);
                }
                continue;
            }
            let owner = text(&data["owner"]);
            if data["reason"] == "revived" {
                assert_eq!(key.token, token, "only the last tenure is revived: {event}");
                key.ended.remove(&token);
            } else {
                assert!(token > key.token, "{event} is not above {}", key.token);
                key.token = token;
                key.tokens.insert(token, owner.clone());
            }
            let asked = self.asked.get(&owner);
            assert!(
                matches!(asked, Some(Asked::InDoubt | Asked::Granted)),
                "{owner} was told {asked:?}, and the store says {event}"
            );
        }
    }

    /// After a restart: everything acknowledged is in the store.
    pub fn restarted(&mut self, started: Instant, leases: &[Value]) {
        for (name, key) in &mut self.keys {
            for (token, owner) in key.granted.drain(..) {
                let there = key.tokens.get(&token);
                assert_eq!(there, Some(&owner), "{name}: the grant of {token} is missing");
            }
            for token in key.released.drain(..) {
                let how = key.ended.get(&token).map(String::as_str);
                assert_eq!(how, Some("released"), "{name}: the release of {token} is missing");
            }
            assert!(key.token >= key.highest, "{name}: a token was forgotten");
            key.inherited = None;
        }
        for lease in leases {
            let key = self.keys.entry(text(&lease["key"])).or_default();
            let token = lease["token"].as_u64().expect("token");
            assert!(token >= key.token, "{lease}: tokens went back");
            let ended = key.ended.contains_key(&token);
            if lease["state"] == "held" {
                // It ends while it is looked at: the change is there a moment before the list has it. One
                // whose end was lost would have been given a whole ttl.
                let ends_now = lease["expires_in_ms"] == 0;
                let known = !ended || ends_now || key.ended_late.contains(&token);
                assert!(known, "{lease} has ended");
                let ttl = Duration::from_millis(lease["ttl_ms"].as_u64().expect("ttl_ms"));
                key.inherited = Some((token, started + ttl));
                self.counts.stood += 1;
            } else if !ended && key.tokens.contains_key(&token) {
                panic!("{lease} was granted, has no end, and is not held");
            }
            key.ended_late.clear();
        }
    }

    /// I1 and I2 over all that the clients believed, and forgets what cannot matter any more.
    pub fn check(&mut self, cycle: u64) {
        for (name, key) in &mut self.keys {
            key.windows.sort_by_key(|window| window.from);
            for pair in key.windows.windows(2) {
                let (first, then) = (pair[0], pair[1]);
                assert!(first.token <= then.token, "cycle {cycle}, {name}: {first:?} {then:?}");
                let overlap = first.until.saturating_duration_since(then.from);
                let same = first.token == then.token;
                assert!(
                    same || overlap.is_zero(),
                    "cycle {cycle}, {name}: two held it for {overlap:?}: {first:?} {then:?}"
                );
            }
            let keep = key.windows.len().saturating_sub(8);
            key.windows.drain(..keep);
        }
    }
}

fn text(value: &Value) -> String {
    value.as_str().expect("text").to_owned()
}
