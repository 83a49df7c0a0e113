//! The kind `exec`: fences and is notified with a program.

use std::{collections::BTreeMap, sync::Arc};

use super::{
    contract::{FenceOrder, FencePlugin, Fencing, Notification},
    event,
    failure::{FailureKind, FenceError},
    process::run_group,
};
use crate::settings::Secret;

/// Runs a program for each try, in a process group of its own. Exit status 0 confirms. When the try's time is over, the
/// whole group is killed.
pub(super) struct Exec(Arc<Program>);

struct Program {
    program: String,
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
}

impl Exec {
    pub(super) fn new(command: &[String], environment: &BTreeMap<String, Secret>) -> Self {
        let (program, arguments) = command.split_first().expect("settings have a program");
        let own = environment.iter().map(|(name, value)| (name.clone(), value.reveal().to_owned()));
        Self(Arc::new(Program {
            program: program.clone(),
            arguments: arguments.to_vec(),
            environment: own.collect(),
        }))
    }
}

impl FencePlugin for Exec {
    fn fence(&self, order: FenceOrder) -> Fencing {
        let program = self.0.clone();
        Box::pin(async move { program.fence(&order).await })
    }

    fn notify(&self, notification: Notification) -> Fencing {
        let program = self.0.clone();
        Box::pin(async move { program.notify(&notification).await })
    }
}

impl Program {
    async fn fence(&self, order: &FenceOrder) -> Result<(), FenceError> {
        let session = order.session.map(|session| session.to_string()).unwrap_or_default();
        let (token, attempt) = (order.token.to_string(), order.attempt.to_string());
        let mut of_order = vec![
            ("TENURE_KEY", order.key.as_str()),
            ("TENURE_TOKEN", &token),
            ("TENURE_OWNER", order.owner.as_str()),
            ("TENURE_REASON", order.reason.as_str()),
            ("TENURE_SESSION", &session),
            ("TENURE_POOL", &order.pool),
            ("TENURE_ATTEMPT", &attempt),
        ];
        of_order.extend(order.traceparent.as_deref().map(|parent| ("TRACEPARENT", parent)));
        self.run(&of_order, &format!("{}\n", event::data(order))).await
    }

    async fn notify(&self, notification: &Notification) -> Result<(), FenceError> {
        let committed = notification.change.as_ref();
        let change = committed.map(|committed| &committed.change);
        let token = change.map(|change| change.token.to_string()).unwrap_or_default();
        let owner = change.and_then(|change| change.owner.as_ref());
        let previous = change.and_then(|change| change.previous.as_ref());
        let attempt = notification.attempt.to_string();
        let of_change = [
            ("TENURE_EVENT", notification.kind()),
            ("TENURE_ID", &notification.id),
            ("TENURE_KEY", committed.map_or("", |committed| committed.key.as_str())),
            ("TENURE_TOKEN", &token),
            ("TENURE_OWNER", owner.map_or("", |owner| owner.as_str())),
            ("TENURE_PREVIOUS_OWNER", previous.map_or("", |(owner, _)| owner.as_str())),
            ("TENURE_ATTEMPT", &attempt),
        ];
        self.run(&of_change, &format!("{}\n", notification.event)).await
    }

    async fn run(&self, variables: &[(&str, &str)], stdin: &str) -> Result<(), FenceError> {
        let Self { program, arguments, environment } = self;
        let own = environment.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let variables = own.chain(variables.iter().copied());
        let arguments = arguments.iter().map(String::as_str);
        let ended = run_group(program, arguments, variables, stdin.as_bytes()).await;
        let ended = ended.map_err(|why| FenceError::of(FailureKind::CannotStart, why))?;
        if ended.status.success() {
            return Ok(());
        }
        Err(FenceError::of(FailureKind::of_exit(ended.status), ended.complaint))
    }
}
