//! Waits in the queues of several keys at once.

use std::time::Duration;

use super::{AcquireAny, CallError, Manager, unheard::Unheard};
use crate::{
    actor::{AnyHeard, AnyWait, Mail, Reply, Vacated},
    lease::{Answer, Bond, Call, Key, Moment, Request, StoreError},
    telemetry::AcquireOutcome,
};

/// The pause before the first attempt to queue again at keys that dropped the caller's place, and the longest such
/// pause.
const REQUEUE_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);
/// When the wait is over while a grant is being written, how long that may take.
const GRANTING: Duration = Duration::from_millis(500);

impl Manager {
    /// Waits in the queues of all keys. A place that was dropped because a key's actor died or left memory is taken
    /// again. Once `leave` resolves, the caller leaves all queues, unless some key is granting at that moment.
    pub(super) async fn park(
        &self,
        any: &AcquireAny,
        keys: &[Key],
        bond: Option<Bond>,
        until: Moment,
        received: Moment,
        leave: impl Future<Output = ()>,
    ) -> Result<Option<Unheard>, CallError> {
        let _places = self.places(keys.len())?;
        let (wait, heard) = AnyWait::new();
        let queue_up = |place: usize| {
            let acquire = any.one(&keys[place], any.mark).into_acquire(
                bond,
                Some(until),
                self.world.entropy.nonce(),
            );
            let request = Request::Acquire(Box::new(acquire));
            let call = Call {
                caller: Reply::Any(wait.place(place)),
                received,
                request,
                owner_unreachable: false,
            };
            // A key that cannot be reached drops the place, and is tried again.
            let _ = self.world.registry.post(&self.world, keys[place].as_str(), Mail::Call(call));
        };
        (0..keys.len()).for_each(queue_up);
        let left = until.since(self.now());
        let listening = listen_until(leave, &wait, listen(heard, keys.len(), queue_up));
        let mut listening = std::pin::pin!(listening);
        let granted = self.unless_draining(self.pools_of(keys), async {
            match tokio::time::timeout(left, &mut listening).await {
                Ok(granted) => Ok(granted),
                Err(_) if wait.withdraw() => Ok(None),
                Err(_) => {
                    // A key is granting at this moment.
                    let granted = tokio::time::timeout(GRANTING, &mut listening).await;
                    let why = "a grant to this call is not settled yet";
                    granted.map_err(|_| CallError::Store(StoreError::Unavailable(why.into())))
                }
            }
        });
        match granted.await? {
            Some((place, Answer::Granted(grant))) => {
                let took = self.now().since(received);
                let rules = self.world.rules();
                rules.of(keys[place].as_str()).1.acquired(AcquireOutcome::Granted, took);
                let key = keys[place].clone();
                Ok(Some(Unheard::new(&self.world, key, *grant, any.mark.is_some())))
            }
            _ => Ok(None),
        }
    }
}

/// Listens until `leave` resolves. If a key is granting then, waits for it: the grant is the caller's.
async fn listen_until(
    leave: impl Future<Output = ()>,
    wait: &AnyWait,
    listening: impl Future<Output = Option<(usize, Answer)>>,
) -> Option<(usize, Answer)> {
    let mut listening = std::pin::pin!(listening);
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
    heard: AnyHeard,
    places: usize,
    queue_up: impl Fn(usize),
) -> Option<(usize, Answer)> {
    let AnyHeard { mut granted, mut vacated } = heard;
    let mut taken = places;
    let mut forgotten = Vec::new();
    let mut pause = REQUEUE_PAUSE;
    let mut again = std::pin::pin!(tokio::time::sleep(pause));
    loop {
        tokio::select! {
            biased;
            grant = &mut granted => return grant.ok(),
            Some(vacated) = vacated.recv() => match vacated {
                Vacated::Forgotten(place) => {
                    if forgotten.is_empty() {
                        again.set(tokio::time::sleep(pause));
                    }
                    forgotten.push(place);
                }
                Vacated::Refused => {
                    taken -= 1;
                    if taken == 0 {
                        return granted.try_recv().ok();
                    }
                }
            },
            () = &mut again, if !forgotten.is_empty() => {
                std::mem::take(&mut forgotten).into_iter().for_each(&queue_up);
                pause = (2 * pause).min(LONGEST_PAUSE);
            }
        }
    }
}
