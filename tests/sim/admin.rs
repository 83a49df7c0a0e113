//! Administrators, and, at the end, whoever looks whether each key can be had.

use std::rc::Rc;

use futures_util::future::join_all;
use tenure::{
    lease::{Key, PoolOrder, Revoke, Token},
    manager::AcquireOne,
};

use super::{
    ask::{Ask, Got},
    history::{Event, Op},
    memories,
    plain::{a_key, min_hold, release},
    plan::Standing,
    run,
    time::{self, MS, now},
    worker::Worker,
};

/// How long one call of a probe waits: less than a node allows.
const LONGEST_WAIT_MS: u64 = 119_000;

/// Orders this and that until the faults are over.
pub async fn order(me: Rc<Worker>) {
    let every = u64::try_from(me.arena.plan.admin_every.as_millis()).unwrap_or(1_000);
    loop {
        me.sleep(every / 2, every * 3 / 2).await;
        if now() >= me.arena.plan.calm {
            return;
        }
        let key = a_key(&me);
        match me.draw(|chance| super::dice::Dice::between(chance, 0, 99)) {
            0..=29 => revoke(&me, key, false).await,
            30..=44 => revoke(&me, key, true).await,
            45..=59 => drop(me.call(Op::Check, "", &Ask::Pin(key)).await),
            60..=74 => drop(me.call(Op::Check, "", &Ask::Unpin(key)).await),
            75..=89 => drop(me.call(Op::Check, "", &Ask::Handover(key)).await),
            90..=91 => drop(me.call(Op::Check, "", &Ask::SkipFences(key)).await),
            92..=94 => order_pool(&me, key).await,
            _ => {
                let of = me.draw(|chance| super::dice::Dice::index(chance, me.arena.plan.workers));
                let owner = run::owner(of);
                me.arena.log.push(now(), Event::Unsure { owner: owner.as_str().to_owned() });
                let ask = Ask::DrainOwner(owner);
                drop(me.call(Op::Check, "", &ask).await);
            }
        }
    }
}

/// Orders something for the pool, and a while later the opposite.
async fn order_pool(me: &Worker, key: Key) {
    let of = me.draw(|chance| super::dice::Dice::index(chance, me.arena.plan.workers));
    let owner = run::owner(of);
    let orders = match me.draw(|chance| super::dice::Dice::between(chance, 0, 3)) {
        0 => [PoolOrder::Freeze, PoolOrder::Thaw],
        1 => [PoolOrder::Cordon(owner.clone()), PoolOrder::Uncordon(owner)],
        2 if key.as_str().starts_with("p/") => {
            [PoolOrder::Pause(key.clone()), PoolOrder::Resume(key)]
        }
        _ => [PoolOrder::Rebalance, PoolOrder::EndGuard],
    };
    for order in orders {
        say(me, order).await;
        me.sleep(500, 3_000).await;
    }
}

/// Gives an order until it is answered.
async fn say(me: &Worker, order: PoolOrder) {
    for _ in 0..60 {
        let since = now();
        match me.call(Op::Check, "", &Ask::OrderPool(order.clone())).await.got {
            Ok(Got::Ordered) => {
                let order = order.to_string();
                me.arena.log.push(now(), Event::Ordered { order, since });
                break;
            }
            Ok(Got::No(_)) => break,
            _ => me.sleep(100, 500).await,
        }
    }
}

/// Orders for the pool what stands for long, and then the opposite.
pub async fn order_for_long(me: Rc<Worker>) {
    let plan = &me.arena.plan;
    let Some((standing, at, span)) = plan.standing else { return };
    let owners = (0..plan.workers).filter(|of| of.is_multiple_of(2)).map(run::owner);
    let keys = plan.keys.iter().enumerate().filter(|(at, _)| at.is_multiple_of(2));
    let keys = keys.map(|(_, key)| key.clone());
    let (begin, end): (Vec<PoolOrder>, Vec<PoolOrder>) = match standing {
        Standing::Freeze => (vec![PoolOrder::Freeze], vec![PoolOrder::Thaw]),
        Standing::Cordon => {
            owners.map(|it| (PoolOrder::Cordon(it.clone()), PoolOrder::Uncordon(it))).unzip()
        }
        Standing::Pause => {
            keys.map(|it| (PoolOrder::Pause(it.clone()), PoolOrder::Resume(it))).unzip()
        }
    };
    time::until(at).await;
    for order in begin {
        say(&me, order).await;
    }
    time::until(at + u64::try_from(span.as_nanos()).unwrap_or(0)).await;
    for order in end {
        say(&me, order).await;
    }
}

async fn revoke(me: &Worker, key: Key, immediately: bool) {
    let name = key.as_str().to_owned();
    let holder = me.call(Op::Check, &name, &Ask::Holder(key.clone())).await;
    let Ok(Got::Holder(Some(token))) = holder.got else { return };
    if immediately {
        let event = Event::Cut { key: name.clone(), token, why: "revoke immediately".to_owned() };
        me.arena.log.push(now(), event);
    }
    let order = Revoke {
        reason: "sim".into(),
        actor: "admin".into(),
        immediately,
        owner: None,
        token: Some(Token(token)),
        floor: None,
    };
    me.call(Op::Revoke, &name, &Ask::Revoke(key, order)).await;
}

/// Lets every key go: pins and failed fences would hold it forever.
pub async fn clear(me: &Worker) {
    for key in me.arena.plan.keys.clone() {
        let skips = me.arena.plan.skips_fences.then(|| Ask::SkipFences(key.clone()));
        for ask in [Ask::Unpin(key.clone())].into_iter().chain(skips) {
            for _ in 0..60 {
                match me.call(Op::Check, "", &ask).await.got {
                    Ok(Got::Ordered | Got::No(_)) => break,
                    _ => me.sleep(100, 500).await,
                }
            }
        }
    }
}

/// I8: takes every key, and gives it back. Those that could not be had.
pub async fn probe(probes: &[Rc<Worker>], bound_ms: u64) -> Vec<String> {
    let mut keys = probes[0].arena.plan.keys.clone();
    keys.extend(memories::permits(&probes[0].arena.plan));
    let each = keys.iter().enumerate().map(|(n, key)| {
        let me = &probes[n % probes.len()];
        async move {
            let (end, mut last) = (now() + bound_ms * MS, String::new());
            // A call without a final answer may have been granted the key: the same call again is told of that.
            let a_mark = || me.draw(|chance| (u128::from(chance.next_u64()), n as u64));
            let mut mark = a_mark();
            while now() < end {
                let wait_ms = ((end - now()) / MS).min(LONGEST_WAIT_MS);
                let one = AcquireOne {
                    wait_ms,
                    mark: Some(mark),
                    // A worker may still wait for the key, and every grant of such a key has a minimum hold.
                    min_hold_ms: min_hold(key),
                    ..AcquireOne::new(key.clone(), me.owner.clone(), 30_000)
                };
                let answer = me.call(Op::Acquire, key.as_str(), &Ask::Acquire(one)).await;
                if let Ok(Got::Grants(grants)) = &answer.got
                    && let Some((key, grant)) = grants.first()
                    && let Some(held) = me.granted((answer.call, answer.sent), (key, grant), None)
                {
                    release(me, held, Op::Release).await;
                    return None;
                }
                last = format!("{:?}", answer.got);
                if matches!(answer.got, Ok(Got::Grants(_) | Got::No(_))) {
                    mark = a_mark();
                }
                me.sleep(50, 300).await;
            }
            Some(format!("I8: {} cannot be had within {bound_ms} ms: {last}", key.as_str()))
        }
    });
    join_all(each).await.into_iter().flatten().collect()
}
