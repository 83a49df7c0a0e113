//! The task that reads and appends the log. There is only one, so it always knows the log's end.

use std::{sync::Arc, time::Duration};

use tokio::{
    sync::{mpsc, oneshot},
    time::{sleep, timeout},
};

use super::{command::Command, log::Appended, shared::DynamoShared, streams};
use crate::lease::StoreError;

/// The longest interval between queries of an idle log.
const SLOWEST_POLL: Duration = Duration::from_secs(1);
/// How often the log is queried while the table's stream reports changes.
const SAFETY_POLL: Duration = Duration::from_secs(5);
/// The pause between two reads of writes of unknown outcome, when the store is closed.
const SETTLE_PAUSE: Duration = Duration::from_millis(50);
/// How many lost races for the log's end postpone a flush. Each race has a winner.
const MAX_LOST: u32 = 64;
/// After this many lost races in a row, reading on is cheaper than losing once per entry.
const READ_AFTER_LOST: u32 = 2;

/// Runs until the store is dropped.
pub(super) async fn run(shared: Arc<DynamoShared>, mut commands: mpsc::Receiver<Command>) {
    let mut pace = shared.options.poll_interval;
    // Another session appended lately. Then a session should read before it appends, because a lost race costs a
    // write.
    let mut contended = false;
    loop {
        let wait = if streams::healthy(&shared) { SAFETY_POLL } else { pace };
        let found = tokio::select! {
            command = commands.recv() => match command {
                None => return,
                Some(Command::Look) => look(&shared).await,
                Some(Command::Flush(reply)) => {
                    let _ = reply.send(flush(&shared, contended).await);
                    0
                }
                Some(Command::Reload(reply)) => {
                    let _ = reply.send(shared.reload().await);
                    0
                }
            },
            () = shared.to_log.notified() => {
                sleep(shared.options.flush_interval).await;
                let before = shared.state().head;
                let flushed = flush(&shared, contended).await;
                if let Err(why) = &flushed {
                    tracing::debug!(%why, "cannot log changes; retrying");
                    sleep(shared.options.poll_interval).await;
                    shared.to_log.notify_one();
                }
                let head = shared.state().head;
                usize::try_from(head - before.min(head)).unwrap_or(0)
            },
            () = sleep(wait) => {
                let found = look(&shared).await;
                if keepalive_due(&shared) {
                    shared.to_log.notify_one();
                }
                found
            }
        };
        if found > 0 {
            contended = {
                let state = shared.state();
                state.head_by != state.me
            };
            pace = shared.options.poll_interval;
        } else {
            let slowest = SLOWEST_POLL.max(shared.options.poll_interval);
            pace = (pace + pace / 4).min(slowest);
        }
        if pace >= SLOWEST_POLL {
            contended = false;
        }
    }
}

fn keepalive_due(shared: &DynamoShared) -> bool {
    let now_ms = shared.clock.wall_ms();
    shared.recent_failures().frozen.is_none() && shared.state().outbox.keepalive_due(now_ms)
}

async fn look(shared: &DynamoShared) -> usize {
    // A failure shows in the store's health.
    shared.read_on().await.unwrap_or(0)
}

/// Writes everything that waits into the log.
pub(super) async fn flush(shared: &DynamoShared, contended: bool) -> Result<(), StoreError> {
    if let Some(why) = shared.recent_failures().halted() {
        return Err(StoreError::Unavailable(why.to_owned()));
    }
    if contended {
        shared.read_on().await?;
    }
    let mut lost = 0;
    loop {
        let next = {
            let mut state = shared.state();
            let now_ms = shared.clock.wall_ms();
            state.compose(now_ms).map(|entry| (state.head + 1, entry))
        };
        let Some((number, entry)) = next else { return Ok(()) };
        match shared.append(number, entry).await {
            Appended::Yes => lost = 0,
            Appended::Lost(winner) => {
                lost += 1;
                let follows = winner.is_some_and(|read| shared.take(read));
                if !follows || lost >= READ_AFTER_LOST {
                    let pause = shared.jitter(shared.options.flush_interval);
                    sleep(pause).await;
                    shared.read_on().await?;
                }
                if lost > MAX_LOST {
                    return Err(StoreError::Unavailable("too many nodes write the log".to_owned()));
                }
            }
            Appended::Failed => {
                // The entry may be there, or may land later. Then it is in the way of the next attempt.
                shared.read_on().await?;
                let why = "a write into the log was not acknowledged".to_owned();
                if shared.state().head < number {
                    return Err(StoreError::Unavailable(why));
                }
            }
        }
    }
}

impl DynamoShared {
    /// Begins no more writes. Once all writes are logged, makes the log stop naming this session.
    pub async fn take_leave(&self, within: Duration) -> Result<(), StoreError> {
        self.state().outbox.leave();
        let settled = async {
            loop {
                self.ask(Command::Flush, within).await?;
                if self.state().outbox.is_done() {
                    return Ok(());
                }
                sleep(SETTLE_PAUSE).await;
                let unresolved = self.state().outbox.unresolved();
                for key in unresolved {
                    let _ = self.read_lease(&key).await;
                }
            }
        };
        let unsettled = || StoreError::Unavailable("some writes have no known outcome".to_owned());
        timeout(within, settled).await.map_err(|_| unsettled())??;
        {
            let mut state = self.state();
            let me = state.me;
            state.outbox.registered = false;
            state.outbox.over.insert(me);
        }
        self.ask(Command::Flush, within).await
    }

    /// Sends the task a request, and waits at most `within` for its answer.
    pub async fn ask(
        &self,
        command: impl FnOnce(oneshot::Sender<Result<(), StoreError>>) -> Command,
        within: Duration,
    ) -> Result<(), StoreError> {
        let ended = || StoreError::Unavailable("the store is closed".to_owned());
        let (reply, answer) = oneshot::channel();
        self.commands.send(command(reply)).await.map_err(|_| ended())?;
        match timeout(within, answer).await {
            Ok(answer) => answer.map_err(|_| ended())?,
            Err(_) => Err(StoreError::Unavailable(format!("no answer within {within:?}"))),
        }
    }
}
