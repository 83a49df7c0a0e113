//! Takes the parts of a call one after another, and keeps what it has taken meanwhile.

use std::{
    cell::{Cell, OnceCell},
    sync::{Arc, Mutex},
    time::Duration,
};

use tokio::sync::watch;

use super::{
    parts::Part,
    request::{AcquireAll, NotAll},
};
use crate::{
    actor::Asked,
    clock::Chance,
    lease::{Acquire, Key, Refusal},
    manager::{
        any::{AnyCall, Basis, Serving, Tried},
        availability::Availability,
        error::{AcquireError, CallError, Home},
        new_keys,
        turnstile::Turn,
        unheard::Unheard,
    },
};

/// When the call loses a lease while another one is being granted, how long that may take.
const SETTLING: Duration = Duration::from_secs(10);

/// A call while its parts are taken.
pub(super) struct Collector<'a, T> {
    pub(super) call: AnyCall<'a>,
    /// The same call for its permits. A permit may become a key of its own while the call takes it.
    permits: AnyCall<'a>,
    /// What it asks for.
    pub(super) all: &'a AcquireAll,
    /// The parts of the call under the policies that it knows. They are replaced while it takes them.
    pub(super) parts: Mutex<Arc<[Part]>>,
    /// Waits until its turn comes in the queue of a key at another node: the key is then offered to the caller. False if it
    /// cannot wait there.
    turn: &'a T,
    /// The request id of the call is being served until what it has is released, or the caller is told: a repeated call
    /// must not be told of what is about to be released.
    pub(super) serving: Option<Arc<Serving>>,
    /// It lost a lease that it had taken: it waits for no more.
    lost: watch::Sender<bool>,
    /// What it has. None of these futures holds the lock while it waits.
    pub(super) taken: Mutex<Vec<Unheard>>,
}

/// What a wait came to.
enum Waited {
    Granted(Box<Unheard>),
    /// The policies changed, and so did the parts of the call.
    Changed,
    /// The call waits no longer.
    Over,
}

/// How far a part is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    Whole,
    /// The policies changed, and so did the parts of the call.
    Changed,
}

/// The place of a call before those that came later.
enum Place<'a> {
    None,
    /// All calls for several permits of this key that came before it have had their turns.
    Behind(Key),
    /// It has its turn at this key.
    First(Key, #[expect(dead_code, reason = "its drop ends the turn")] Turn<'a>),
}

impl Place<'_> {
    fn key(&self) -> Option<&Key> {
        match self {
            Self::None => None,
            Self::Behind(key) | Self::First(key, _) => Some(key),
        }
    }
}

impl<'a, T: AsyncFn(&Key, &Home) -> bool> Collector<'a, T> {
    pub fn new(
        call: AnyCall<'a>,
        all: &'a AcquireAll,
        parts: Vec<Part>,
        turn: &'a T,
    ) -> Result<Self, CallError> {
        let serving = call.begin()?.map(Arc::new);
        let (lost, taken) = (watch::Sender::new(false), Mutex::default());
        let parts = Mutex::new(parts.into());
        let permits = call.for_permits();
        Ok(Self { call, permits, all, parts, turn, serving, lost, taken })
    }

    /// Takes all parts, or gives back what it has. May be called again when the policies have changed since.
    pub async fn collect(&self) -> Result<(), NotAll> {
        let taking = self.take_all();
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

    /// Takes the parts one after another. When the policies change, goes on with the parts that the call has then.
    async fn take_all(&self) -> Result<(), NotAll> {
        let mut place = Place::None;
        loop {
            if self.take_parts(&mut place).await? == Progress::Whole {
                self.renew().await?;
                if self.may_be_answered() {
                    return Ok(());
                }
            }
            self.adapt().await?;
        }
    }

    async fn take_parts<'p>(&'p self, place: &mut Place<'p>) -> Result<Progress, NotAll> {
        for part in self.parts().iter() {
            let taken = self.take(part, place).await;
            if taken.map_err(|error| NotAll::at(&part.key, error))? == Progress::Changed {
                return Ok(Progress::Changed);
            }
        }
        Ok(Progress::Whole)
    }

