//! Waits in the queues of several keys at once.

use std::{cell::Cell, pin::pin, sync::Arc, time::Duration};

use tokio::sync::{mpsc, oneshot};

use super::call::AnyCall;
use crate::{
    actor::{AnyReceiver, AnyWait, Mail, Place, Reply, TracedCall, Vacated},
    lease::{Acquire, Answer, Call, Grant, Key, Moment, Nonce, Request, StoreError},
    manager::{error::CallError, new_keys::NewKey, unheard::Unheard, waiting::Waiting},
    telemetry::{AcquireOutcome, PoolMetrics},
};

/// The pause before the first attempt to queue again at keys that dropped the caller's place, and the longest such
/// pause.
const REQUEUE_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);
/// When the wait is over while a grant is being written, how long that may take.
const GRANTING: Duration = Duration::from_millis(500);

/// A key's answer, with the place of the key in the caller's list.
type Answered = Option<(usize, Answer)>;

impl AnyCall<'_> {
    /// Waits in the queues of all keys, with ONE registration, which is granted one of them. A place that was dropped
    /// because a key's actor died or left memory is taken again. Once `leave` resolves, the caller leaves all queues,
    /// unless some key is granting at that moment.
    pub async fn park(
        &self,
        keys: &[Key],
        until: Moment,
        leave: impl Future<Output = ()>,
    ) -> Result<Option<Unheard>, CallError> {
        let claims = self.manager.claims(&self.any.owner, 1)?;
        let (allowed, mut new) = self.without_too_new(keys).await?;
        let keys: &[Key] = allowed.as_deref().unwrap_or(keys);
        let _awaited = claims.wait_for(keys);
        let _places = self.manager.places(&self.any.owner, keys.len())?;
        let traced = TracedCall::here(|| self.manager.now(), Some(&self.any.owner));
        let (wait, AnyReceiver { granted, vacated }) =
            AnyWait::new_traced(self.any.mark.is_some(), traced);
        let heard = Heard { call: self, keys, granted };
        // A place that is taken again asks for the same grant, which the actor that died may have written. Only a grant
        // that is given back is followed by another request.
        let nonce = || self.manager.coordinator.entropy.nonce();
        let nonces: Vec<Cell<Nonce>> = keys.iter().map(|_| Cell::new(nonce())).collect();
        let queue_up = |place: usize, anew: bool| {
            if anew {
                nonces[place].set(nonce());
            }
            self.queue_up(&keys[place], nonces[place].get(), wait.place(place), until);
        };
        (0..keys.len()).for_each(|place| queue_up(place, false));
        let left = until.since(self.manager.now());
        let listening = listen_until(leave, &wait, listen(heard, vacated, queue_up));
        let _waiting = Waiting::begin(self.pools_of(keys));
        let granted = tokio::select! {
            biased;
            granted = in_time(left, &wait, listening) => granted?,
            () = self.manager.drained() => return Err(CallError::Draining),
        };
        match granted {
            Some((place, Answer::Granted(grant))) => {
                claims.choose(&keys[place]).end(Some(grant.view.token));
                if let Some(new) = new.get_mut(place).and_then(Option::take) {
                    new.keep();
                }
                Ok(Some(self.granted(&keys[place], *grant)))
            }
            _ => Ok(None),
        }
    }

    /// The keys at which the caller may wait, and those of them that are new, if its principal has a limit for new keys:
    /// a queue grants a key that nobody has at once. Those beyond the limit are left out.
    async fn without_too_new(
        &self,
        keys: &[Key],
    ) -> Result<(Option<Vec<Key>>, Vec<Option<NewKey<'_>>>), CallError> {
        if !self.manager.limits_new_keys(&self.any.owner) {
            return Ok((None, Vec::new()));
        }
        let (mut allowed, mut new, mut refused) = (Vec::new(), Vec::new(), None);
        for key in keys {
            match self.manager.new_key(&self.any.owner, key).await {
                Ok(counted) => {
                    allowed.push(key.clone());
                    new.push(counted);
                }
                Err(error @ CallError::OverNewKeys { .. }) => refused = Some(error),
                Err(error) => return Err(error),
            }
        }
        match refused {
            Some(error) if allowed.is_empty() => Err(error),
            _ => Ok((Some(allowed), new)),
        }
    }

    /// Takes a place in the queue of a key. A key that cannot be reached drops the place, and is tried again.
    fn queue_up(&self, key: &Key, grant_nonce: Nonce, place: Place, until: Moment) {
        let acquire = Acquire { wait_until: Some(until), grant_nonce, ..self.request(key) };
        let call = Call {
            caller: Reply::Any(place),
            received: self.received,
            request: Request::Acquire(Box::new(acquire)),
            home_unreachable: false,
        };
        let _ = self.manager.coordinator.registry.post(key.as_str(), Mail::Call(call));
    }

    fn granted(&self, key: &Key, grant: Grant) -> Unheard {
        let took = self.manager.now().since(self.received);
        let table = self.manager.coordinator.policy_table();
        table.of(key.as_str()).1.acquired(AcquireOutcome::Granted, took);
        self.unheard(key, grant)
    }

    /// The pools of these keys, each once.
    fn pools_of(&self, keys: &[Key]) -> Vec<Arc<PoolMetrics>> {
        let table = self.manager.coordinator.policy_table();
        let mut pools: Vec<Arc<PoolMetrics>> = Vec::new();
        for key in keys {
            let pool = table.of(key.as_str()).1;
            if !pools.iter().any(|known| Arc::ptr_eq(known, pool)) {
                pools.push(pool.clone());
            }
        }
        pools
    }
}

