//! Workers that keep many leases by one heartbeat, and members of a pool.

use tenure::{
    lease::{Announced, Behavior, Check, CheckKind, Key, Labels, SessionId, SessionSpec, Token},
    manager::{AcquireAny, AcquireOne, Candidates, Count, SessionAlive},
};

use super::{
    ask::{Ask, Got},
    dice::Dice,
    history::{Event, IN_DOUBT, Op},
    plain::{a_key, a_ttl, ask_until_settled, candidates, min_hold, release},
    time::{MS, now},
    worker::{Answer, Held, Worker},
};

struct Session<'a> {
    me: &'a Worker,
    id: SessionId,
    ttl_ms: u64,
    /// The end of its window on the worker's clock.
    until: u64,
    held: Vec<Held>,
    /// Tenures that were heard to be revoked.
    revoked: Vec<(Key, Token)>,
    steps: u64,
    pool: bool,
    unready: bool,
    /// It never said that it is ready.
    never_ready: bool,
    /// Its labels, while it is certain which hold.
    labels: Option<Labels>,
    relabelled: bool,
}

/// One session, from its beginning to its end.
pub async fn work(me: &Worker) {
    let Some(mut session) = open(me).await else { return };
    let mut rounds = me.draw(|chance| *chance.pick(&[1, 4, 10, 40]));
    while rounds > 0 && !me.arena.is_over() {
        rounds -= 1;
        if me.per_mille(400) || (session.pool && me.per_mille(700)) {
            session.take().await;
        }
        if session.unready && me.per_mille(300) {
            session.never_ready = false;
            let ready = me.call(Op::Check, "", &Ask::Ready(session.id)).await;
            session.unready = ready.got.is_err();
        }
        if me.arena.plan.placed && session.pool && me.per_mille(150) {
            session.relabel().await;
        }
        if me.per_mille(150) && !session.held.is_empty() {
            let at = me.draw(|chance| chance.index(session.held.len()));
            let held = session.held.swap_remove(at);
            release(me, held, Op::Release).await;
        }
        if me.per_mille(60) {
            me.sleep(session.ttl_ms, session.ttl_ms * 3 / 2).await;
        } else {
            me.sleep(session.ttl_ms / 6, session.ttl_ms / 3).await;
        }
        if !session.beat().await {
            return;
        }
    }
    if session.pool && me.per_mille(400) {
        // It leaves, and hands over what it is asked for.
        unsure(me);
        me.call(Op::Check, "", &Ask::DrainSession(session.id)).await;
        session.beat().await;
    }
    if me.per_mille(600) {
        session.close().await;
    }
}

async fn open(me: &Worker) -> Option<Session<'_>> {
    let ttl_ms = a_ttl(me);
    let pool = me.arena.plan.pool && me.per_mille(600);
    let check =
        Check { kind: CheckKind::Progress, interval_ms: 2 * ttl_ms, timeout_ms: 1, fail_after: 1 };
    let spec = SessionSpec {
        behavior: if me.per_mille(500) { Behavior::Release } else { Behavior::Delete },
        lock_delay_ms: me.per_mille(300).then_some(1_000),
        pool: pool.then(|| "pool".into()),
        weight: me.draw(|chance| u32::try_from(chance.between(1, 3)).unwrap_or(1)),
        capacity: me.per_mille(200).then_some(2),
        checks: if me.per_mille(300) { vec![check] } else { Vec::new() },
    };
    // What was lost is a session that nobody uses.
    let version = me.draw(|chance| *chance.pick(&[None, None, Some("1.9"), Some("1.10")]));
    let announced = Announced {
        version: version.filter(|_| pool && me.arena.plan.versions).map(Into::into),
        unready: pool && me.per_mille(200),
        labels: if me.arena.plan.placed && pool { some_labels(me) } else { Labels::new() },
        ..Announced::default()
    };
    let (unready, labels) = (announced.unready, Some(announced.labels.clone()));
    let (weight, version) = (spec.weight, announced.version.as_deref().map(str::to_owned));
    let ask = Ask::Open(me.owner.clone(), ttl_ms, spec, announced);
    let answer = me.call(Op::OpenSession, "", &ask).await;
    let Ok(Got::Opened(id, valid_for_ms)) = answer.got else {
        unsure(me);
        return None;
    };
    if pool {
        let (session, owner) = (id.digest.to_string(), me.owner.as_str().to_owned());
        me.arena.log.push(now(), Event::Joined { session, owner, weight, version, unready });
    }
    me.refused(answer.call, "opened");
    let until = answer.sent + valid_for_ms * MS;
    let (held, revoked) = (Vec::new(), Vec::new());
    Some(Session {
        me,
        id,
        ttl_ms,
        until,
        held,
        revoked,
        steps: 0,
        pool,
        unready,
        never_ready: unready,
        labels,
        relabelled: false,
    })
}

