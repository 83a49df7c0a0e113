//! The callers of a lease, as the actors see them.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicBool, Ordering},
};

use tokio::sync::oneshot;

use crate::lease::{Answer, Caller};

/// Where an answer goes.
#[derive(Debug)]
pub enum Reply {
    /// To the one caller of this call.
    One(oneshot::Sender<Answer>),
    /// To a caller that waits on several keys; the number is the key's place in its list.
    Any(Arc<AnyWait>, usize),
}

impl Reply {
    /// Answers. Nobody may be there to hear it.
    pub fn send(self, answer: Answer) {
        match self {
            Self::One(sender) => drop(sender.send(answer)),
            Self::Any(wait, place) => wait.deliver(place, answer),
        }
    }
}

impl Caller for Reply {
    fn is_gone(&self) -> bool {
        match self {
            Self::One(sender) => sender.is_closed(),
            Self::Any(wait, _) => wait.is_gone(),
        }
    }

    fn claim(&self) -> bool {
        match self {
            Self::One(sender) => !sender.is_closed(),
            Self::Any(wait, _) => !wait.is_gone() && !wait.claimed.swap(true, Ordering::AcqRel),
        }
    }

    fn unclaim(&self) {
        if let Self::Any(wait, _) = self {
            wait.claimed.store(false, Ordering::Release);
        }
    }
}

/// ONE registration that waits on all the keys of an acquire-any: whichever key takes its claim first
/// is granted, the others pass it over.
#[derive(Debug)]
pub struct AnyWait {
    claimed: AtomicBool,
    answer: Mutex<Option<oneshot::Sender<(usize, Answer)>>>,
}

impl AnyWait {
    /// A registration, and where its grant arrives with the place of the key that granted it.
    #[must_use]
    pub fn new() -> (Arc<Self>, oneshot::Receiver<(usize, Answer)>) {
        let (sender, receiver) = oneshot::channel();
        (
            Arc::new(Self { claimed: AtomicBool::new(false), answer: Mutex::new(Some(sender)) }),
            receiver,
        )
    }

    fn is_gone(&self) -> bool {
        let answer = self.answer.lock().unwrap_or_else(PoisonError::into_inner);
        answer.as_ref().is_none_or(oneshot::Sender::is_closed)
    }

    /// Only a grant ends the wait: a refusal by one key leaves the others.
    fn deliver(&self, place: usize, answer: Answer) {
        if !matches!(answer, Answer::Granted(_)) {
            return;
        }
        let sender = self.answer.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(sender) = sender {
            let _ = sender.send((place, answer));
        }
    }
}
