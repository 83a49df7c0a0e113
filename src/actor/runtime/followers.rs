//! Who follows single tenures. Whoever keeps leases by a stream hears at once that one of them was revoked, ended, or
//! must be handed over.
//!
//! Guarantees: a follower hears of the end of a tenure that it follows once, and then follows it no longer. Nobody waits
//! for a follower.
//!
//! Does not guarantee: that a follower hears of what happened before it followed.
//!
//! Bounded: a follower hears at most three times of each tenure, and follows at most [`MAX_FOLLOWED`].

use std::{
    collections::VecDeque,
    mem,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
};

use futures_util::task::AtomicWaker;

use crate::{
    clock::{DashMap, dash_map},
    lease::{Change, ChangeKind, Key, Nonce, Token},
};

/// The most tenures that one follower follows. It then hears of further ones as if it had no stream: a heartbeat tells.
pub const MAX_FOLLOWED: usize = 1 << 16;

/// What a follower hears.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// A tenure ended in this way, without its holder's consent.
    Ended(Key, Token, ChangeKind),
    /// A tenure was revoked, and ends when its last promise has run out.
    Revoked(Key, Token),
    /// The holder of a tenure was asked to hand it over.
    HandoverRequested(Key, Token),
    /// Something is announced to the holder of this session, or it ended.
    Session(Nonce),
}

/// What one follower was told and has not read.
#[derive(Default)]
pub struct Ear {
    news: Mutex<VecDeque<News>>,
    waker: AtomicWaker,
}

/// The tenures that somebody follows.
pub struct Followers {
    tenures: DashMap<Key, Vec<Follow>>,
    /// How many keys there are, so that a node without streams looks at nothing else.
    keys: AtomicUsize,
}

/// A tenure and one of those that follow it.
struct Follow {
    token: Token,
    ear: Arc<Ear>,
    /// Whether the follower was told that the tenure is revoked.
    told_revoked: bool,
}

impl Default for Followers {
    fn default() -> Self {
        Self { tenures: dash_map(), keys: AtomicUsize::new(0) }
    }
}

impl Ear {
    fn news(&self) -> MutexGuard<'_, VecDeque<News>> {
        self.news.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells the follower. It hears once of a session, however much there is to say of it.
    pub fn tell(&self, news: News) {
        let mut waiting = self.news();
        if !matches!(news, News::Session(_)) || !waiting.contains(&news) {
            waiting.push_back(news);
        }
        drop(waiting);
        self.waker.wake();
    }

    /// All that the follower has not read; pending if there is nothing.
    pub fn poll_news(&self, context: &Context<'_>) -> Poll<VecDeque<News>> {
        self.waker.register(context.waker());
        let news = mem::take(&mut *self.news());
        if news.is_empty() { Poll::Pending } else { Poll::Ready(news) }
    }
}

impl Followers {
    /// From now on the follower hears of this tenure.
    pub fn follow(&self, key: &Key, token: Token, ear: &Arc<Ear>) {
        let mut follows = self.tenures.entry(key.clone()).or_insert_with(|| {
            self.keys.fetch_add(1, Ordering::Relaxed);
            Vec::new()
        });
        let follow = Follow { token, ear: ear.clone(), told_revoked: false };
        match follows.iter_mut().find(|known| Arc::ptr_eq(&known.ear, ear)) {
            Some(known) if known.token == token => {}
            Some(known) => *known = follow,
            None => follows.push(follow),
        }
    }

    /// The follower hears of this key no longer.
    pub fn leave(&self, key: &Key, ear: &Arc<Ear>) {
        self.keep(key, |follow| !Arc::ptr_eq(&follow.ear, ear));
    }

