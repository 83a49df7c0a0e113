//! The labels of a member of a pool, which may change while it runs.

use std::{collections::BTreeMap, convert::Infallible, sync::Arc, time::Duration};

use tokio::{sync::watch, time::sleep};

use super::Session;

/// How long to wait after a failed call.
const RETRY: Duration = Duration::from_secs(1);

/// Changes the labels of a [`WorkerPool`](super::WorkerPool) from outside.
#[derive(Clone, Debug, Default)]
pub struct LabelsHandle(Arc<watch::Sender<BTreeMap<String, String>>>);

impl LabelsHandle {
    /// Replaces all labels. The server is told at once, and again until it can be reached. Labels that it refuses are
    /// reported in the log, and the earlier ones hold.
    pub fn replace<N: Into<String>, V: Into<String>>(
        &self,
        labels: impl IntoIterator<Item = (N, V)>,
    ) {
        let labels = labels.into_iter().map(|(name, value)| (name.into(), value.into()));
        self.0.send_replace(labels.collect());
    }

    pub(super) fn add(&self, name: String, value: String) {
        self.0.send_modify(|labels| drop(labels.insert(name, value)));
    }

    pub(super) fn follow(&self) -> Following {
        Following(self.0.subscribe())
    }
}

/// The labels of one session.
pub(super) struct Following(watch::Receiver<BTreeMap<String, String>>);

impl Following {
    /// The labels as they are now.
    pub fn now(&mut self) -> BTreeMap<String, String> {
        self.0.borrow_and_update().clone()
    }

    /// Tells the server each change of the labels.
    pub async fn keep(mut self, session: &Session) -> Infallible {
        loop {
            if self.0.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
            while let Err(error) = session.set_labels(self.now()).await {
                if error.problem().is_some_and(|problem| !problem.retryable) {
                    tracing::error!(%error, "the server refuses the labels of this member; the earlier ones hold");
                    break;
                }
                sleep(RETRY).await;
            }
        }
    }
}
