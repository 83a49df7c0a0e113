//! What a simulated pool must hold: its orders, its guard, its versions, its preparations, and its loads.
//!
//! A node may act for a while on what it knew before, so a rule is judged only where what it depends on had been stored
//! for [`UNHEARD`], and no fault kept a node from reading it.

use std::collections::{BTreeMap, BTreeSet};

use tenure::lease::{PoolControls, compare_versions};

use super::{
    history::{Event, Line},
    rules::{Breach, UNHEARD, World},
    time::MS,
};

/// How a clock may differ from another one, in percent.
const DRIFT: u64 = 2;

#[derive(Clone, Debug)]
struct Member<'a> {
    owner: &'a str,
    version: Option<&'a str>,
    weight: u32,
    unready: bool,
    since: u64,
    is_over: bool,
}

/// A tenure of a key: the present one, or the last one.
#[derive(Clone, Debug)]
struct Tenure<'a> {
    token: u64,
    owner: &'a str,
    session: Option<&'a str>,
    /// Its holder was asked to hand it over.
    was_asked: bool,
    is_over: bool,
}

/// A grant, and what was before it.
#[derive(Clone, Debug)]
struct Grant<'a> {
    at: u64,
    before: Option<Tenure<'a>>,
    /// When the key was last granted after its holder had been asked for it.
    passed_on: Option<u64>,
}

