//! Takes the parts of a call one after another, and keeps what it has taken meanwhile.

use std::{
    cell::OnceCell,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use futures_util::future::join_all;
use tokio::sync::watch;

use super::{parts::Part, request::NotAll};
use crate::{
    actor::Asked,
    clock::Chance,
    lease::{Acquire, Grant, Heartbeat, Key, LeaseId, Refusal, Release},
    manager::{
        any::{AnyCall, Basis, Serving, Tried},
        availability::Availability,
        error::{AcquireError, CallError, HolderError, Home},
        unheard::Unheard,
    },
};

/// When the call loses a lease while another one is being granted, how long that may take.
const SETTLING: Duration = Duration::from_secs(10);

/// A call while its parts are taken.
pub(super) struct Collector<'a, T> {
    call: AnyCall<'a>,
    /// Waits until its turn comes in the queue of a key at another node: the key is then offered to the caller. False if it
    /// cannot wait there.
    turn: &'a T,
    /// The request id of the call is being served until what it has is released, or the caller is told: a repeated call
    /// must not be told of what is about to be released.
    serving: Option<Arc<Serving>>,
    /// It lost a lease that it had taken: it waits for no more.
    lost: watch::Sender<bool>,
    /// What it has. None of these futures holds the lock while it waits.
    taken: Mutex<Vec<Unheard>>,
}

impl<'a, T: AsyncFn(&Key, &Home) -> bool> Collector<'a, T> {
    pub fn new(call: AnyCall<'a>, turn: &'a T) -> Result<Self, CallError> {
        let serving = call.begin()?.map(Arc::new);
        let (lost, taken) = (watch::Sender::new(false), Mutex::default());
        Ok(Self { call, turn, serving, lost, taken })
    }

    /// Takes all parts, or gives back what it has.
    pub async fn collect(&self, parts: &[Part]) -> Result<(), NotAll> {
        let taking = async {
            for part in parts {
                let taken = self.take(part).await;
                taken.map_err(|error| NotAll::at(&part.key, error))?;
            }
            self.renew().await
        };
        tokio::pin!(taking);
        let taken = tokio::select! {
            biased;
            taken = &mut taking => taken,
            lost = self.keep() => {
                // What is being granted at this moment is given back, too.
                self.lost.send_replace(true);
                match tokio::time::timeout(SETTLING, taking).await {
                    // It is not known what came of the last grant.
                    Ok(Err(NotAll { key, error: AcquireError::Call(error) })) => {
                        Err(NotAll { key, error: error.into() })
                    }
                    _ => Err(lost),
                }
            }
        };
        if taken.is_err() {
            self.give_back().await;
        }
        taken
    }

    async fn take(&self, part: &Part) -> Result<(), AcquireError> {
        if part.permits.is_empty() {
            return self.take_key(&part.key).await;
        }
        let before = self.granted_before(part).await?;
        let turnstiles = &self.call.manager.turnstiles;
        if before.len() >= part.count {
            return Ok(());
        }
        if part.count == 1 {
            if self.unless_lost(turnstiles.pass(&part.key, self.patience())).await != Some(true) {
                return Err(self.behind(part).await);
            }
            return self.take_permits(part, before).await;
        }
        match self.unless_lost(turnstiles.turn(&part.key, self.patience())).await.flatten() {
            Some(_turn) => self.take_permits(part, before).await,
            None => Err(self.behind(part).await),
        }
    }

    /// Earlier calls wait for permits of this key, and this call waits no longer.
    async fn behind(&self, part: &Part) -> AcquireError {
        match self.too_few(part).await {
            // They hold up the call, not the holders that are there now.
            AcquireError::NoneAvailable(counts) => {
                AcquireError::NoneAvailable(Availability { behind: true, next_ms: None, ..counts })
            }
            other => other,
        }
    }

    /// Takes a key that is a lease. The call waits in its one queue.
    async fn take_key(&self, key: &Key) -> Result<(), AcquireError> {
        let (manager, asked) = (self.call.manager, Asked::from(self.call.received));
        let claim = manager.claim(&self.call.any.owner, key)?;
        let acquire = Acquire { wait_until: None, allow_stale: false, ..self.call.request() };
        let granted = manager.own(key, acquire, asked).await;
        claim.end(granted.as_ref().ok().map(|grant| grant.view.token));
        if let Err(AcquireError::Refused(why, _)) = &granted
            && matches!(why, Refusal::Held | Refusal::Cooling | Refusal::Fencing)
            && let Some(grant) = self.wait_for(std::slice::from_ref(key)).await?.pop()
        {
            self.has(grant);
            return Ok(());
        }
        manager.count(key, asked, &granted);
        self.has(self.call.unheard(key, granted?));
        Ok(())
    }

