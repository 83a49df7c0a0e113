//! Workers that keep each lease by heartbeats of its own.

use std::rc::Rc;

use tenure::{
    lease::{CandidateOrder, Heartbeat, Key, Release, Transfer},
    manager::{AcquireAll, AcquireAny, AcquireOne, Candidates, Count, Take, Wanted},
};

use super::{
    ask::{Ask, Got},
    dice::Dice,
    history::Op,
    net::Unheard,
    plan::PERMITS,
    session,
    time::{MS, SECOND},
    worker::{Answer, Held, Worker},
};

/// Every grant of a key with this prefix has a minimum hold…
pub const HELD_LONG: &str = "h/";
/// …of this length, in nanoseconds.
pub const MIN_HOLD: u64 = 4 * SECOND;
/// How often a call is repeated whose answer was lost.
const REPEATS: usize = 5;

/// What a worker does until the end.
pub async fn work(me: Rc<Worker>) {
    me.sleep(0, 2_000).await;
    while !me.arena.is_over() {
        let plan = &me.arena.plan;
        if me.per_mille(plan.sessions) {
            session::work(&me).await;
        } else if plan.alls > 0 && me.per_mille(plan.alls) {
            let held = acquire_all(&me).await;
            hold(&me, held).await;
        } else if me.per_mille(plan.anys) {
            let held = acquire_any(&me).await;
            hold(&me, held).await;
        } else {
            let held = acquire(&me).await;
            hold(&me, held.into_iter().collect()).await;
        }
        me.sleep(10, 800).await;
    }
}

/// Digests of a request id, and of the rest of a request.
fn mark(me: &Worker) -> Option<(u128, u64)> {
    me.per_mille(700).then(|| {
        me.draw(|chance| {
            let id = u128::from(chance.next_u64()) << 64 | u128::from(chance.next_u64());
            (id, chance.next_u64())
        })
    })
}

pub fn a_key(me: &Worker) -> Key {
    me.draw(|chance| chance.pick(&me.arena.plan.keys).clone())
}

pub fn a_ttl(me: &Worker) -> u64 {
    me.draw(|chance| *chance.pick(&me.arena.plan.ttls))
}

/// The minimum hold of every grant of this key.
pub fn min_hold(key: &Key) -> u64 {
    if key.as_str().starts_with(HELD_LONG) { MIN_HOLD / MS } else { 0 }
}

fn a_wait(me: &Worker) -> u64 {
    me.draw(|chance| *chance.pick(&me.arena.plan.waits))
}

/// Asks again, under the same request id and at other nodes too, for as long as the answer was lost, or says to
/// come again.
pub async fn ask_until_settled(me: &Worker, op: Op, name: &str, ask: &Ask) -> Option<Answer> {
    let again = match ask {
        Ask::Acquire(one) => one.mark.is_some(),
        Ask::Any(any) => any.mark.is_some(),
        Ask::All(all) => all.mark.is_some(),
        _ => true,
    };
    for _ in 0..REPEATS {
        let answer = me.call(op, name, ask).await;
        match &answer.got {
            Err(Unheard { .. }) | Ok(Got::Later(_)) if again => me.sleep(1, 400).await,
            _ => return Some(answer),
        }
    }
    None
}

async fn acquire(me: &Worker) -> Option<Held> {
    let plan = &me.arena.plan;
    if !plan.reloads.is_empty() && me.per_mille(300) {
        return acquire_shared(me).await;
    }
    let key = a_key(me);
    let one = AcquireOne {
        wait_ms: a_wait(me),
        mark: mark(me),
        value: me.per_mille(200).then(|| me.name.as_str().into()),
        reclaim: me.per_mille(100),
        min_hold_ms: min_hold(&key),
        ..AcquireOne::new(key, me.owner.clone(), a_ttl(me))
    };
    let key = one.key.clone();
    let answer = ask_until_settled(me, Op::Acquire, key.as_str(), &Ask::Acquire(one)).await?;
    taken(me, &answer).pop()
}