/// It is not certain any more which sessions of the worker are members that stay.
fn unsure(me: &Worker) {
    me.arena.log.push(now(), Event::Unsure { owner: me.owner.as_str().to_owned() });
}

fn some_labels(me: &Worker) -> Labels {
    let mut labels = Labels::new();
    if me.per_mille(500) {
        labels.insert("site".into(), "here".into());
    }
    let zone = me.draw(|chance| *chance.pick(&["a", "b"]));
    labels.insert("zone".into(), zone.into());
    if me.per_mille(300) {
        labels.insert("disk".into(), "ssd".into());
    }
    labels
}

impl Session<'_> {
    fn name(&self) -> String {
        self.id.digest.to_string()
    }

    /// It gets other labels, once: a call that was sent twice may come late, and must not undo a later one.
    async fn relabel(&mut self) {
        if self.relabelled {
            return;
        }
        self.relabelled = true;
        let labels = some_labels(self.me);
        let told = self.me.call(Op::Check, "", &Ask::Label(self.id, labels.clone())).await;
        self.labels = matches!(told.got, Ok(Got::Ordered)).then_some(labels);
    }

    /// What a fair call was granted goes where its policy says.
    fn fits(&self, answer: &Answer) {
        let (Ok(Got::Grants(grants)), Some(labels)) = (&answer.got, &self.labels) else { return };
        let policies = &self.me.arena.plan.policies;
        let allows = |key: &Key| policies.of(key.as_str()).place.allows(labels);
        for (key, _) in grants.iter().filter(|(key, _)| !allows(key)) {
            let (key, session) = (key.as_str().to_owned(), self.name());
            self.me.arena.log.push(now(), Event::Misplaced { key, session });
        }
    }

    /// What a fair call was granted.
    fn shares(&self, answer: &Answer, since: u64) {
        let Ok(Got::Grants(grants)) = &answer.got else { return };
        let keys = grants.iter();
        let keys = keys.map(|(key, grant)| (key.as_str().to_owned(), grant.view.token.0)).collect();
        let (session, unready) = (self.name(), self.never_ready);
        self.me.arena.log.push(now(), Event::Shared { session, keys, since, unready });
    }

    /// Takes a lease, or some, under it.
    async fn take(&mut self) {
        let me = self.me;
        let mark = me.per_mille(700).then(|| {
            me.draw(|chance| (u128::from(chance.next_u64()) << 64 | 1, chance.next_u64()))
        });
        let wait_ms = me.draw(|chance| *chance.pick(&[0, 0, self.ttl_ms / 4]));
        let mut is_fair = false;
        let (op, name, ask) = if me.per_mille(500) || (self.pool && me.per_mille(600)) {
            let fair = self.pool && me.per_mille(700);
            is_fair = fair;
            let any = AcquireAny {
                candidates: if fair { Candidates::Pool("pool".to_owned()) } else { candidates(me) },
                count: if fair { Count::Fair } else { Count::UpTo(2) },
                session: Some(self.id),
                wait_ms,
                mark,
                ..AcquireAny::new(me.owner.clone(), self.ttl_ms)
            };
            (Op::AcquireAny, String::new(), Ask::Any(any))
        } else {
            let key = a_key(me);
            let one = AcquireOne {
                session: Some(self.id),
                wait_ms,
                mark,
                min_hold_ms: min_hold(&key),
                ..AcquireOne::new(key, me.owner.clone(), self.ttl_ms)
            };
            (Op::Acquire, one.key.as_str().to_owned(), Ask::Acquire(one))
        };
        let since = now();
        if let Some(answer) = ask_until_settled(me, op, &name, &ask).await {
            if is_fair {
                self.fits(&answer);
                self.shares(&answer, since);
            }
            self.granted(&answer);
        }
    }

    fn granted(&mut self, answer: &Answer) {
        let Ok(Got::Grants(grants)) = &answer.got else { return };
        let sent = (answer.call, answer.sent);
        for (key, grant) in grants {
            // This was heard before the grant itself.
            if self.revoked.contains(&(key.clone(), grant.view.token)) {
                self.me.refused(answer.call, &format!("{IN_DOUBT}it was revoked"));
                continue;
            }
            self.held.retain(|held| held.key != *key);
            self.held.extend(self.me.granted(sent, (key, grant), Some(self.name())));
        }
    }

    /// One heartbeat. Whether it goes on.
    async fn beat(&mut self) -> bool {
        let me = self.me;
        for _ in 0..2 {
            self.steps += u64::from(me.per_mille(900));
            let keys = if self.pool {
                self.held.iter().map(|held| held.key.clone()).collect()
            } else {
                Vec::new()
            };
            let ask = Ask::BeatSession(self.id, self.steps, keys);
            let answer = me.call(Op::BeatSession, &self.name(), &ask).await;
            match &answer.got {
                Ok(Got::SessionAlive(alive)) => {
                    let over = self.alive(&answer, alive);
                    let next = alive.asks.prepare.iter().filter(|next| !next.ready);
                    let next: Vec<Key> = next.map(|next| next.key.clone()).collect();
                    if !next.is_empty() && me.per_mille(700) {
                        me.call(Op::Check, "", &Ask::Prepared(self.id, next)).await;
                    }
                    for held in over {
                        release(me, held, Op::Release).await;
                    }
                    return true;
                }
                Ok(Got::Lost(why)) => {
                    self.held.iter().for_each(|held| me.shut(held, why));
                    return false;
                }
                _ => me.sleep(1, self.ttl_ms / 8).await,
            }
        }
        // What it is sure of no longer, it gives up.
        me.local() < self.until
    }

    /// What is to be handed over.
    fn alive(&mut self, answer: &Answer, alive: &SessionAlive) -> Vec<Held> {
        let (me, heard) = (self.me, self.me.local());
        self.until = self.until.max(answer.sent + alive.valid_for_ms * MS);
        self.revoked.extend(alive.revoked.iter().cloned());
        // A guarantee that ended is over forever: it may have ended meanwhile, and nobody says so any more.
        self.held.retain(|held| held.until > heard);
        me.refused(answer.call, "alive");
        let name = self.name();
        let sent = (answer.call, answer.sent);
        for held in &mut self.held {
            if alive.revoked.contains(&(held.key.clone(), Token(held.token))) {
                continue;
            }
            let (key, token) = (&held.key, held.token);
            let until = me.told(sent, key, token, alive.valid_for_ms, false, Some(name.clone()));
            held.until = held.until.max(until.unwrap_or(0));
        }
        // What it is asked for it hands over, mostly.
        let all = alive.asks.all.is_some();
        let asked = |held: &Held| {
            all || alive
                .asks
                .leases
                .iter()
                .any(|(key, token, _)| (key, *token) == (&held.key, Token(held.token)))
        };
        let hands_over = me.per_mille(800);
        let held = std::mem::take(&mut self.held);
        let (over, kept) = held.into_iter().partition(|held| hands_over && asked(held));
        self.held = kept;
        over
    }

    async fn close(&mut self) {
        let me = self.me;
        self.held.iter().for_each(|held| me.shut(held, "the session is ended"));
        let ask = Ask::CloseSession(self.id);
        let answer = ask_until_settled(me, Op::EndSession, &self.name(), &ask).await;
        match answer.map(|answer| (answer.call, answer.got)) {
            Some((call, Ok(Got::Released(true)))) => me.session_ended(call, self.name()),
            Some((call, Ok(Got::Released(false)))) => me.refused(call, "it was over"),
            _ => {}
        }
    }
}
