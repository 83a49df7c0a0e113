//! The callers of a lease, as the actors see them.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicUsize, Ordering},
};

use tokio::sync::{mpsc, oneshot};

use super::traced::TracedCall;
use crate::lease::{Answer, Caller, LeaseId};

/// Where an answer is sent.
#[derive(Debug)]
pub enum Reply {
    /// To the one caller of this call.
    One {
        answer: oneshot::Sender<Answer>,
        /// The call has a request id: its caller may ask for its grant again.
        marked: bool,
        /// The call, if it is traced.
        traced: Option<Arc<TracedCall>>,
    },
    /// To a caller that waits on several keys.
    Any(Place),
}

impl Reply {
    /// A caller, and the channel on which it gets its answer.
    #[must_use]
    pub fn one(marked: bool) -> (Self, oneshot::Receiver<Answer>) {
        Self::one_traced(marked, None)
    }

    /// The same, for a call that may be traced.
    #[must_use]
    pub fn one_traced(
        marked: bool,
        traced: Option<Arc<TracedCall>>,
    ) -> (Self, oneshot::Receiver<Answer>) {
        let (answer, receiver) = oneshot::channel();
        (Self::One { answer, marked, traced }, receiver)
    }

    /// The call that waits for the answer, if it is traced.
    #[must_use]
    pub fn traced(&self) -> Option<&Arc<TracedCall>> {
        match self {
            Self::One { traced, .. } => traced.as_ref(),
            Self::Any(place) => place.wait.traced.as_ref(),
        }
    }

    /// Sends the answer. Returns a grant that must be given back: its caller has left, and cannot ask for it again.
    pub fn send(self, answer: Answer) -> Option<LeaseId> {
        let (left, marked) = match self {
            Self::One { answer: sender, marked, .. } => (sender.send(answer).err(), marked),
            Self::Any(place) => {
                let marked = place.wait.marked;
                (place.deliver(answer), marked)
            }
        };
        match left {
            Some(Answer::Granted(grant)) if !marked => Some(grant.lease_id),
            _ => None,
        }
    }
}

impl Caller for Reply {
    fn is_gone(&self) -> bool {
        match self {
            Self::One { answer, .. } => answer.is_closed(),
            Self::Any(place) => place.wait.is_gone(),
        }
    }

    fn claim(&self) -> bool {
        match self {
            Self::One { answer, .. } => !answer.is_closed(),
            Self::Any(Place { wait, number, .. }) => !wait.is_gone() && wait.claim(*number),
        }
    }

    fn unclaim(&self) {
        if let Self::Any(place) = self {
            place.wait.unclaim(place.number);
        }
    }

    fn is_registration(&self) -> bool {
        matches!(self, Self::Any(_))
    }
}

/// No key is granting.
const NOBODY: usize = usize::MAX;
/// The caller left: no key may grant any more.
const WITHDRAWN: usize = usize::MAX - 1;

/// ONE registration that waits on all the keys of an acquire-any. The key that claims it first grants, and the others
/// pass it over.
#[derive(Debug)]
pub struct AnyWait {
    /// The place of the key that is granting, [`NOBODY`], or [`WITHDRAWN`].
    claimed: AtomicUsize,
    answer: Mutex<Option<oneshot::Sender<(usize, Answer)>>>,
    /// Bounded by the number of keys: a place is vacated once each time that it is taken.
    vacated: mpsc::UnboundedSender<Vacated>,
    /// The call has a request id.
    marked: bool,
    /// The call, if it is traced.
    traced: Option<Arc<TracedCall>>,
}

/// A place in a key's queue that is no longer occupied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vacated {
    /// The key refused: waiting for it is useless.
    Refused,
    /// The key's actor died, left memory or was busy. The place with this number may be taken again.
    Forgotten(usize),
    /// The key granted, and has that grant released. The place with this number may be taken again, by a new request.
    GivenBack(usize),
}

/// What the caller of an acquire-any receives.
pub struct AnyReceiver {
    /// Its grant, with the place of the key that granted it.
    pub granted: oneshot::Receiver<(usize, Answer)>,
    /// Places that were left without an answer.
    pub vacated: mpsc::UnboundedReceiver<Vacated>,
}

/// The place of a registration in one key's queue. Its drop without an answer is reported to the caller. Like the drop
/// of an exit notice, it may happen while the thread unwinds, and must not panic or block.
#[derive(Debug)]
pub struct Place {
    wait: Arc<AnyWait>,
    number: usize,
    answered: bool,
}

impl AnyWait {
    /// A registration, and what its caller receives.
    #[must_use]
    pub fn new(marked: bool) -> (Arc<Self>, AnyReceiver) {
        Self::new_traced(marked, None)
    }

    /// The same, for a call that may be traced.
    #[must_use]
    pub fn new_traced(marked: bool, traced: Option<Arc<TracedCall>>) -> (Arc<Self>, AnyReceiver) {
        let (sender, granted) = oneshot::channel();
        let (vacate, vacated) = mpsc::unbounded_channel();
        let wait = Self {
            claimed: AtomicUsize::new(NOBODY),
            answer: Mutex::new(Some(sender)),
            vacated: vacate,
            marked,
            traced,
        };
        (Arc::new(wait), AnyReceiver { granted, vacated })
    }