    /// Keeps of a key's follows those that `stay`.
    fn keep(&self, key: &Key, mut stay: impl FnMut(&Follow) -> bool) {
        let gone = self.tenures.remove_if_mut(key, |_, follows| {
            follows.retain(&mut stay);
            follows.is_empty()
        });
        if gone.is_some() {
            self.keys.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Tells the followers of a tenure of a committed change.
    pub fn heard(&self, key: &Key, change: &Change) {
        let asks = change.kind == ChangeKind::HandoverRequested;
        if self.is_empty() || !(asks || change.kind.ends_tenure()) {
            return;
        }
        if asks {
            let Some(follows) = self.tenures.get(key) else { return };
            for follow in follows.iter().filter(|follow| follow.token == change.token) {
                follow.ear.tell(News::HandoverRequested(key.clone(), change.token));
            }
            return;
        }
        let willing = matches!(change.kind, ChangeKind::Released | ChangeKind::Transferred);
        self.keep(key, |Follow { token, ear, .. }| {
            let over = *token <= change.token;
            if *token == change.token && !willing {
                ear.tell(News::Ended(key.clone(), *token, change.kind));
            }
            !over
        });
    }

    /// Tells the followers of a tenure, once, that it is revoked.
    pub fn revoked(&self, key: &Key, token: Token) {
        if self.is_empty() {
            return;
        }
        let Some(mut follows) = self.tenures.get_mut(key) else { return };
        for follow in follows.iter_mut().filter(|it| it.token == token && !it.told_revoked) {
            follow.told_revoked = true;
            follow.ear.tell(News::Revoked(key.clone(), token));
        }
    }

    fn is_empty(&self) -> bool {
        self.keys.load(Ordering::Relaxed) == 0
    }
}

#[cfg(test)]
mod tests {
    use futures_util::task::noop_waker;

    use super::*;

    fn key() -> Key {
        Key::new("k").expect("a key")
    }

    fn change(kind: ChangeKind, token: u64) -> Change {
        let token = Token(token);
        Change {
            kind,
            seq: 1,
            owner: None,
            token,
            previous: None,
            reason: None,
            actor: None,
            session: None,
        }
    }

    fn read(ear: &Ear) -> Vec<News> {
        match ear.poll_news(&Context::from_waker(&noop_waker())) {
            Poll::Ready(news) => news.into(),
            Poll::Pending => Vec::new(),
        }
    }

    #[test]
    fn a_follower_hears_once_of_the_end_of_its_own_tenure() {
        let (followers, ear) = (Followers::default(), Arc::<Ear>::default());
        followers.follow(&key(), Token(3), &ear);
        followers.heard(&key(), &change(ChangeKind::Granted, 3));
        followers.heard(&key(), &change(ChangeKind::Expired, 2));
        assert_eq!(read(&ear), []);
        followers.heard(&key(), &change(ChangeKind::HandoverRequested, 3));
        followers.heard(&key(), &change(ChangeKind::Revoked, 3));
        followers.heard(&key(), &change(ChangeKind::Revoked, 3));
        let ended = News::Ended(key(), Token(3), ChangeKind::Revoked);
        assert_eq!(read(&ear), [News::HandoverRequested(key(), Token(3)), ended]);
        assert!(followers.tenures.is_empty());
        assert_eq!(followers.keys.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_follower_hears_once_that_its_own_tenure_is_revoked_and_then_of_its_end() {
        let (followers, ear) = (Followers::default(), Arc::<Ear>::default());
        followers.follow(&key(), Token(3), &ear);
        followers.revoked(&key(), Token(2));
        followers.revoked(&key(), Token(3));
        followers.follow(&key(), Token(3), &ear);
        followers.revoked(&key(), Token(3));
        assert_eq!(read(&ear), [News::Revoked(key(), Token(3))]);
        followers.heard(&key(), &change(ChangeKind::Revoked, 3));
        assert_eq!(read(&ear), [News::Ended(key(), Token(3), ChangeKind::Revoked)]);
        followers.follow(&key(), Token(4), &ear);
        followers.revoked(&key(), Token(4));
        assert_eq!(read(&ear), [News::Revoked(key(), Token(4))]);
    }

    #[test]
    fn who_gave_its_lease_back_or_left_hears_nothing() {
        let (followers, ear) = (Followers::default(), Arc::<Ear>::default());
        let other = Arc::<Ear>::default();
        followers.follow(&key(), Token(3), &ear);
        followers.heard(&key(), &change(ChangeKind::Released, 3));
        followers.follow(&key(), Token(4), &ear);
        followers.follow(&key(), Token(4), &other);
        followers.leave(&key(), &ear);
        followers.heard(&key(), &change(ChangeKind::Expired, 4));
        assert_eq!(read(&ear), []);
        assert_eq!(read(&other), [News::Ended(key(), Token(4), ChangeKind::Expired)]);
        assert_eq!(followers.keys.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_session_is_told_of_once_until_it_is_read() {
        let ear = Ear::default();
        ear.tell(News::Session(Nonce(7)));
        ear.tell(News::Session(Nonce(7)));
        assert_eq!(read(&ear), [News::Session(Nonce(7))]);
        ear.tell(News::Session(Nonce(7)));
        assert_eq!(read(&ear).len(), 1);
    }
}
