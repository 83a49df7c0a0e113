//! The task that reads and appends the log. One at a time, so that it always knows the log's end.

use std::{sync::Arc, time::Duration};

use tokio::{
    sync::{mpsc, oneshot},
    time::{sleep, timeout},
};

use super::{log::Appended, shared::Shared, streams};
use crate::lease::StoreError;

/// Behind what is idle the reader falls back by at most this.
const SLOWEST_POLL: Duration = Duration::from_secs(1);
/// While the table's stream says what happens, the log is looked at this often all the same.
const SAFETY_POLL: Duration = Duration::from_secs(5);
/// Between two looks at what became of the last writes, when the store is closed.
const SETTLE_PAUSE: Duration = Duration::from_millis(50);
/// Races for the log's end that are lost before the flush is put off: somebody wins each.
const MAX_LOST: u32 = 64;
/// After this many lost races in a row it is cheaper to read on than to be told one by one.
const READ_AFTER_LOST: u32 = 2;

/// What the task is asked to do.
pub(super) enum Command {
    /// Something new may be in the log.
    Look,
    /// Log everything that waits, then answer.
    Flush(oneshot::Sender<Result<(), StoreError>>),
    /// Forget everything and read the table again.
    Reload(oneshot::Sender<Result<(), StoreError>>),
}

/// Runs until the store is gone.
pub(super) async fn run(shared: Arc<Shared>, mut commands: mpsc::Receiver<Command>) {
    let mut pace = shared.options.poll_interval;
    // Another session appended lately: then who appends looks first, for a lost race costs a write.
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
                    tracing::debug!(%why, "changes wait to be logged");
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

fn keepalive_due(shared: &Shared) -> bool {
    let now_ms = shared.clock.wall_ms();
    shared.trouble().frozen.is_none() && shared.state().outbox.keepalive_due(now_ms)
}

async fn look(shared: &Shared) -> usize {
    // Trouble shows in the store's health.
    shared.read_on().await.unwrap_or(0)
}

/// Logs everything that waits.
pub(super) async fn flush(shared: &Shared, contended: bool) -> Result<(), StoreError> {
    if let Some(why) = shared.trouble().halted() {
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
                    return Err(StoreError::Unavailable("the log's end is contended".to_owned()));
                }
            }
            Appended::Failed => {
                // It may be there, or may come yet: then it is in the way of the next attempt.
                shared.read_on().await?;
                let why = "an entry of the log was not acknowledged".to_owned();
                if shared.state().head < number {
                    return Err(StoreError::Unavailable(why));
                }
            }
        }
    }
}

impl Shared {
    /// Begins no more writes, and has the log stop naming this session once all of them are in it.
    pub async fn take_leave(&self, within: Duration) -> Result<(), StoreError> {
        self.state().outbox.leave();
        let settled = async {
            loop {
                self.ask(Command::Flush, within).await?;
                if self.state().outbox.is_done() {
                    return Ok(());
                }
                sleep(SETTLE_PAUSE).await;
                let doubtful = self.state().outbox.doubtful();
                for key in doubtful {
                    let _ = self.read_lease(&key).await;
                }
            }
        };
        let unsettled = || StoreError::Unavailable("some writes are not settled yet".to_owned());
        timeout(within, settled).await.map_err(|_| unsettled())??;
        {
            let mut state = self.state();
            let me = state.me;
            state.outbox.registered = false;
            state.outbox.over.insert(me);
        }
        self.ask(Command::Flush, within).await
    }

    /// Asks the task, and waits for at most `within`.
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
            Err(_) => Err(StoreError::Unavailable(format!("not done within {within:?}"))),
        }
    }
}