/// One of the permits of a key, or the key itself if it has none at that time.
async fn acquire_shared(me: &Worker) -> Option<Held> {
    let key = me.draw(|chance| chance.pick(&me.arena.plan.shared).clone());
    let one = AcquireOne {
        wait_ms: a_wait(me),
        mark: mark(me),
        ..AcquireOne::new(key, me.owner.clone(), a_ttl(me))
    };
    let answer = ask_until_settled(me, Op::AcquireAny, "", &Ask::Acquire(one)).await?;
    taken(me, &answer).pop()
}

async fn acquire_any(me: &Worker) -> Vec<Held> {
    let count = me.draw(|chance| chance.index(3)) + 1;
    let any = AcquireAny {
        candidates: candidates(me),
        count: Count::UpTo(count),
        order: me.draw(|chance| {
            *chance.pick(&[CandidateOrder::Random, CandidateOrder::Listed, CandidateOrder::Sticky])
        }),
        wait_ms: a_wait(me),
        mark: mark(me),
        ..AcquireAny::new(me.owner.clone(), a_ttl(me))
    };
    let answer = ask_until_settled(me, Op::AcquireAny, "", &Ask::Any(any)).await;
    answer.map(|answer| taken(me, &answer)).unwrap_or_default()
}

/// Every key of a list, or none.
async fn acquire_all(me: &Worker) -> Vec<Held> {
    let keys = wanted(me);
    let leases = keys.iter().map(|wanted| match wanted.take {
        Take::Permits(permits) => Some(permits as usize),
        // As many as there are then.
        Take::All if me.arena.plan.reloads.is_empty() => Some(PERMITS as usize),
        Take::All => None,
    });
    let leases: Option<usize> = leases.sum();
    let all = AcquireAll {
        wait_ms: a_wait(me),
        mark: mark(me),
        ..AcquireAll::new(keys, me.owner.clone(), a_ttl(me))
    };
    let answer = ask_until_settled(me, Op::AcquireAny, "", &Ask::All(all)).await;
    let Some(answer) = answer else { return Vec::new() };
    if let Ok(Got::Grants(grants)) = &answer.got {
        let whole = leases.is_none_or(|leases| grants.len() == leases);
        assert!(whole, "a part was taken for the whole");
    }
    taken(me, &answer)
}

fn wanted(me: &Worker) -> Vec<Wanted> {
    let permits = [Take::Permits(1), Take::Permits(1), Take::Permits(2), Take::All];
    let shared = me.arena.plan.shared.iter().filter(|_| me.per_mille(600));
    let shared = shared.map(|key| {
        let take = me.draw(|chance| *chance.pick(&permits));
        Wanted { key: key.clone(), take }
    });
    let mut wanted: Vec<Wanted> = shared.collect();
    let mut keys = me.arena.plan.keys.clone();
    me.draw(|chance| chance.shuffle(&mut keys));
    keys.retain(|key| min_hold(key) == 0);
    keys.truncate(me.draw(|chance| chance.index(3)));
    wanted.extend(keys.into_iter().map(|key| Wanted { key, take: Take::Permits(1) }));
    if wanted.is_empty() {
        wanted.push(Wanted { key: me.arena.plan.shared[0].clone(), take: Take::All });
    }
    wanted
}

pub fn candidates(me: &Worker) -> Candidates {
    if me.per_mille(300) {
        return Candidates::Prefix("a/".to_owned());
    }
    let mut keys = me.arena.plan.keys.clone();
    me.draw(|chance| chance.shuffle(&mut keys));
    // An acquire-any names no minimum hold.
    keys.retain(|key| min_hold(key) == 0);
    keys.truncate(1 + me.draw(|chance| chance.index(6)));
    Candidates::Keys(keys)
}

/// The grants of an answer, as far as they are worth anything.
fn taken(me: &Worker, answer: &Answer) -> Vec<Held> {
    let Ok(Got::Grants(grants)) = &answer.got else { return Vec::new() };
    let held = |(key, grant): &(Key, _)| me.granted((answer.call, answer.sent), (key, grant), None);
    grants.iter().filter_map(held).collect()
}

