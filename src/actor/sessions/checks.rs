//! Runs the checks of a session at its home node. A session whose check failed is revoked: it is promised nothing more,
//! and ends when what it was promised has run out, even if its heartbeats arrive.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use super::{
    failing::{CheckState, FailingCheck},
    probe::probe,
    service::SessionService,
    session::Session,
};
use crate::{
    actor::{
        environment::reach::Failed,
        mail::{Mail, Reply},
    },
    lease::{Call, Check, CheckKind, Key, Request, Revoke},
    plugin::{FailureKind, excerpt},
};

/// Runs the checks of a session for as long as this value lives.
pub struct HealthChecks(Vec<tokio::task::AbortHandle>);

impl Drop for HealthChecks {
    fn drop(&mut self) {
        self.0.iter().for_each(tokio::task::AbortHandle::abort);
    }
}

impl HealthChecks {
    /// Starts the checks. Returns `None` for a session without checks.
    pub fn begin(service: &Arc<SessionService>, session: &Arc<Session>) -> Option<Self> {
        let begin = |check: &Check| {
            let state = service.sessions.failing.begin();
            let (service, session) = (Arc::downgrade(service), Arc::downgrade(session));
            actix::spawn(watch(service, session, check.clone(), state)).abort_handle()
        };
        let tasks: Vec<_> = session.spec.checks.iter().map(begin).collect();
        (!tasks.is_empty()).then_some(Self(tasks))
    }
}

async fn watch(
    service: Weak<SessionService>,
    session: Weak<Session>,
    check: Check,
    mut state: CheckState,
) {
    let (mut failures, mut steps) = (0, 0);
    loop {
        tokio::time::sleep(Duration::from_millis(check.interval_ms)).await;
        let (Some(service), Some(session)) = (service.upgrade(), session.upgrade()) else { return };
        let verdict = round(&service, &session, &check, &mut steps).await;
        service.environment.metrics.checked(check.kind.as_str(), verdict.is_ok());
        let Err((failure, detail)) = verdict else {
            failures = 0;
            state.passed();
            continue;
        };
        failures += 1;
        state.failed(FailingCheck {
            session: session.digest,
            owner: session.owner.clone(),
            kind: check.kind.as_str(),
            failures,
            fail_after: check.fail_after,
            since: service.environment.clock.now(),
            why: failure.to_string().into(),
        });
        // At `debug`, because a caller that makes a session determines how often this line is written.
        let kind = check.kind.as_str();
        let detail = service.environment.limits.checks_detail.then(|| excerpt(&detail));
        tracing::debug!(session = %session.digest, check = kind, failures, %failure, detail, "a check failed");
        if failures >= check.fail_after {
            revoke(&service, &session, &format!("check {kind}: {failure}"));
        }
    }
}

/// One round. `steps` is how often the session's progress had changed by the last round.
async fn round(
    service: &SessionService,
    session: &Session,
    check: &Check,
    steps: &mut u64,
) -> Result<(), Failed> {
    if matches!(check.kind, CheckKind::Progress) {
        let now = session.progress.steps();
        let idle = now == std::mem::replace(steps, now);
        return if idle { Err((FailureKind::Unchanged, String::new())) } else { Ok(()) };
    }
    // The time spent waiting for a place does not count as a failure of the check.
    let _place = service.sessions.checks.take(&session.owner).await;
    let limit = Duration::from_millis(check.timeout_ms);
    let tried = tokio::time::timeout(limit, probe(&service.environment, &check.kind)).await;
    tried.unwrap_or_else(|_| Err((FailureKind::TimedOut, String::new())))
}

fn revoke(service: &SessionService, session: &Session, reason: &str) {
    let (caller, _) = Reply::one(false);
    let order = Revoke {
        reason: reason.into(),
        actor: "tenure".into(),
        immediately: false,
        owner: None,
        token: None,
        floor: None,
    };
    let request = Request::Revoke(Box::new(order));
    let received = service.environment.now();
    let call = Call { caller, received, request, home_unreachable: false };
    let key = Key::of_session(session.digest);
    let _ = service.registry.post(key.as_str(), Mail::Call(call));
}