struct Pool<'a> {
    world: &'a World,
    /// What was ordered, and when.
    orders: Vec<(u64, PoolControls)>,
    members: BTreeMap<&'a str, Member<'a>>,
    unsure: BTreeSet<&'a str>,
    tenures: BTreeMap<&'a str, Tenure<'a>>,
    grants: BTreeMap<(&'a str, u64), Grant<'a>>,
    /// When each key was last granted after its holder had been asked for it.
    passed_on: BTreeMap<&'a str, u64>,
    /// What fair calls were granted.
    shared: BTreeSet<(&'a str, u64)>,
    breaches: Vec<Breach>,
}

/// What is wrong with the pool.
pub fn check(lines: &[Line], world: &World) -> Vec<Breach> {
    let shared = lines.iter().flat_map(|line| match &line.event {
        Event::Shared { keys, .. } => keys.iter().map(|(key, token)| (&**key, *token)).collect(),
        _ => Vec::new(),
    });
    let mut pool = Pool {
        world,
        orders: vec![(0, PoolControls::default())],
        members: BTreeMap::new(),
        unsure: BTreeSet::new(),
        tenures: BTreeMap::new(),
        grants: BTreeMap::new(),
        passed_on: BTreeMap::new(),
        shared: shared.collect(),
        breaches: Vec::new(),
    };
    lines.iter().for_each(|line| pool.see(line));
    pool.breaches
}

impl<'a> Pool<'a> {
    fn see(&mut self, line: &'a Line) {
        match &line.event {
            Event::Orders { value } => {
                let controls = PoolControls::of_value(value.as_deref()).expect("it can be read");
                self.bounded(line.t, &controls);
                self.orders.push((line.t, controls));
            }
            Event::Joined { session, owner, weight, version, unready } => {
                for member in self.members.values_mut().filter(|member| member.owner == owner) {
                    // Where members come back, the newest one counts.
                    member.is_over = true;
                }
                let (version, since, weight) = (version.as_deref(), line.t, *weight);
                let (unready, is_over) = (*unready, false);
                let member = Member { owner, version, weight, unready, since, is_over };
                self.members.insert(session, member);
            }
            Event::Unsure { owner } => drop(self.unsure.insert(owner)),
            Event::Tombstone { session } => {
                let member = self.members.get_mut(session.as_str());
                member.into_iter().for_each(|member| member.is_over = true);
            }
            Event::Committed { key, kind, token, owner, session, .. } if key.starts_with("p/") => {
                self.committed((key, *token), kind, (owner, session.as_deref()), line.t);
            }
            Event::Balanced { key, token, reason } => {
                self.balanced((key, *token), reason, line.t);
            }
            Event::Shared { session, keys, since, unready } => {
                for (key, token) in keys.iter().filter(|(key, _)| key.starts_with("p/")) {
                    self.granted((key, *token), session, *since, *unready);
                }
            }
            _ => {}
        }
    }

    fn breach(&mut self, rule: &'static str, text: String) {
        self.breaches.push(Breach { rule, text });
    }

    fn committed(
        &mut self,
        (key, token): (&'a str, u64),
        kind: &str,
        (owner, session): (&'a str, Option<&'a str>),
        at: u64,
    ) {
        match kind {
            "granted" => {
                let (was_asked, is_over) = (false, false);
                let tenure = Tenure { token, owner, session, was_asked, is_over };
                let before = self.tenures.insert(key, tenure);
                if before.as_ref().is_some_and(|before| before.was_asked) {
                    self.passed_on.insert(key, at);
                }
                if before.as_ref().is_some_and(|before| before.token == token) {
                    // It was revived.
                    return;
                }
                let passed_on = self.passed_on.get(key).copied();
                self.grants.insert((key, token), Grant { at, before, passed_on });
                self.guarded((key, token), session, at);
            }
            "handover-requested" => {
                let tenure = self.tenures.get_mut(key).filter(|tenure| tenure.token == token);
                tenure.into_iter().for_each(|tenure| tenure.was_asked = true);
            }
            "expired" | "session-ended" | "revoked" | "reclaimed" | "released" | "transferred" => {
                let tenure = self.tenures.get_mut(key).filter(|tenure| tenure.token == token);
                tenure.into_iter().for_each(|tenure| tenure.is_over = true);
            }
            _ => {}
        }
    }

    /// What was ordered at any time from `from` to `to`.
    fn ordered(&self, from: u64, to: u64) -> impl Iterator<Item = &PoolControls> {
        let first = self.orders.iter().rposition(|(at, _)| *at <= from).unwrap_or(0);
        self.orders[first..].iter().filter(move |(at, _)| *at <= to).map(|(_, controls)| controls)
    }

    /// Whether all nodes knew, at any time from `from` to `to`, orders for which this holds.
    fn stood(&self, from: u64, to: u64, holds: impl Fn(&PoolControls) -> bool) -> bool {
        let before = from.saturating_sub(UNHEARD);
        from >= UNHEARD && self.world.is_quiet(before, to) && self.ordered(before, to).all(holds)
    }

    /// Whether a member prepares for the key at some time from then on, as some node may know.
    fn prepares(&self, key: &str, from: u64, to: u64) -> bool {
        let before = from.saturating_sub(UNHEARD);
        self.ordered(before, to).any(|controls| controls.warming.contains_key(key))
    }

    /// The members that every node counts at that time.
    fn certain(&self, at: u64) -> impl Iterator<Item = &Member<'a>> {
        self.members.values().filter(move |member| {
            !member.is_over
                && !member.unready
                && member.since + UNHEARD <= at
                && !self.unsure.contains(member.owner)
        })
    }

    fn bounded(&mut self, at: u64, controls: &PoolControls) {
        let most = self.world.warmups.map_or(0, |warmups| warmups.most);
        let count = controls.warming.len();
        if count > most {
            let text = format!("{count} keys are prepared for at {at} ns, and {most} may be");
            self.breach("preparations", text);
        }
    }

    /// The balancer asked a holder for a key.
    fn balanced(&mut self, (key, token): (&str, u64), reason: &str, at: u64) {
        let moved = |why: &str| format!("{key} moves at {at} ns {why}: {reason}");
        if self.tenures.get(key).is_some_and(|tenure| self.unsure.contains(tenure.owner)) {
            // It may leave, and is asked for everything.
            return self.prepared((key, token), at);
        }
        if self.stood(at, at, |controls| controls.frozen.is_some()) {
            self.breach("freeze", moved("in a frozen pool"));
        }
        if self.stood(at, at, |controls| controls.guard.is_some()) {
            self.breach("guard", moved("while a guard stands"));
        }
        let versions: Vec<_> = self.certain(at).map(|member| member.version).collect();
        let differ = |version: &Option<&str>| compare_versions(*version, versions[0]).is_ne();
        if versions.iter().any(differ) && self.world.is_quiet(at.saturating_sub(UNHEARD), at) {
            self.breach("upgrade", moved("during an upgrade"));
        }
        if let Some(load) = reason.strip_prefix("load: ")
            && let Some([from, to, carried]) = loads(load)
            && from.max(to) <= (from - carried).max(to + carried)
        {
            self.breach("gain", moved("for nothing"));
        }
        self.prepared((key, token), at);
    }

    /// The next holder was prepared, or had its time.
    fn prepared(&mut self, (key, token): (&str, u64), at: u64) {
        let Some(warmups) = self.world.warmups else { return };
        let prepares = |controls: &PoolControls| {
            controls.warming.get(key).filter(|warming| warming.token.0 == token).cloned()
        };
        let Some(now) = self.orders.last().and_then(|(_, controls)| prepares(controls)) else {
            return;
        };
        let began = self.orders.iter().find(|(_, controls)| prepares(controls).is_some());
        let began = began.map_or(at, |(at, _)| *at);
        if !now.ready && at < began + warmups.timeout_ms * MS / 100 * (100 - DRIFT) {
            let text = format!(
                "the holder of {key} was asked at {at} ns, and the preparation began at {began} ns"
            );
            self.breach("preparation", text);
        }
    }

    /// While a guard stands, fair calls grant no member more than its former share.
    fn guarded(&mut self, grant: (&str, u64), session: Option<&'a str>, at: u64) {
        let Some(session) = session.filter(|_| self.shared.contains(&grant)) else { return };
        let Some(weight) = self.members.get(session).map(|member| member.weight) else { return };
        let fair = |(key, tenure): &(&&str, &Tenure)| {
            !tenure.is_over
                && tenure.session == Some(session)
                && self.shared.contains(&(**key, tenure.token))
        };
        let held = self.tenures.iter().filter(fair).count();
        let guarded = |controls: &PoolControls| {
            controls.guard.as_ref().is_some_and(|guard| guard.share(weight) < held)
        };
        // What members come back to, or prepared for, is not counted in shares.
        let counts = !self.world.rejoins && self.world.warmups.is_none();
        if counts && self.stood(at, at, guarded) {
            let text = format!(
                "{session} of weight {weight} was granted {} at {at} ns, and has {held} keys \
                 while a guard stands",
                grant.0
            );
            self.breach("guard", text);
        }
    }

    /// Whether the owner had the key before this grant, or before others that a node may not have heard of when it
    /// decided.
    fn held_last(&self, (key, token): (&str, u64), owner: &str, since: u64) -> bool {
        let before = |token| self.grants.get(&(key, token))?.before.as_ref();
        let earlier = |last: &&Tenure<'a>| {
            let granted = self.grants.get(&(key, last.token))?;
            before(last.token).filter(|_| since <= granted.at + UNHEARD)
        };
        std::iter::successors(before(token), earlier).any(|last| last.owner == owner)
    }

    /// A fair call granted a key.
    fn granted(&mut self, grant: (&str, u64), session: &str, since: u64, unready: bool) {
        let key = grant.0;
        if unready {
            let text = format!("{key} was granted to {session}, which is not ready");
            self.breach("ready", text);
        }
        let Some(Grant { at, before, passed_on }) = self.grants.get(&grant).cloned() else {
            return;
        };
        let Some(owner) = self.members.get(session).map(|member| member.owner) else { return };
        let told =
            |why: &str| format!("{key} was granted to {session} of {owner} at {at} ns {why}");
        if self.stood(since, at, |it| it.paused.get(key).is_some_and(|said| said.to.is_none())) {
            self.breach("pause", told("although it is paused"));
        }
        let Some(before) = before.filter(|_| !self.held_last(grant, owner, since)) else { return };
        if self.stood(since, at, |it| it.cordoned.contains_key(owner)) {
            self.breach("cordon", told("which is cordoned"));
        }
        // A call that waits for a key whose holder was asked may be granted it after another one that waited too.
        let is_passed_on = passed_on.is_some_and(|at| since <= at + UNHEARD);
        let is_passed_on = is_passed_on || self.prepares(key, since, at);
        if !is_passed_on && self.stood(since, at, |it| it.frozen.is_some()) {
            let text = format!("in a frozen pool, after {}", before.owner);
            self.breach("freeze", told(&text));
        }
    }
}

/// What two members carry for each unit of their weight, and what the key adds to each, from the reason of a move by load:
/// `w1 carries 6.000, w2 (weight 2) carries 3.000, the key 2.000; gain …`. `None` if their weights differ.
fn loads(reason: &str) -> Option<[f64; 3]> {
    let (told, _) = reason.split_once("; gain ")?;
    if told.contains("(weight") || told.contains("over its limit") {
        return None;
    }
    let after = |word: &str, at: usize| {
        let number = told.split(word).nth(at)?;
        number.split(',').next()?.trim().parse::<f64>().ok()
    };
    Some([after(" carries ", 1)?, after(" carries ", 2)?, after("the key ", 1)?])
}