/// Keeps leases for a while: on time, or too late; then gives them back, hands them over, or goes silent.
pub async fn hold(me: &Worker, mut held: Vec<Held>) {
    let mut beats = me.draw(|chance| *chance.pick(&[0, 0, 1, 2, 4, 8, 30]));
    while beats > 0 && !held.is_empty() && !me.arena.is_over() {
        beats -= 1;
        let ttl = held.iter().map(|held| held.ttl_ms).min().unwrap_or(1);
        if me.per_mille(80) {
            me.sleep(ttl, ttl * 3 / 2).await;
        } else {
            me.sleep(ttl / 5, ttl / 2).await;
        }
        let mut kept = Vec::new();
        for lease in held {
            kept.extend(beat(me, lease).await);
        }
        held = kept;
    }
    for lease in held {
        end(me, lease).await;
    }
}

async fn beat(me: &Worker, mut held: Held) -> Option<Held> {
    let ttl_ms = me.per_mille(120).then(|| a_ttl(me));
    let value = me.per_mille(100).then(|| "on it".into());
    let ask = Ask::Beat(held.key.clone(), Heartbeat { value, ttl_ms, ..Heartbeat::new(held.id) });
    let restless = me.arena.plan.restless;
    let plain = Ask::Beat(held.key.clone(), Heartbeat::new(held.id));
    for again in [false, true] {
        let ask = if again && restless { &plain } else { &ask };
        let answer = me.call(Op::Heartbeat, held.key.as_str(), ask).await;
        match &answer.got {
            Ok(Got::Alive(alive)) => {
                let sent = (answer.call, answer.sent);
                let (token, valid) = (alive.token.0, alive.valid_for_ms);
                if let Some(until) = me.told(sent, &held.key, token, valid, false, None) {
                    held.until = held.until.max(until);
                }
                // A restored store may have taken in the same grant once more.
                held.token = token;
                held.ttl_ms = ttl_ms.unwrap_or(held.ttl_ms);
                return Some(held);
            }
            Ok(Got::Lost(why)) => {
                me.shut(&held, why);
                return None;
            }
            // A session keeps it, or the like.
            Ok(Got::No(_)) => return None,
            _ if restless => me.sleep(1, 200).await,
            _ => me.sleep(1, held.ttl_ms / 8).await,
        }
    }
    Some(held)
}

async fn end(me: &Worker, held: Held) {
    match me.draw(|chance| chance.between(0, 99)) {
        0..=59 => release(me, held, Op::Release).await,
        60..=79 => transfer(me, held).await,
        // It dies, or forgets.
        _ => {}
    }
}

/// Its window ends before it is sent, and it is repeated until it is acknowledged, or nobody answers.
pub async fn release(me: &Worker, held: Held, op: Op) {
    me.gives_up(&held, "release");
    let value = me.per_mille(100).then(|| "done".into());
    let ask = Ask::Release(held.key.clone(), Release { value, ..Release::new(held.id) });
    if let Some(answer) = ask_until_settled(me, op, held.key.as_str(), &ask).await {
        match answer.got {
            Ok(Got::Released(true)) => me.acknowledged(answer.call, op, &held),
            Ok(Got::Released(false)) => me.refused(answer.call, "it was over"),
            _ => {}
        }
    }
}

async fn transfer(me: &Worker, held: Held) {
    me.gives_up(&held, "transfer");
    let successor = me.draw(|chance| chance.index(me.arena.plan.workers));
    let to = me.per_mille(600).then(|| super::run::owner(successor));
    let offer_ms = to.is_some().then(|| a_ttl(me));
    let transfer = Transfer { lease_id: held.id, to, offer_ms, value: None, reason: None };
    let ask = Ask::Transfer(held.key.clone(), transfer);
    if let Some(answer) = ask_until_settled(me, Op::Transfer, held.key.as_str(), &ask).await
        && matches!(answer.got, Ok(Got::Transferred))
    {
        me.acknowledged(answer.call, Op::Transfer, &held);
    }
}
