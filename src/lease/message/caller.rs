//! The callers that wait for the answers.

/// A caller that waits for an answer. The protocol uses nothing of it but these methods.
pub trait Caller {
    /// Whether the caller has stopped listening. A caller that is gone is never granted anything (R9).
    fn is_gone(&self) -> bool;

    /// Takes the caller's only claim before a grant is written for it. `false` when the caller is gone, or when it is a
    /// registration on several keys and another key is already being granted to it.
    fn claim(&self) -> bool;

    /// Returns the claim, if it was taken here: the write did not happen.
    fn unclaim(&self);

    /// Whether the caller is a registration on several keys, which is told of its grant and of nothing else.
    fn is_registration(&self) -> bool {
        false
    }
}
