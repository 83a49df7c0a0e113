//! What a session is asked to prepare for, and what it is prepared for.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::sync::watch;

use super::Notice;
use crate::api::BeatBody;

/// A key that a member of a pool is to have next, and for which it may prepare. It does not have it yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Preparation {
    /// The key.
    pub key: String,
    /// The token of the tenure that will be handed over.
    pub token: u64,
    /// The value of the key when this began. The grant has the value that the holder leaves.
    pub value: Option<String>,
    /// The owner that holds the key.
    pub from: String,
    /// Where that owner serves its keys, if it said so.
    pub address: Option<String>,
    /// The time after which the holder is asked for the key, prepared or not.
    pub within: Duration,
}

/// The preparations of one session.
#[derive(Default)]
pub(super) struct Prepares {
    state: Mutex<State>,
    changed: watch::Sender<u64>,
}

#[derive(Default)]
struct State {
    /// What the session is asked to prepare for, by key.
    asked: BTreeMap<String, Preparation>,
    /// The keys that it is prepared for, with the tokens of the notices. Heartbeats report them.
    done: BTreeMap<String, u64>,
    /// Those that the server knows of.
    known: BTreeMap<String, u64>,
}

impl Prepares {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes what the answer to a heartbeat asks for: all that stands.
    pub fn heard(&self, notices: &[Notice]) {
        let state = &mut *self.state();
        let (mut asked, mut is_new) = (BTreeMap::new(), false);
        state.known.clear();
        for notice in notices.iter().filter(|notice| notice.kind == "handover-prepare") {
            let (Some(key), Some(token)) = (&notice.key, notice.token) else { continue };
            if notice.prepared {
                state.known.insert(key.clone(), token);
            }
            let before = state.asked.remove(key).filter(|known| known.token == token);
            is_new |= before.is_none();
            let preparation = before.unwrap_or_else(|| Preparation {
                key: key.clone(),
                token,
                value: notice.value.clone(),
                from: notice.from.clone().unwrap_or_default(),
                address: notice.address.clone(),
                within: Duration::from_millis(notice.deadline_ms.unwrap_or(0)),
            });
            asked.insert(key.clone(), preparation);
        }
        // What is left of the former ones is asked for no more.
        let is_new = is_new || !state.asked.is_empty();
        state.done.retain(|key, token| asked.get(key).is_some_and(|known| known.token == *token));
        state.asked = asked;
        if is_new {
            self.changed.send_modify(|count| *count += 1);
        }
    }

    /// From now on, heartbeats say that the session is prepared for the key after this tenure.
    pub fn done(&self, key: &str, token: u64) {
        let state = &mut *self.state();
        if state.asked.get(key).is_some_and(|known| known.token == token) {
            state.done.insert(key.to_owned(), token);
        }
    }

    /// What the session is asked to prepare for.
    pub fn asked(&self) -> Vec<Preparation> {
        self.state().asked.values().cloned().collect()
    }

    /// Whether the session is to have the key after this tenure.
    pub fn is_asked(&self, key: &str, token: u64) -> bool {
        self.state().asked.get(key).is_some_and(|known| known.token == token)
    }

    /// Changes of what it is asked for.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// The heartbeat with the keys that the session is prepared for, as long as the server does not know of them.
    pub fn report(&self, body: BeatBody) -> BeatBody {
        let state = self.state();
        let unknown = state.done.iter().filter(|(key, token)| state.known.get(*key) != Some(token));
        let prepared: Vec<String> = unknown.map(|(key, _)| key.clone()).collect();
        BeatBody { prepared: (!prepared.is_empty()).then_some(prepared), ..body }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notice(key: &str, token: u64, prepared: bool) -> Notice {
        Notice {
            kind: "handover-prepare".into(),
            key: Some(key.into()),
            token: Some(token),
            deadline_ms: Some(9),
            prepared,
            ..Notice::default()
        }
    }

    fn reported(prepares: &Prepares) -> Option<Vec<String>> {
        prepares.report(BeatBody::default()).prepared
    }

    #[test]
    fn what_is_prepared_is_reported_until_the_server_knows_it() {
        let prepares = Prepares::default();
        prepares.heard(&[notice("a", 3, false), notice("b", 4, false)]);
        assert_eq!(prepares.asked().iter().map(|it| &*it.key).collect::<Vec<_>>(), ["a", "b"]);
        prepares.done("a", 3);
        prepares.done("b", 9);
        assert_eq!(reported(&prepares), Some(vec!["a".to_owned()]));
        prepares.heard(&[notice("a", 3, true), notice("b", 4, false)]);
        assert_eq!(reported(&prepares), None);
        // Another home node may not know of it.
        prepares.heard(&[notice("a", 3, false)]);
        assert_eq!(reported(&prepares), Some(vec!["a".to_owned()]));
        assert!(prepares.is_asked("a", 3) && !prepares.is_asked("b", 4));
        // Another tenure is another preparation.
        prepares.heard(&[notice("a", 5, false)]);
        assert!(reported(&prepares).is_none() && prepares.is_asked("a", 5));
    }

    #[test]
    fn only_news_wake() {
        let prepares = Prepares::default();
        let mut changes = prepares.changes();
        let mut woken = || {
            changes.has_changed().is_ok_and(|changed| {
                changes.mark_unchanged();
                changed
            })
        };
        prepares.heard(&[]);
        assert!(!woken());
        prepares.heard(&[notice("a", 3, false)]);
        assert!(woken());
        prepares.heard(&[]);
        assert!(woken());
    }
}