    /// Its place in the queue of the key with this number in the caller's list.
    #[must_use]
    pub fn place(self: &Arc<Self>, number: usize) -> Place {
        Place { wait: self.clone(), number, answered: false }
    }

    /// Prevents every key from granting from now on. Returns `false` while one is granting.
    #[must_use]
    pub fn withdraw(&self) -> bool {
        self.take(WITHDRAWN)
    }

    fn take(&self, place: usize) -> bool {
        self.claimed.compare_exchange(NOBODY, place, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// A key whose actor died while it granted may claim again.
    fn claim(&self, place: usize) -> bool {
        self.take(place) || self.claimed.load(Ordering::Acquire) == place
    }

    fn unclaim(&self, place: usize) {
        let (mine, free) = (Ordering::AcqRel, Ordering::Acquire);
        // An error means that another key has the claim, or that the caller left.
        let _ = self.claimed.compare_exchange(place, NOBODY, mine, free);
    }

    fn is_gone(&self) -> bool {
        let answer = self.answer.lock().unwrap_or_else(PoisonError::into_inner);
        answer.as_ref().is_none_or(oneshot::Sender::is_closed)
    }

    fn vacate(&self, how: Vacated) {
        // An error means that the caller no longer listens.
        let _ = self.vacated.send(how);
    }
}

impl Place {
    /// Only a grant ends the wait. A refusal removes this key alone, and after an error this key may be tried again.
    /// Returns a grant that cannot be delivered.
    fn deliver(mut self, answer: Answer) -> Option<Answer> {
        self.answered = !matches!(answer, Answer::Busy | Answer::Store(_) | Answer::Lapsed);
        let vacated = match answer {
            Answer::Granted(_) => {
                let mut sender = self.wait.answer.lock().unwrap_or_else(PoisonError::into_inner);
                let Some(sender) = sender.take() else { return Some(answer) };
                return sender.send((self.number, answer)).err().map(|(_, answer)| answer);
            }
            Answer::GivenBack => Vacated::GivenBack(self.number),
            _ if self.answered => Vacated::Refused,
            _ => return None,
        };
        // An earlier actor of the key may have died while it granted.
        self.wait.unclaim(self.number);
        self.wait.vacate(vacated);
        None
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if !self.answered {
            self.wait.vacate(Vacated::Forgotten(self.number));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lease::{Grant, KeyState, Nonce, Token, View};

    #[test]
    fn a_claim_is_given_back_by_the_place_that_took_it_alone() {
        let (wait, _heard) = AnyWait::new(false);
        let (one, two) = (Reply::Any(wait.place(0)), Reply::Any(wait.place(1)));
        assert!(one.claim());
        two.unclaim();
        assert!(!two.claim(), "another key is granting");
        assert!(one.claim(), "a key whose actor died grants again");
        one.unclaim();
        assert!(two.claim());
        assert!(!wait.withdraw());
        two.unclaim();
        assert!(wait.withdraw());
        assert!(!one.claim(), "the caller left");
    }

    fn granted() -> (Answer, LeaseId) {
        let secret = crate::lease::ClusterSecret::new(&[7; 32]);
        let lease_id = secret.lease_id(&crate::lease::Key::new("k").expect("a key"), Nonce(1));
        let view = View {
            state: KeyState::Held,
            known: true,
            quarantined: false,
            node: None,
            elsewhere: false,
            owner: None,
            token: Token(1),
            ttl_ms: None,
            expires_in_ms: None,
            acquired_at_ms: None,
            value: None,
            spec: None,
            waiters: 0,
            pins: Box::default(),
            offered_to: None,
            previous: None,
            session: None,
            fences: Box::default(),
            fenced: None,
            fence_failed: false,
            marks: Box::default(),
            granting: None,
        };
        (
            Answer::Granted(Box::new(Grant { view, lease_id, valid_for_ms: 1, again: false })),
            lease_id,
        )
    }

    #[test]
    fn a_grant_that_cannot_be_delivered_is_given_back_unless_it_may_be_asked_for_again() {
        for marked in [false, true] {
            let (answer, lease_id) = granted();
            let back = (!marked).then_some(lease_id);
            let (one, left) = Reply::one(marked);
            drop(left);
            assert_eq!(one.send(answer.clone()), back);
            let (wait, left) = AnyWait::new(marked);
            let any = Reply::Any(wait.place(0));
            drop(left);
            assert_eq!(any.send(answer.clone()), back);
            let (wait, mut heard) = AnyWait::new(marked);
            assert_eq!(Reply::Any(wait.place(1)).send(answer.clone()), None, "it is heard");
            assert_eq!(heard.granted.try_recv().expect("a grant").0, 1);
            assert_eq!(Reply::Any(wait.place(2)).send(answer), back, "of two, one is heard");
        }
    }

    #[test]
    fn a_place_whose_grant_was_given_back_asks_anew_and_holds_up_no_other() {
        let (wait, mut heard) = AnyWait::new(false);
        let (one, two) = (Reply::Any(wait.place(0)), Reply::Any(wait.place(1)));
        assert!(one.claim());
        one.send(Answer::GivenBack);
        assert!(two.claim(), "another key may grant");
        assert_eq!(heard.vacated.try_recv().expect("a place"), Vacated::GivenBack(0));
        assert!(heard.vacated.try_recv().is_err(), "and no more");
    }
}