/// The grant that a caller waits for. If the caller leaves when the grant has been sent, it is given back.
struct Heard<'a> {
    call: &'a AnyCall<'a>,
    keys: &'a [Key],
    granted: oneshot::Receiver<(usize, Answer)>,
}

impl Drop for Heard<'_> {
    fn drop(&mut self) {
        self.granted.close();
        if let Ok((place, Answer::Granted(grant))) = self.granted.try_recv() {
            drop(self.call.unheard(&self.keys[place], *grant));
        }
    }
}

/// Listens for this long. If a key is granting at the end of that time, listens until it has granted.
async fn in_time(
    left: Duration,
    wait: &AnyWait,
    listening: impl Future<Output = Answered>,
) -> Result<Answered, CallError> {
    let mut listening = pin!(listening);
    if let Ok(granted) = tokio::time::timeout(left, &mut listening).await {
        return Ok(granted);
    }
    if wait.withdraw() {
        return Ok(None);
    }
    let granted = tokio::time::timeout(GRANTING, &mut listening).await;
    let why = "a grant to this call is not settled yet";
    granted.map_err(|_| CallError::Store(StoreError::Unavailable(why.into())))
}

/// Listens until `leave` resolves. If a key is granting then, waits for it: the grant is the caller's.
async fn listen_until(
    leave: impl Future<Output = ()>,
    wait: &AnyWait,
    listening: impl Future<Output = Answered>,
) -> Answered {
    let mut listening = pin!(listening);
    tokio::select! {
        biased;
        granted = &mut listening => return granted,
        () = leave => {}
    }
    while !wait.withdraw() {
        if let Ok(granted) = tokio::time::timeout(REQUEUE_PAUSE, &mut listening).await {
            return granted;
        }
    }
    None
}

/// Waits for the grant. Returns `None` if every key refused. Takes dropped places again, after increasing pauses.
async fn listen(
    mut heard: Heard<'_>,
    mut vacated: mpsc::UnboundedReceiver<Vacated>,
    queue_up: impl Fn(usize, bool),
) -> Answered {
    let mut taken = heard.keys.len();
    let mut forgotten = Vec::new();
    let mut pause = REQUEUE_PAUSE;
    let mut again = pin!(tokio::time::sleep(pause));
    loop {
        tokio::select! {
            biased;
            grant = &mut heard.granted => return grant.ok(),
            Some(vacated) = vacated.recv() => match vacated {
                Vacated::Forgotten(place) | Vacated::GivenBack(place) => {
                    if forgotten.is_empty() {
                        again.set(tokio::time::sleep(pause));
                    }
                    forgotten.push((place, matches!(vacated, Vacated::GivenBack(_))));
                }
                Vacated::Refused => {
                    taken -= 1;
                    if taken == 0 {
                        return heard.granted.try_recv().ok();
                    }
                }
            },
            () = &mut again, if !forgotten.is_empty() => {
                for (place, anew) in std::mem::take(&mut forgotten) {
                    queue_up(place, anew);
                }
                pause = (2 * pause).min(LONGEST_PAUSE);
            }
        }
    }
}