    /// Takes what the call does not have of a part. A call keeps its place while the policies change.
    async fn take<'p>(
        &'p self,
        part: &Part,
        place: &mut Place<'p>,
    ) -> Result<Progress, AcquireError> {
        if self.lacks(part) == 0 {
            return Ok(Progress::Whole);
        }
        if place.key().is_some_and(|key| *key != part.key) {
            // A call that goes back to an earlier key must not hold up others at a later one.
            *place = Place::None;
        }
        let taken = if part.permits.is_empty() {
            self.take_key(&part.key).await
        } else {
            self.take_in_turn(part, place).await
        };
        match taken {
            Err(AcquireError::Call(CallError::PolicyChanged)) => Ok(Progress::Changed),
            // A permit was one until a moment ago.
            Err(AcquireError::Call(CallError::Invalid(_))) if !self.is_current() => {
                Ok(Progress::Changed)
            }
            Err(error) => Err(error),
            Ok(()) if self.lacks(part) > 0 => Ok(Progress::Changed),
            Ok(()) => Ok(Progress::Whole),
        }
    }

    async fn take_in_turn<'p>(
        &'p self,
        part: &Part,
        place: &mut Place<'p>,
    ) -> Result<(), AcquireError> {
        self.find_granted_before(part).await?;
        if self.lacks(part) == 0 {
            return Ok(());
        }
        let turnstiles = &self.call.manager.turnstiles;
        let has_place = match place {
            Place::First(..) => true,
            Place::Behind(_) => part.count == 1,
            Place::None => false,
        };
        if !has_place && part.count == 1 {
            if self.unless_lost(turnstiles.pass(&part.key, self.patience())).await != Some(true) {
                return Err(self.behind(part).await);
            }
            *place = Place::Behind(part.key.clone());
        } else if !has_place {
            let turn = self.unless_lost(turnstiles.turn(&part.key, self.patience())).await;
            let Some(turn) = turn.flatten() else { return Err(self.behind(part).await) };
            *place = Place::First(part.key.clone(), turn);
        }
        self.take_permits(part).await
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

    /// Takes a key that is a lease. The call waits in its one queue. Returns without it if the policies changed.
    async fn take_key(&self, key: &Key) -> Result<(), AcquireError> {
        let (manager, asked) = (self.call.manager, Asked::from(self.call.received));
        let claim = manager.claim(&self.call.any.owner, key)?;
        let acquire = Acquire { wait_until: None, allow_stale: false, ..self.call.request(key) };
        let new = manager.new_key(&self.call.any.owner, key).await?;
        let granted = manager.own(key, acquire, asked).await;
        new_keys::end(new, &granted);
        claim.end(granted.as_ref().ok().map(|grant| grant.view.token));
        if let Err(AcquireError::Refused(why, _)) = &granted
            && matches!(why, Refusal::Held | Refusal::Cooling | Refusal::Fencing)
        {
            match self.wait_for(&self.call, std::slice::from_ref(key)).await? {
                Waited::Granted(grant) => {
                    self.has(*grant);
                    return Ok(());
                }
                Waited::Changed => return Ok(()),
                Waited::Over => {}
            }
        }
        manager.count(key, asked, &granted);
        self.has(self.call.unheard(key, granted?));
        Ok(())
    }

    /// Takes the permits of a part that an earlier call with the same request id was granted.
    async fn find_granted_before(&self, part: &Part) -> Result<(), AcquireError> {
        let has = self.has_of(part);
        let others: Vec<Key> =
            part.permits.iter().filter(|key| !has.contains(key)).cloned().collect();
        let Some(served) = self.permits.granted_before(&others).await? else {
            return Ok(());
        };
        served.grants.into_iter().for_each(|grant| self.has(grant));
        if served.in_part {
            // The caller released that permit, or lost it. It must not take the rest for the whole.
            return Err(AcquireError::Refused(Refusal::RequestSpent(None), None));
        }
        match served.elsewhere.into_iter().next() {
            Some((_, home)) => Err(CallError::Elsewhere(home).into()),
            None => Ok(()),
        }
    }

    /// Takes permits. Only those that the rule allows are waited for, so that calls at several coordinators do not wait
    /// for each other. Returns with fewer if the policies changed.
    async fn take_permits(&self, part: &Part) -> Result<(), AcquireError> {
        let rules = self.call.manager.coordinator.protocol;
        let all = u32::try_from(part.permits.len()).unwrap_or(u32::MAX);
        loop {
            let missing = self.lacks(part);
            if missing == 0 || !self.is_current() {
                return Ok(());
            }
            let fits = |number| {
                let missing = u32::try_from(missing).unwrap_or(u32::MAX);
                rules.a_call_waits_for_permit(number, missing, all)
            };
            let (numbered, had) = ((1..).zip(&part.permits), self.has_of(part));
            let open: Vec<Key> = numbered
                .filter(|(number, key)| fits(*number) && !had.contains(key))
                .map(|(_, key)| key.clone())
                .collect();
            let order = if part.count == 1 { self.call.order(open).await? } else { open };
            // A call that waits for one permit is granted whichever is free when it takes its places.
            let first =
                if part.count == 1 && self.call.wait_until.is_some() { 1 } else { order.len() };
            let tried = self.permits.try_all(&order[..first], missing).await?;
            let Tried { grants, failure, end, .. } = tried;
            let has_more = !grants.is_empty();
            grants.into_iter().for_each(|grant| self.has(grant));
            if let Some(error) = end {
                return Err(error);
            }
            if has_more {
                continue;
            }
            match self.wait_for(&self.permits, &order).await? {
                Waited::Granted(grant) => self.has(*grant),
                Waited::Changed => return Ok(()),
                Waited::Over if !self.is_current() => return Ok(()),
                Waited::Over => {
                    return Err(match failure {
                        Some(failure) => failure.into(),
                        None => self.too_few(part).await,
                    });
                }
            }
        }
    }

    /// Waits for one of these permits: in the queues of all of them here, and in that of one at its home node.
    async fn wait_for(&self, call: &AnyCall<'_>, permits: &[Key]) -> Result<Waited, AcquireError> {
        let Some(until) = self.call.wait_until else { return Ok(Waited::Over) };
        let coordinator = &self.call.manager.coordinator;
        loop {
            let (turn, changed) = (OnceCell::new(), Cell::new(false));
            let version = coordinator.policy_version();
            let leave = async {
                tokio::select! {
                    () = self.is_lost() => {}
                    () = self.changed() => changed.set(true),
                    key = self.turn_elsewhere(permits) => drop(turn.set(key)),
                }
            };
            if let Some(granted) = call.park(permits, until, leave).await? {
                return Ok(Waited::Granted(Box::new(granted)));
            }
            if changed.get() || coordinator.policy_version() != version {
                return Ok(Waited::Changed);
            }
            let Some(key) = turn.into_inner() else { return Ok(Waited::Over) };
            let mut tried = call.try_each(&[key], 1, Basis::Store).await?;
            if let Some(granted) = tried.grants.pop() {
                return Ok(Waited::Granted(Box::new(granted)));
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
}
