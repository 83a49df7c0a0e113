//! The checks of a session, carried out by its home. A session whose check fails is revoked: it is promised
//! nothing more, and ends when what it was promised has run out, however well its heartbeats are.

use std::{
    sync::{Arc, Mutex, PoisonError, Weak},
    time::Duration,
};

use super::{Mail, World, sessions::Session};
use crate::lease::{Call, Check, CheckKind, Key, Request, Revoke};

/// How much of a program's complaint is kept, in bytes.
const COMPLAINT: usize = 256;

/// What the heartbeats of a session say about its work.
#[derive(Default)]
pub(super) struct Beat(Mutex<(Box<str>, u64)>);

impl Beat {
    pub fn progressed(&self, progress: &str) {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if *last.0 != *progress {
            *last = (progress.into(), last.1 + 1);
        }
    }

    /// How often the work was seen to have come further.
    fn steps(&self) -> u64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).1
    }
}

/// Carries out the checks of a session for as long as the guard is kept.
pub(super) struct Warden(Vec<tokio::task::AbortHandle>);

impl Drop for Warden {
    fn drop(&mut self) {
        self.0.iter().for_each(tokio::task::AbortHandle::abort);
    }
}

impl Warden {
    /// Begins. There is nothing to keep for a session without checks.
    pub fn begin(world: &Arc<World>, session: &Arc<Session>) -> Option<Self> {
        let begin = |check: &Check| {
            let (world, session) = (Arc::downgrade(world), Arc::downgrade(session));
            actix::spawn(watch(world, session, check.clone())).abort_handle()
        };
        let tasks: Vec<_> = session.spec.checks.iter().map(begin).collect();
        (!tasks.is_empty()).then_some(Self(tasks))
    }
}

async fn watch(world: Weak<World>, session: Weak<Session>, check: Check) {
    let mut failures = 0;
    let mut steps = 0;
    loop {
        tokio::time::sleep(Duration::from_millis(check.interval_ms)).await;
        let (Some(world), Some(session)) = (world.upgrade(), session.upgrade()) else { return };
        let verdict = match &check.kind {
            CheckKind::Progress => {
                let now = session.beat.steps();
                let idle = now == std::mem::replace(&mut steps, now);
                if idle { Err("the reported progress did not change".to_owned()) } else { Ok(()) }
            }
            kind => {
                // Waiting for a place is no failure of whoever is checked.
                let _place = world.sessions.checks.take(&session.owner).await;
                let limit = Duration::from_millis(check.timeout_ms);
                let tried = tokio::time::timeout(limit, carry_out(&world, kind)).await;
                tried.unwrap_or_else(|_| Err(format!("no answer within {} ms", check.timeout_ms)))
            }
        };
        world.metrics.checked(check.kind.as_str(), verdict.is_ok());
        let Err(why) = verdict else {
            failures = 0;
            continue;
        };
        failures += 1;
        tracing::info!(session = %session.digest, check = check.kind.as_str(), failures, why, "a check failed");
        if failures >= check.fail_after {
            revoke(&world, &session, &format!("check {}: {why}", check.kind.as_str()));
        }
    }
}

/// One round, which ends with its future.
async fn carry_out(world: &World, kind: &CheckKind) -> Result<(), String> {
    match kind {
        CheckKind::Http(url) => {
            let client = reqwest::Client::builder().no_proxy().build();
            let client = client.map_err(|error| error.to_string())?;
            let answer = client.get(&**url).send().await.map_err(|error| error.to_string())?;
            let status = answer.status();
            if status.is_success() { Ok(()) } else { Err(format!("{status}")) }
        }
        CheckKind::Tcp(address) => {
            let connected = tokio::net::TcpStream::connect(&**address).await;
            connected.map(drop).map_err(|error| error.to_string())
        }
        // Judged here: a session of an earlier run, or of another node, was made under other settings.
        CheckKind::Exec(_) if !world.limits.exec_checks => {
            Err("this coordinator runs no programs (limits.exec_checks)".to_owned())
        }
        CheckKind::Exec(command) => exec(command).await,
        CheckKind::Progress => Ok(()),
    }
}

/// Runs a program in a process group of its own, which ends with the future.
async fn exec(command: &[Box<str>]) -> Result<(), String> {
    let Some((program, arguments)) = command.split_first() else { return Ok(()) };
    let arguments = arguments.iter().map(|argument| &**argument);
    let ended = crate::plugin::run_group(program, arguments, [], b"").await?;
    if ended.status.success() {
        return Ok(());
    }
    let complaint: String = ended.complaint.chars().take(COMPLAINT).collect();
    Err(format!("{}: {complaint}", ended.status))
}

fn revoke(world: &Arc<World>, session: &Session, reason: &str) {
    let (caller, _) = super::Reply::one();
    let order = Revoke {
        reason: reason.into(),
        actor: "tenure".into(),
        immediately: false,
        owner: None,
        token: None,
        floor: None,
    };
    let request = Request::Revoke(Box::new(order));
    let call = Call { caller, received: world.now(), request, stranded: false };
    let key = Key::of_session(session.digest);
    let _ = world.registry.post(world, key.as_str(), Mail::Call(call));
}