    /// The permits of a part that an earlier call with the same request id was granted.
    async fn granted_before(&self, part: &Part) -> Result<Vec<Key>, AcquireError> {
        let Some(served) = self.call.granted_before(&part.permits).await? else {
            return Ok(Vec::new());
        };
        if served.in_part {
            // The caller released that permit, or lost it. It must not take the rest for the whole.
            served.grants.into_iter().for_each(|grant| self.has(grant));
            return Err(AcquireError::Refused(Refusal::RequestSpent(None), None));
        }
        if let Some((_, home)) = served.elsewhere.into_iter().next() {
            return Err(CallError::Elsewhere(home).into());
        }
        let keys = served.grants.iter().map(|grant| grant.key.clone()).collect();
        served.grants.into_iter().for_each(|grant| self.has(grant));
        Ok(keys)
    }

    /// Takes permits. Only those that the rule allows are waited for, so that calls at several coordinators do not wait
    /// for each other.
    async fn take_permits(&self, part: &Part, mut had: Vec<Key>) -> Result<(), AcquireError> {
        let rules = self.call.manager.coordinator.protocol;
        let all = u32::try_from(part.permits.len()).unwrap_or(u32::MAX);
        while had.len() < part.count {
            let missing = part.count - had.len();
            let fits = |number| {
                let missing = u32::try_from(missing).unwrap_or(u32::MAX);
                rules.a_call_waits_for_permit(number, missing, all)
            };
            let numbered = (1..).zip(&part.permits);
            let open: Vec<Key> = numbered
                .filter(|(number, key)| fits(*number) && !had.contains(key))
                .map(|(_, key)| key.clone())
                .collect();
            let order = if part.count == 1 { self.call.order(open).await? } else { open };
            // A call that waits for one permit is granted whichever is free when it takes its places.
            let first =
                if part.count == 1 && self.call.wait_until.is_some() { 1 } else { order.len() };
            let Tried { grants, failure, .. } = self.call.try_all(&order[..first], missing).await?;
            let granted = if grants.is_empty() { self.wait_for(&order).await? } else { grants };
            if granted.is_empty() {
                return Err(match failure {
                    Some(failure) => failure.into(),
                    None => self.too_few(part).await,
                });
            }
            for grant in granted {
                had.push(grant.key.clone());
                self.has(grant);
            }
        }
        Ok(())
    }

    /// Waits for one of these permits: in the queues of all of them here, and in that of one at its home node.
    async fn wait_for(&self, permits: &[Key]) -> Result<Vec<Unheard>, AcquireError> {
        let Some(until) = self.call.wait_until else { return Ok(Vec::new()) };
        loop {
            let turn = OnceCell::new();
            let leave = async {
                tokio::select! {
                    () = self.is_lost() => {}
                    key = self.turn_elsewhere(permits) => drop(turn.set(key)),
                }
            };
            if let Some(granted) = self.call.park(permits, until, leave).await? {
                return Ok(vec![granted]);
            }
            let Some(key) = turn.into_inner() else { return Ok(Vec::new()) };
            let tried = self.call.try_each(&[key], 1, Basis::Store).await?;
            if !tried.grants.is_empty() {
                return Ok(tried.grants);
            }
        }
    }

    /// Resolves when it is this call's turn at another node that keeps the queue of one of these permits.
    async fn turn_elsewhere(&self, permits: &[Key]) -> Key {
        match self.elsewhere(permits).await {
            Some((key, home)) if (self.turn)(&key, &home).await => key,
            _ => std::future::pending().await,
        }
    }

    async fn is_lost(&self) {
        let _ = self.lost.subscribe().wait_for(|lost| *lost).await;
    }

    /// What comes of it, unless the call loses a lease before.
    async fn unless_lost<R>(&self, waiting: impl Future<Output = R>) -> Option<R> {
        tokio::select! {
            biased;
            done = waiting => Some(done),
            () = self.is_lost() => None,
        }
    }

    /// One of these permits whose queue is at another living node, and that node. Calls at several nodes choose different
    /// ones.
    async fn elsewhere(&self, permits: &[Key]) -> Option<(Key, Home)> {
        let manager = self.call.manager;
        manager.node.as_ref()?;
        let views = manager.views(permits).await.ok()?;
        let away = permits.iter().zip(&views).filter(|(_, view)| view.elsewhere);
        let away: Vec<_> = away.filter_map(|(key, view)| Some((key, view.node?))).collect();
        let drawn = Chance::new(manager.coordinator.entropy.next_u64()).permutation(away.len());
        let (key, node) = away[*drawn.first()?];
        Some((key.clone(), manager.home(node)))
    }

    /// How much longer the call waits.
    fn patience(&self) -> Duration {
        let now = self.call.manager.now();
        self.call.wait_until.map_or(Duration::ZERO, |until| until.since(now))
    }

    async fn too_few(&self, part: &Part) -> AcquireError {
        let manager = self.call.manager;
        let rules = manager.coordinator.protocol;
        let mut counts = Availability { keys: part.permits.len(), ..Availability::default() };
        let own = self.proofs();
        match manager.views(&part.permits).await {
            Ok(views) => {
                let owner = &self.call.any.owner;
                // What the call has taken itself is given back.
                let has = |key: &Key| own.iter().any(|(taken, _)| taken == key);
                let others = part.permits.iter().zip(&views).filter(|(key, _)| !has(key));
                for (_, view) in others {
                    let mine = |other: &crate::lease::Owner| rules.is_owner(other, owner);
                    let why = match view.owner.as_ref() {
                        Some(other) if mine(other) => Refusal::HeldByYou,
                        _ => Refusal::Held,
                    };
                    counts.add_unless_free(why, view);
                }
                AcquireError::NoneAvailable(counts)
            }
            Err(error) => error.into(),
        }
    }

