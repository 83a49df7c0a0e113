//! Calls that were granted before.

use crate::lease::{
    message::{Acquire, Refusal},
    records::Record,
};

/// What an earlier call of the same request came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Repeat {
    /// The request was granted, and that grant stands.
    Stands,
    /// Nothing may be granted to the request any more.
    Refused(Refusal),
}

/// What an earlier call of this request came to; `None` if none is known.
pub(super) fn repeated(record: &Record, acquire: &Acquire) -> Option<Repeat> {
    let known = match acquire.mark {
        None => None,
        Some((id, body)) => match record.request_marks.iter().find(|mark| mark.id == id) {
            Some(mark) if mark.body != body => {
                return Some(Repeat::Refused(Refusal::RequestReused));
            }
            known => known,
        },
    };
    let nonce = known.map_or(acquire.grant_nonce, |mark| mark.grant_nonce);
    if record.tenure.as_ref().is_some_and(|tenure| tenure.grant_nonce == nonce) {
        return Some(Repeat::Stands);
    }
    let previous = record.previous.as_ref().filter(|p| p.tenure.grant_nonce == nonce);
    let spent = known.is_some() || previous.is_some();
    let how = previous.map(|previous| previous.reason);
    spent.then_some(Repeat::Refused(Refusal::RequestSpent(how)))
}
