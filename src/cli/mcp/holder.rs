//! The holder for whom the tools act: its name, and the leases that it claimed.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{task::JoinSet, time::timeout};

use super::{
    answer::{Answer, Claimed},
    loss,
    view::{quoted, seconds},
};
use crate::{
    cli::output::talk,
    client::{Client, ClientError, Lease, LeaseView},
    clock::Clock as _,
};

/// How long a call waits for an answer, beyond the time that the agent wants it to wait.
pub(super) const ANSWER: Duration = Duration::from_secs(8);
/// The most leases that one agent holds. An agent that needs more holds them by mistake.
pub(super) const MOST_LEASES: usize = 256;

/// The holder of this process's leases.
#[derive(Debug)]
pub(super) struct Holder {
    pub(super) client: Client,
    /// The owner of every lease.
    pub(super) owner: String,
    /// How long a lease lasts without a heartbeat, by default.
    pub(super) ttl: Duration,
    leases: Mutex<Leases>,
}

/// The leases that were claimed and not given back, lost ones as well.
#[derive(Debug, Default)]
struct Leases {
    by_key: BTreeMap<String, Entry>,
    /// Whether the process ends. Then nothing is added.
    closed: bool,
}

#[derive(Debug)]
struct Entry {
    lease: Arc<Lease>,
    /// Whether the agent was told that it is lost.
    told_loss: bool,
    /// Whether the agent was told that it must be handed over.
    told_hand_over: bool,
}

impl Entry {
    fn is_lost(&self) -> bool {
        !self.lease.valid()
    }
}

impl Holder {
    pub(super) fn new(client: Client, owner: String, ttl: Duration) -> Self {
        Self { client, owner, ttl, leases: Mutex::default() }
    }

    fn leases(&self) -> MutexGuard<'_, Leases> {
        self.leases.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was claimed under this key and not given back.
    pub(super) fn lease(&self, key: &str) -> Option<Arc<Lease>> {
        self.leases().by_key.get(key).map(|entry| entry.lease.clone())
    }

    /// All that was claimed and not given back, in the order of the keys.
    pub(super) fn all(&self) -> Vec<Arc<Lease>> {
        self.leases().by_key.values().map(|entry| entry.lease.clone()).collect()
    }

    /// Whether this is a tenure of this process, as far as it knows.
    pub(super) fn holds(&self, key: &str, token: Option<u64>) -> bool {
        self.lease(key).is_some_and(|lease| lease.valid() && Some(lease.token()) == token)
    }

    /// Whether there is room for one more lease. If not, lost leases make room.
    pub(super) fn has_room(&self) -> bool {
        let mut leases = self.leases();
        let by_key = &mut leases.by_key;
        if by_key.len() >= MOST_LEASES {
            by_key.retain(|_, entry| !entry.is_lost());
        }
        by_key.len() < MOST_LEASES
    }

    /// Takes a new lease in. `None` if the process ends: the lease is then given back in the background.
    pub(super) fn keep(&self, lease: Lease) -> Option<Arc<Lease>> {
        let lease = Arc::new(lease);
        let (told_loss, told_hand_over) = (false, false);
        let entry = Entry { lease: lease.clone(), told_loss, told_hand_over };
        let mut leases = self.leases();
        if leases.closed {
            return None;
        }
        leases.by_key.insert(lease.key().to_owned(), entry);
        drop(leases);
        say_when_lost(&lease);
        Some(lease)
    }

    /// Forgets a lease that was given back, unless the key was claimed again.
    pub(super) fn forget(&self, lease: &Arc<Lease>) {
        let mut leases = self.leases();
        let entry = leases.by_key.get(lease.key());
        if entry.is_some_and(|entry| Arc::ptr_eq(&entry.lease, lease)) {
            leases.by_key.remove(lease.key());
        }
    }

    /// Gives back, in the background, what a claim brought whose caller wants it no longer.
    pub(super) fn give_up(&self, claimed: &Claimed) {
        let lease = self.lease(&claimed.key).filter(|lease| lease.token() == claimed.token);
        if let Some(lease) = lease {
            self.forget(&lease);
        }
    }

