//! Asks a key's actor, and says what keeps it from an answer.

use super::{Manager, error::CallError};
use crate::{
    actor::{Asked, Unanswered},
    lease::{Answer, Request, StoreError},
};

impl Manager {
    /// Asks the key's actor, or its successor if the actor dies before it answers. `make` must give the same request
    /// each time.
    pub(super) async fn ask(
        &self,
        key: &str,
        asked: Asked,
        make: impl Fn() -> Request,
    ) -> Result<Answer, CallError> {
        self.answered(self.coordinator.registry.ask(key, asked, make).await)
    }

    /// What an actor answered, unless another node must be asked.
    pub(super) fn answered(&self, answer: Result<Answer, Unanswered>) -> Result<Answer, CallError> {
        match answer.map_err(|why| self.unanswered(why))? {
            Answer::Elsewhere(node) => Err(CallError::Elsewhere(self.home(node))),
            // A node that is stopping gives up its record: it will not promise again.
            Answer::Lapsed | Answer::GivenBack if self.is_draining() => Err(CallError::Draining),
            answer => Ok(answer),
        }
    }

    fn unanswered(&self, why: Unanswered) -> CallError {
        match why {
            Unanswered::Resting(until) => CallError::Resting(until.since(self.now())),
            Unanswered::NoArbiter => CallError::Draining,
            Unanswered::Died => {
                let why = "the actor of this key died before it answered";
                CallError::Store(StoreError::Unavailable(why.into()))
            }
            Unanswered::Arriving => CallError::IndexingSession,
            Unanswered::Elsewhere(node) | Unanswered::Other(Answer::Elsewhere(node)) => {
                CallError::Elsewhere(self.home(node))
            }
            Unanswered::Other(Answer::Lapsed) if self.is_draining() => CallError::Draining,
            Unanswered::Other(answer) => CallError::of("view", answer),
        }
    }
}
