//! Prepares for the keys that a member of a pool is to have next, and waits for each of them.
//!
//! Guarantees: the wait for a key begins before the server is told that the member is prepared. So the write that ends the
//! holder's tenure can grant the key to this member.

use std::{
    collections::HashMap,
    pin::{Pin, pin},
    sync::Arc,
    time::Duration,
};

use tokio::{sync::watch, task::JoinSet, time::sleep};
use tokio_util::task::TaskTracker;

use super::{Hold, Lease, Preparation, Session};
use crate::api::Code;

/// How long one call waits for a key.
const WAIT: Duration = Duration::from_secs(30);
/// The pause after a failed call.
const PAUSE: Duration = Duration::from_millis(200);
/// How long to wait for the answer with the key once the server asks for it no more: it may be on its way.
const GRACE: Duration = Duration::from_secs(2);

/// What prepares for a key.
pub(super) type Prepare =
    Arc<dyn Fn(Preparation) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync>;

/// The preparations of one member.
pub(super) struct Warming {
    session: Arc<Session>,
    prepare: Prepare,
    changes: watch::Receiver<u64>,
    /// The tokens of the tenures after which the keys are to be had.
    begun: HashMap<String, u64>,
    tasks: JoinSet<Option<Lease>>,
    running: TaskTracker,
}

impl Warming {
    pub fn new(session: &Arc<Session>, prepare: Prepare, running: TaskTracker) -> Self {
        let mut changes = session.preparations_changed();
        changes.mark_changed();
        let (begun, tasks) = (HashMap::new(), JoinSet::new());
        Self { session: session.clone(), prepare, changes, begun, tasks, running }
    }

    /// Resolves with the next lease that was handed over after a preparation.
    pub async fn next(&mut self) -> Lease {
        loop {
            tokio::select! {
                Some(done) = self.tasks.join_next() => if let Ok(Some(lease)) = done {
                    return lease;
                },
                Ok(()) = self.changes.changed() => self.begin(),
                else => std::future::pending().await,
            }
        }
    }

    fn begin(&mut self) {
        let asked = self.session.preparations();
        self.begun.retain(|key, token| asked.iter().any(|it| it.key == *key && it.token == *token));
        for preparation in asked {
            let Preparation { key, token, .. } = &preparation;
            if self.begun.insert(key.clone(), *token) != Some(*token) {
                let (session, changes) = (self.session.clone(), self.changes.clone());
                let prepared = warm(session, changes, self.prepare.clone(), preparation);
                self.tasks.spawn(self.running.track_future(prepared));
            }
        }
    }
}

/// Prepares for a key, and waits for it. Ends without it when another call of this member is granted it, or when the
/// member is to have it no more.
async fn warm(
    session: Arc<Session>,
    changes: watch::Receiver<u64>,
    prepare: Prepare,
    preparation: Preparation,
) -> Option<Lease> {
    let mut over = pin!(asked_no_more(&session, changes, &preparation));
    tokio::select! {
        biased;
        () = prepare(preparation.clone()) => {}
        () = &mut over => return None,
    }
    tracing::debug!(key = preparation.key, "prepared for a key");
    let had = async {
        loop {
            let hold = Hold::key(preparation.key.as_str()).wait(WAIT);
            let asking = session.hold(hold);
            // This is in time: the call below is on its way before the server has stored what it is told.
            session.prepared(&preparation);
            match asking.await {
                Ok(lease) => return Some(lease),
                Err(error) if matches!(error.code(), Some(Code::HeldByYou)) => return None,
                Err(error) => {
                    tracing::debug!(key = preparation.key, %error, "cannot wait for a key");
                    sleep(PAUSE).await;
                }
            }
        }
    };
    let gone = async {
        over.await;
        sleep(GRACE).await;
    };
    tokio::select! {
        biased;
        had = had => had,
        () = gone => None,
    }
}

async fn asked_no_more(
    session: &Session,
    mut changes: watch::Receiver<u64>,
    preparation: &Preparation,
) {
    while session.is_to_have(&preparation.key, preparation.token) {
        if changes.changed().await.is_err() {
            return;
        }
    }
}
