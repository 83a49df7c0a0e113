//! What no node writes: a record that says so comes from a store that lost writes or mixed them up.

use super::{record::Record, tenure::KeyState};
use crate::lease::primitives::{Epoch, Revision, Token};

impl Record {
    /// What contradicts itself in the record that has this revision, in a store with this epoch; `None` for a sound one.
    #[must_use]
    pub fn contradiction(&self, epoch: Epoch, revision: Revision) -> Option<&'static str> {
        if self.epoch > epoch {
            return Some("it was written under an epoch above the store's");
        }
        if (self.state == KeyState::Held) != self.tenure.is_some() {
            return Some("its state does not fit its tenure");
        }
        let token = self.token(revision);
        if token.epoch() > epoch || token.epoch() == epoch && token > Token::of(epoch, revision) {
            return Some("its token is above every token that the store gave out");
        }
        let ended = self.previous.as_ref().map(|ended| ended.tenure.token);
        let fenced = self.fences().iter().map(|fence| fence.token);
        let above = ended.into_iter().chain(fenced).any(|earlier| earlier > token);
        above.then_some("an earlier tenure has a higher token than the present one")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lease::{
        primitives::{Nonce, Owner},
        records::{ChangeKind, Ended, Tenure},
    };

    fn tenure(token: Token) -> Tenure {
        Tenure {
            grant_nonce: Nonce(1),
            owner: Owner::new("w").unwrap(),
            token,
            ttl_ms: 1_000,
            acquired_at_ms: 0,
            session_ref: None,
        }
    }

    fn held(token: Token, epoch: u16) -> Record {
        Record {
            state: KeyState::Held,
            epoch: Epoch(epoch),
            tenure: Some(tenure(token)),
            ..Record::absent()
        }
    }

    fn ended(token: Token) -> Option<Box<Ended>> {
        let (tenure, reason) = (tenure(token), ChangeKind::Expired);
        Some(Box::new(Ended { tenure, reason, ended_at_ms: 0, fenced: false }))
    }

    #[test]
    fn what_nodes_write_is_sound() {
        let judged = |record: &Record| record.contradiction(Epoch(1), Revision(9));
        assert_eq!(judged(&Record::absent()), None, "a key that was never held");
        assert_eq!(judged(&held(Token::OF_THIS_WRITE, 1)), None, "a grant");
        assert_eq!(judged(&held(Token::of(Epoch(1), Revision(7)), 1)), None, "a heartbeat's value");
        // A backup keeps its tokens, and the store that it is restored into counts from 1.
        assert_eq!(judged(&held(Token::of(Epoch(0), Revision(1_000)), 0)), None, "restored");
        let before = ended(Token::of(Epoch(1), Revision(8)));
        let next = Record { previous: before.clone(), ..held(Token::OF_THIS_WRITE, 1) };
        assert_eq!(judged(&next), None, "a tenure after another one");
        assert_eq!(judged(&Record { previous: before, ..Record::absent() }), None, "a free key");
    }

    #[test]
    fn what_no_node_writes_is_noticed() {
        let judged = |record: &Record| record.contradiction(Epoch(1), Revision(9)).unwrap_or("");
        assert!(judged(&held(Token::OF_THIS_WRITE, 2)).contains("epoch above"));
        let nobodys = Record { tenure: None, ..held(Token::OF_THIS_WRITE, 1) };
        assert!(judged(&nobodys).contains("does not fit"));
        let free = Record { state: KeyState::Free, ..held(Token::OF_THIS_WRITE, 1) };
        assert!(judged(&free).contains("does not fit"));
        for token in [Token::of(Epoch(1), Revision(10)), Token::of(Epoch(2), Revision(1))] {
            assert!(judged(&held(token, 1)).contains("above every token"), "{token}");
        }
        let later = ended(Token::of(Epoch(1), Revision(8)));
        let earlier = Record { previous: later, ..held(Token::of(Epoch(1), Revision(7)), 1) };
        assert!(judged(&earlier).contains("higher token"));
    }
}
