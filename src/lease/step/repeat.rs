//! Calls that were granted before.

use crate::lease::{
    message::{Acquire, Refusal},
    records::Record,
};

/// Whether this request was granted before; `Some(None)` when that grant still stands.
pub(super) fn repeated(record: &Record, acquire: &Acquire) -> Option<Option<Refusal>> {
    let known = match acquire.mark {
        None => None,
        Some((id, body)) => match record.request_marks.iter().find(|mark| mark.id == id) {
            Some(mark) if mark.body != body => return Some(Some(Refusal::RequestReused)),
            known => known,
        },
    };
    let nonce = known.map_or(acquire.grant_nonce, |mark| mark.grant_nonce);
    if record.tenure.as_ref().is_some_and(|tenure| tenure.grant_nonce == nonce) {
        return Some(None);
    }
    let previous = record.previous.as_ref().filter(|p| p.tenure.grant_nonce == nonce);
    let spent = known.is_some() || previous.is_some();
    spent.then_some(Some(Refusal::RequestSpent(previous.map(|previous| previous.reason))))
}
