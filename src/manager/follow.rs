//! What a holder hears at once, besides the answers to its heartbeats: that a tenure ends, or must be handed over.
//!
//! Guarantees: what a session's heartbeats announce is noticed when it is decided, if this node is the session's home
//! node. The same holds for a revocation that waits for the last promise of a lease with its own ttl, at the lease's home
//! node. The end of a tenure is noticed when it is committed, whatever its home node.
//!
//! Does not guarantee: a notice of what happened before the follower was told to keep the tenure or the session. The
//! answer to the next heartbeat tells of it.

use std::{
    collections::VecDeque,
    sync::Arc,
    task::{Context, Poll},
};

use super::{Asks, Manager};
use crate::{
    actor::{Coordinator, Ear, MAX_FOLLOWED, News, Session},
    clock::HashMap,
    lease::{ChangeKind, Key, Nonce, Token},
};

/// What a holder is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// A tenure ended in this way, without its holder's consent.
    Ended(Key, Token, ChangeKind),
    /// A tenure was revoked: no heartbeat keeps it, and it ends when its last promise has run out.
    Revoked(Key, Token),
    /// A tenure must be handed over, and is revoked after this time, in milliseconds.
    HandOver(Key, Token, u64),
    /// All that this session's heartbeats announce now.
    Session {
        /// The session's digest.
        session: Nonce,
        /// Tenures that an administrator revoked: no heartbeat keeps them.
        revoked: Vec<(Key, Token)>,
        /// What the session is asked to hand over.
        asks: Asks,
    },
    /// The session with this digest is over.
    SessionEnded(Nonce),
}

/// Follows the tenures and the sessions that one caller keeps.
pub struct Follower {
    coordinator: Arc<Coordinator>,
    ear: Arc<Ear>,
    tenures: HashMap<Key, Token>,
    sessions: HashMap<Nonce, Arc<Session>>,
    unread: VecDeque<News>,
}

impl Manager {
    /// A follower of nothing yet.
    #[must_use]
    pub fn follower(&self) -> Follower {
        Follower {
            coordinator: self.coordinator.clone(),
            ear: Arc::default(),
            tenures: HashMap::default(),
            sessions: HashMap::default(),
            unread: VecDeque::new(),
        }
    }

    /// The next notice to a follower.
    pub fn poll_notice(&self, follower: &mut Follower, context: &mut Context<'_>) -> Poll<Notice> {
        loop {
            while let Some(news) = follower.unread.pop_front() {
                if let Some(notice) = self.notice(follower, news) {
                    return Poll::Ready(notice);
                }
            }
            match follower.ear.poll_news(context) {
                Poll::Ready(news) => follower.unread = news,
                Poll::Pending => return Poll::Pending,
            }
        }
    }

    /// What the follower is told of what it heard; `None` if that is outdated.
    fn notice(&self, follower: &mut Follower, news: News) -> Option<Notice> {
        match news {
            News::Ended(key, token, kind) => {
                if follower.tenures.get(&key) != Some(&token) {
                    return None;
                }
                follower.tenures.remove(&key);
                Some(Notice::Ended(key, token, kind))
            }
            News::Revoked(key, token) => {
                (follower.tenures.get(&key) == Some(&token)).then_some(Notice::Revoked(key, token))
            }
            News::HandoverRequested(key, token) => {
                let left = self.coordinator.sessions.handovers.left_ms(&key, self.now());
                let span =
                    || self.coordinator.policy_table().of(key.as_str()).0.handover_timeout_ms;
                let left = left.unwrap_or_else(span);
                Some(Notice::HandOver(key, token, left))
            }
            News::Session(digest) => {
                let session = follower.sessions.get(&digest)?;
                if session.has_ended() {
                    follower.sessions.remove(&digest);
                    return Some(Notice::SessionEnded(digest));
                }
                let (revoked, asks) = (session.revoked(), self.asks_of(session));
                Some(Notice::Session { session: digest, revoked, asks })
            }
        }
    }
}

impl Follower {
    /// From now on, the end of this tenure is noticed.
    pub fn keep(&mut self, key: &str, token: Token) {
        if self.tenures.get(key) == Some(&token) {
            return;
        }
        let known = self.tenures.contains_key(key);
        let Ok(key) = Key::new(key) else { return };
        if known || self.tenures.len() < MAX_FOLLOWED {
            self.coordinator.followers.follow(&key, token, &self.ear);
            self.tenures.insert(key, token);
        }
    }

    /// This key's tenure is over, with its holder's consent.
    pub fn leave(&mut self, key: &str) {
        if let Some((key, _)) = self.tenures.remove_entry(key) {
            self.coordinator.followers.leave(&key, &self.ear);
        }
    }

    /// From now on, what is announced to this session is noticed, if this node is its home node.
    pub fn keep_session(&mut self, digest: Nonce) {
        let Some(session) = self.coordinator.sessions.get(digest) else { return };
        let known = self.sessions.get(&digest);
        if known.is_some_and(|known| Arc::ptr_eq(known, &session)) {
            return;
        }
        if known.is_some() || self.sessions.len() < MAX_FOLLOWED {
            session.follow(&self.ear);
            self.sessions.insert(digest, session);
        }
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        for key in self.tenures.keys() {
            self.coordinator.followers.leave(key, &self.ear);
        }
    }
}