    fn has(&self, grant: Unheard) {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner).push(grant);
    }
}

/// What becomes of the leases that it has.
impl<T> Collector<'_, T> {
    fn proofs(&self) -> Vec<(Key, LeaseId)> {
        let taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        taken.iter().map(|one| (one.key.clone(), one.grant.lease_id)).collect()
    }

    /// Keeps the leases by heartbeats until one of them is lost. A session keeps its own.
    async fn keep(&self) -> NotAll {
        if self.call.session_ref.is_some() {
            return std::future::pending().await;
        }
        let manager = self.call.manager;
        loop {
            tokio::time::sleep(Duration::from_millis(self.call.ttl_ms) / 3).await;
            let beats = self.proofs().into_iter().map(|(key, id)| async move {
                let beat = Heartbeat::new(id);
                let alive = manager.keep_alive(key.as_str(), &beat, manager.now().into()).await;
                alive.err().and_then(|error| lost(&key, error))
            });
            if let Some(lost) = join_all(beats).await.into_iter().flatten().next() {
                return lost;
            }
        }
    }

    /// Makes the promises anew, as those of the first leases may have begun long ago.
    async fn renew(&self) -> Result<(), NotAll> {
        let proofs = self.proofs();
        if self.call.session_ref.is_some() || proofs.len() == 1 {
            return Ok(());
        }
        let (manager, received) = (self.call.manager, self.call.received);
        let beats = proofs.iter().map(|(key, id)| {
            let beat = Heartbeat::new(*id);
            async move { manager.keep_alive(key.as_str(), &beat, received.into()).await }
        });
        for ((key, id), alive) in proofs.iter().zip(join_all(beats).await) {
            match alive {
                Ok(alive) => self.told_for(*id, alive.valid_for_ms),
                Err(HolderError::Call(error)) => {
                    return Err(NotAll::at(key, error));
                }
                Err(error) => lost(key, error).map_or(Ok(()), Err)?,
            }
        }
        Ok(())
    }

    fn told_for(&self, id: LeaseId, valid_for_ms: u64) {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        for one in taken.iter_mut().filter(|one| one.grant.lease_id == id) {
            one.grant.valid_for_ms = valid_for_ms;
        }
    }

    /// All leases are kept for this long.
    pub fn promise(&self, valid_for_ms: u64) {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        taken.iter_mut().for_each(|one| one.grant.valid_for_ms = valid_for_ms);
    }

    /// The key of the first such lease.
    pub fn first(&self, such: impl Fn(&Key, &Grant) -> bool) -> Option<Key> {
        let taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        taken.iter().find(|one| such(&one.key, &one.grant)).map(|one| one.key.clone())
    }

    pub fn keys(&self) -> Vec<Key> {
        self.proofs().into_iter().map(|(key, _)| key).collect()
    }

    /// The caller is being told of its leases.
    pub fn told(self) -> Vec<(Key, Grant)> {
        let taken = self.taken.into_inner().unwrap_or_else(PoisonError::into_inner);
        taken.into_iter().map(Unheard::heard).collect()
    }

    /// Releases everything that this call was granted. What is not released when this ends, or when the caller hangs up,
    /// is released later.
    pub async fn give_back(&self) {
        let taken = std::mem::take(&mut *self.taken.lock().unwrap_or_else(PoisonError::into_inner));
        let (manager, rules) = (self.call.manager, self.call.manager.coordinator.protocol);
        let is_in_flight = rules.a_refused_list_is_in_flight_until_it_is_released();
        // The caller may hold what an earlier call with the same request id was granted.
        let is_kept = |one: &Unheard| {
            rules.a_refused_list_keeps(one.grant.again) || !rules.a_refused_list_is_given_back()
        };
        let (kept, refused): (Vec<_>, Vec<_>) = taken.into_iter().partition(is_kept);
        kept.into_iter().for_each(|one| drop(one.heard()));
        // All are marked as refused before the first release is awaited.
        let serving = || self.serving.clone().filter(|_| is_in_flight).map(|serving| serving as _);
        let refused: Vec<_> =
            refused.into_iter().map(|one| one.refused(&manager.coordinator, serving())).collect();
        join_all(refused.into_iter().map(|one| async move {
            let release = Release { lease_id: one.grant.lease_id, value: None };
            let released = manager.release(one.key.as_str(), release, manager.now()).await;
            if !matches!(released, Err(HolderError::Call(_))) {
                one.heard();
            }
        }))
        .await;
    }
}

/// Why the call cannot go on without a lease that it had. `None` if it may still have it.
fn lost(key: &Key, error: HolderError) -> Option<NotAll> {
    let how = match error {
        HolderError::Lost(lost) => lost.kind(),
        _ => return None,
    };
    Some(NotAll::at(key, AcquireError::Refused(Refusal::RequestSpent(how), None)))
}