    /// Notes that the agent knows that this key is lost.
    pub(super) fn told(&self, key: &str) {
        if let Some(entry) = self.leases().by_key.get_mut(key) {
            entry.told_loss = entry.is_lost();
        }
    }

    /// How long the agent has to hand a lease over, if it must.
    pub(super) fn hand_over_within(&self, lease: &Lease) -> Option<Duration> {
        let until = lease.deadline().handover?;
        Some(until.since(self.client.clock().now()))
    }

    /// What the agent must know and was not told yet.
    pub(super) fn notices(&self) -> Vec<String> {
        let mut notices = Vec::new();
        for entry in self.leases().by_key.values_mut() {
            let told = if entry.lease.valid() { None } else { entry.lease.deadline().lost };
            let hand_over = self.hand_over_within(&entry.lease).filter(|_| !entry.told_hand_over);
            match (told, hand_over) {
                (Some(cause), _) if !entry.told_loss => {
                    entry.told_loss = true;
                    if !loss::is_wanted(cause) {
                        notices.push(loss::stop(&entry.lease, cause));
                    }
                }
                (None, Some(left)) => {
                    entry.told_hand_over = true;
                    notices.push(asked_to_hand_over(&entry.lease, left));
                }
                _ => {}
            }
        }
        notices
    }

    /// The public view of a key. One that was never claimed is free.
    ///
    /// # Errors
    /// The answer to the agent, if no server says.
    pub(super) async fn look(&self, key: &str) -> Result<LeaseView, Answer> {
        let what = format!("Who has {} is not known.", quoted(key));
        match timeout(ANSWER, self.client.lease(key)).await {
            Ok(Ok(lease)) => Ok(lease),
            Ok(Err(error)) if is_unknown(&error) => Ok(never_claimed(key)),
            Ok(Err(error)) => Err(Answer::refused(&what, &error)),
            Err(_) => Err(Answer::silent(&what)),
        }
    }

    /// Gives back everything, and takes nothing in from now on.
    pub(super) async fn release_all(&self) {
        let mut leases = JoinSet::new();
        for lease in self.close() {
            leases.spawn(async move {
                if let Err(error) = lease.release().await {
                    let key = quoted(lease.key());
                    talk(&format!("{key} is not released and runs out by itself: {error}"));
                }
            });
        }
        while leases.join_next().await.is_some() {}
    }

    /// What is held, or was given back and no server was told. A lease that was lost is not released, so that the
    /// fences which its end requires run.
    fn close(&self) -> Vec<Arc<Lease>> {
        let mut leases = self.leases();
        leases.closed = true;
        let all = std::mem::take(&mut leases.by_key).into_values().map(|entry| entry.lease);
        let is_ours = |lease: &Arc<Lease>| {
            lease.valid() || lease.deadline().lost.is_some_and(loss::is_wanted)
        };
        all.filter(is_ours).collect()
    }
}

/// What an agent must do that must hand a lease over.
fn asked_to_hand_over(lease: &Lease, left: Duration) -> String {
    let (key, left) = (quoted(lease.key()), seconds(left));
    format!(
        "{key} must be handed over within {left} s. Finish or stop the work, then call \
         `hand_over`. After that time it is taken from you."
    )
}

/// The view of a key that nobody ever claimed.
pub(super) fn never_claimed(key: &str) -> LeaseView {
    LeaseView { key: key.to_owned(), state: "free".to_owned(), ..LeaseView::default() }
}

/// Whether the server says that nobody ever claimed the key.
pub(super) fn is_unknown(error: &ClientError) -> bool {
    error.problem().is_some_and(|problem| problem.code == "unknown-key")
}

/// Says on standard error when a lease is lost, for those who look after the agent.
fn say_when_lost(lease: &Lease) {
    let (mut deadlines, key) = (lease.deadlines(), quoted(lease.key()));
    tokio::spawn(async move {
        // It ends with its lease.
        let Ok(told) = deadlines.wait_for(|told| told.lost.is_some()).await.map(|told| *told)
        else {
            return;
        };
        if let Some(lost) = told.lost.filter(|lost| !loss::is_wanted(*lost)) {
            talk(&format!("the lease on {key} is lost: {lost}"));
        }
    });
}
