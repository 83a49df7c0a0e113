//! What a stream follows: the leases and sessions that its own calls keep.

use std::{cell::RefCell, rc::Rc};

use actix_web::{HttpMessage as _, HttpRequest};

use crate::{
    lease::{Nonce, Token},
    manager::Follower,
};

/// In the extensions of a request that is a message of a stream: what the stream follows.
#[derive(Clone)]
pub struct Following(pub Rc<RefCell<Follower>>);

impl Following {
    /// What the stream follows that a call came by; `None` if it came by itself.
    pub fn of(request: &HttpRequest) -> Option<Self> {
        request.extensions().get::<Self>().cloned()
    }

    /// The call keeps this tenure.
    pub fn keep(&self, key: &str, token: Token) {
        self.0.borrow_mut().keep(key, token);
    }

    /// The call keeps this session.
    pub fn keep_session(&self, digest: Nonce) {
        self.0.borrow_mut().keep_session(digest);
    }
}

/// A call keeps this tenure. Whoever called by a stream hears of its end at once.
pub fn keeps(request: &HttpRequest, key: &str, token: Token) {
    if let Some(following) = Following::of(request) {
        following.keep(key, token);
    }
}

/// A call keeps this session. Whoever called by a stream hears at once of what is announced to it.
pub fn keeps_session(request: &HttpRequest, digest: Nonce) {
    if let Some(following) = Following::of(request) {
        following.keep_session(digest);
    }
}
