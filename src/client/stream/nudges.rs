//! Wakes the heartbeat of what a server tells of by itself.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use serde::Deserialize;
use tokio::sync::Notify;

/// A notice of a stream.
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct Told {
    /// What a notice about a lease says.
    #[serde(rename = "type", default)]
    pub(super) kind: String,
    #[serde(default)]
    pub(super) key: String,
    #[serde(default)]
    pub(super) token: Option<u64>,
    #[serde(default)]
    pub(super) deadline_ms: Option<u64>,
    /// The digest of the session that a notice is about.
    #[serde(default)]
    pub(super) session: Option<String>,
}

/// What wakes one heartbeat.
#[derive(Debug, Default)]
pub(in crate::client) struct Nudge {
    woken: Notify,
    /// The tenure that must be handed over, and within how many milliseconds.
    hand_over: Mutex<Option<(u64, u64)>>,
}

/// All that wait for notices, by their names.
#[derive(Debug, Default)]
pub(super) struct Nudges(Mutex<HashMap<String, Vec<Arc<Nudge>>>>);

/// A nudge that is known, until this is dropped.
#[derive(Debug)]
pub(in crate::client) struct Registered {
    nudges: Arc<Nudges>,
    name: String,
    nudge: Arc<Nudge>,
}

impl Nudge {
    /// Resolves when something was told. What was told while nobody waited counts.
    pub(in crate::client) async fn woken(&self) {
        self.woken.notified().await;
    }

    /// The tenure that must be handed over, and the milliseconds for it, if it was told since the last look.
    pub(in crate::client) fn hand_over(&self) -> Option<(u64, u64)> {
        self.hand_over.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Has the heartbeat sent at once.
    pub(in crate::client) fn beat(&self) {
        self.woken.notify_one();
    }

    fn wake(&self, told: Option<&Told>) {
        if let Some(Told { kind, token: Some(token), deadline_ms: Some(within), .. }) = told
            && kind == "handover-requested"
        {
            let mut hand_over = self.hand_over.lock().unwrap_or_else(PoisonError::into_inner);
            *hand_over = Some((*token, *within));
        }
        self.woken.notify_one();
    }
}

impl Nudges {
    fn all(&self) -> MutexGuard<'_, HashMap<String, Vec<Arc<Nudge>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A nudge for whatever has this name.
    pub(super) fn register(self: &Arc<Self>, name: String) -> Registered {
        let nudge = Arc::<Nudge>::default();
        self.all().entry(name.clone()).or_default().push(nudge.clone());
        Registered { nudges: self.clone(), name, nudge }
    }

    /// Whether nothing waits for notices.
    pub(super) fn is_empty(&self) -> bool {
        self.all().is_empty()
    }

    /// Wakes those that a notice is about.
    pub(super) fn tell(&self, told: &Told) {
        let name = match &told.session {
            Some(digest) => name_of_session(digest),
            None => name_of_lease(&told.key),
        };
        for nudge in self.all().get(&name).into_iter().flatten() {
            nudge.wake(Some(told));
        }
    }

    /// Wakes all: a server tells by a new stream of what was renewed by it.
    pub(super) fn wake_all(&self) {
        for nudge in self.all().values().flatten() {
            nudge.wake(None);
        }
    }
}

impl Registered {
    pub(in crate::client) fn nudge(&self) -> &Nudge {
        &self.nudge
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        let mut all = self.nudges.all();
        if let Some(known) = all.get_mut(&self.name) {
            known.retain(|nudge| !Arc::ptr_eq(nudge, &self.nudge));
            if known.is_empty() {
                all.remove(&self.name);
            }
        }
    }
}

pub(super) fn name_of_lease(key: &str) -> String {
    format!("lease {key}")
}

pub(super) fn name_of_session(digest: &str) -> String {
    format!("session {digest}")
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    fn told(json: &str) -> Told {
        serde_json::from_str(json).expect("a notice")
    }

    #[test]
    fn a_notice_wakes_whom_it_is_about_and_nobody_else() {
        let nudges = Arc::<Nudges>::default();
        let lease = nudges.register(name_of_lease("k"));
        let session = nudges.register(name_of_session("d"));
        nudges.tell(&told(r#"{"type":"ended","key":"k","token":3,"reason":"revoked"}"#));
        assert!(lease.nudge().woken().now_or_never().is_some());
        assert!(session.nudge().woken().now_or_never().is_none());
        assert_eq!(lease.nudge().hand_over(), None);
        nudges.tell(&told(r#"{"session":"d","notices":[],"ended":false}"#));
        assert!(session.nudge().woken().now_or_never().is_some());
        nudges.tell(&told(r#"{"type":"handover-requested","key":"k","token":3,"deadline_ms":7}"#));
        assert_eq!(lease.nudge().hand_over(), Some((3, 7)));
        assert_eq!(lease.nudge().hand_over(), None);
        nudges.wake_all();
        assert!(session.nudge().woken().now_or_never().is_some());
        drop((lease, session));
        assert!(nudges.all().is_empty());
    }
}
