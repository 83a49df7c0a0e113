//! Asks a key's actor from within the process. Every call of a lease's holder, and every order, passes through here.

use std::time::Duration;

use tokio::sync::oneshot;

use super::registry::{Registry, Unreachable, Unwanted};
use crate::{
    actor::mail::{Mail, Reply, TracedCall},
    lease::{Answer, Call, GiveBack, Key, Moment, Nonce, Request},
};

/// How often a call is repeated after the actor that got it died.
const ATTEMPTS: u32 = 20;
/// A write of an actor that died may become durable for this long afterwards.
const MAY_LAND: Duration = Duration::from_secs(10);

/// When a call arrived, and what was already tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    /// When the call arrived: the time spent waiting counts in the holder's favour.
    pub received: Moment,
    /// The lease's home node is said to be another one that cannot be reached.
    pub home_unreachable: bool,
}

impl From<Moment> for Asked {
    fn from(received: Moment) -> Self {
        Self { received, home_unreachable: false }
    }
}

/// Why a call got no answer from its key.
#[derive(Debug)]
pub enum Unanswered {
    /// The key rests until this moment.
    Resting(Moment),
    /// The arbiters do not run yet, or no longer.
    NoArbiter,
    /// Actor after actor died; or one died whose write may still become durable.
    Died,
    /// This other node is the home node of what must be asked.
    Elsewhere(Nonce),
    /// This node became the home node of the session that keeps the lease a moment ago.
    Arriving,
    /// The session's actor gave this answer.
    Other(Answer),
}

impl From<Unreachable> for Unanswered {
    fn from(why: Unreachable) -> Self {
        match why {
            Unreachable::Resting(until) => Self::Resting(until),
            Unreachable::NoArbiter => Self::NoArbiter,
        }
    }
}

/// An answer that a caller waits for. If the caller leaves when the answer has been sent, a grant in it is released,
/// unless the caller may ask for it again (`marked`).
struct Awaited<'a> {
    registry: &'a Registry,
    key: &'a str,
    marked: bool,
    answer: oneshot::Receiver<Answer>,
}

impl Drop for Awaited<'_> {
    fn drop(&mut self) {
        self.answer.close();
        if let Ok(Answer::Granted(grant)) = self.answer.try_recv()
            && !self.marked
            && let Ok(key) = Key::stored(self.key)
        {
            let unwanted = Unwanted { key, back: GiveBack::unmarked(grant.lease_id), until: None };
            self.registry.unheard.add(|unheard| unheard.push(unwanted));
        }
    }
}

impl Registry {
    /// Asks the key's actor, or its successor if the actor dies before it answers. `make` must give the same request
    /// each time.
    ///
    /// # Errors
    /// [`Unanswered`].
    pub async fn ask(
        &self,
        key: &str,
        Asked { received, home_unreachable }: Asked,
        make: impl Fn() -> Request,
    ) -> Result<Answer, Unanswered> {
        let mut died = None;
        for attempt in 0..ATTEMPTS {
            let request = make();
            let marked = matches!(&request, Request::Acquire(acquire) if acquire.mark.is_some());
            let owner = match &request {
                Request::Acquire(acquire) => Some(&acquire.owner),
                _ => None,
            };
            let traced = TracedCall::here(|| self.clock.now(), owner);
            let (caller, answer) = Reply::one_traced(marked, traced);
            let mut answer = Awaited { registry: self, key, marked, answer };
            let call = Call { caller, received, request, home_unreachable };
            #[cfg(any(test, feature = "testing"))]
            self.asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            self.post(key, Mail::Call(call))?;
            match (&mut answer.answer).await {
                // The actor that died may have been writing a grant to this very call.
                Ok(Answer::Refused(..))
                    if died.is_some_and(|died| self.clock.now() < died + MAY_LAND) =>
                {
                    return Err(Unanswered::Died);
                }
                Ok(answer) => return Ok(answer),
                Err(_) => {
                    died = Some(self.clock.now());
                    tokio::time::sleep(Duration::from_millis(u64::from(attempt))).await;
                }
            }
        }
        Err(Unanswered::Died)
    }
}
