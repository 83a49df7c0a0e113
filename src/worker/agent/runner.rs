//! Runs the scripts: the guardian, its slots, and the will.

use std::{ffi::OsString, path::PathBuf, sync::Arc, time::Duration};

use serde_json::json;
use tokio::sync::mpsc;

use super::{charge::Charge, event::Event, script_queue::ScriptQueue};
use crate::{
    client::{Client, Lease},
    worker::{
        PrivateDir,
        guard::{Input, RunId, Script, ScriptOutcome},
        guardian::{Guardian, Slot, Task, own_program},
    },
};

/// The lease file in the private directory.
const LEASE_FILE: &str = "lease.json";

pub(super) struct Runner {
    charge: Arc<Charge>,
    /// Variables that let scripts call the same servers.
    servers: Vec<(&'static str, OsString)>,
    /// Arguments with which the will calls them with the same token.
    token_arguments: Vec<OsString>,
    program: Option<PathBuf>,
    events: mpsc::Sender<Event>,
    dir: PrivateDir,
    guardian: Guardian,
    checks: ScriptQueue,
    changes: ScriptQueue,
    check_slot: Arc<Slot>,
    /// The slot for scripts that change something. It has the will while the service may be active.
    activation: Arc<Slot>,
    /// The number of the current activation.
    number: u64,
    armed: bool,
    token: Option<u64>,
}

impl Runner {
    pub(super) async fn new(
        charge: Arc<Charge>,
        client: &Client,
        program: Option<PathBuf>,
        events: mpsc::Sender<Event>,
    ) -> Result<Self, String> {
        let (dir, guardian) = start(program.clone()).await?;
        let (checks, changes) =
            (ScriptQueue::new(events.clone()), ScriptQueue::new(events.clone()));
        let (check_slot, activation) = (slot(&guardian, &charge), slot(&guardian, &charge));
        let number = 0;
        let (armed, token) = (false, None);
        Ok(Self {
            charge,
            servers: client.environment().to_vec(),
            token_arguments: client.token_arguments(),
            program,
            events,
            dir,
            guardian,
            checks,
            changes,
            check_slot,
            activation,
            number,
            armed,
            token,
        })
    }

    /// Starts a new guardian in place of one that is gone.
    pub(super) async fn renew(&mut self) -> Result<(), String> {
        let (dir, guardian) = start(self.program.clone()).await?;
        (self.check_slot, self.activation) =
            (slot(&guardian, &self.charge), slot(&guardian, &self.charge));
        (self.dir, self.guardian, self.armed) = (dir, guardian, false);
        self.number += 1;
        Ok(())
    }

    pub(super) fn guardian(&self) -> Guardian {
        self.guardian.clone()
    }

    pub(super) async fn finish(&self) {
        self.guardian.clone().finish().await;
    }

    pub(super) fn is_activation(&self, number: u64) -> bool {
        self.number == number
    }

    /// Sets the lease that the scripts are told about.
    pub(super) fn know(&mut self, lease: Option<&Lease>) {
        let Some(lease) = lease else { return self.dir.remove(LEASE_FILE) };
        self.token = Some(lease.token());
        let file = json!({
            "key": lease.key(), "token": lease.token(), "owner": lease.owner(),
            "lease_id": lease.lease_id(), "deadline_boottime_ms": lease.deadline_boottime_ms(),
        });
        if let Err(error) = self.dir.write(LEASE_FILE, file.to_string().as_bytes()) {
            tracing::warn!(%error, "cannot write the lease file; scripts may see an old deadline");
        }
    }

    pub(super) fn run(&mut self, run: RunId, script: Script, timeout: Duration) {
        let task = self.task(script, timeout);
        let taken = match script {
            Script::Healthcheck { .. } => self.checks.run(run, task, self.check_slot.clone()),
            Script::Deactivate => {
                // The deactivation has a time-out of its own, and must run even after the deadline. The will stays,
                // in case this process dies meanwhile.
                self.activation.deadline(None);
                self.changes.run(run, task, self.activation.clone())
            }
            Script::Fence | Script::Activate => {
                self.changes.run(run, task, self.activation.clone())
            }
        };
        if !taken {
            let (events, failed) = (self.events.clone(), Input::Ended(run, ScriptOutcome::Failed));
            tokio::spawn(async move { events.send(Event::Input(failed)).await });
        }
    }

    pub(super) fn kill(&self, run: RunId) {
        self.checks.kill(run);
        self.changes.kill(run);
    }

    /// Sets the deadline by which the guardian must have run the will, as a reading of the boot clock in milliseconds.
    pub(super) fn arm(&mut self, deadline_ms: u64) {
        if !std::mem::replace(&mut self.armed, true) {
            // A slot whose will was run cannot have another will.
            self.activation = slot(&self.guardian, &self.charge);
            self.number += 1;
            let timeout = self.charge.settings.deactivate_timeout;
            self.activation.deadline(Some(deadline_ms));
            self.activation.will(Some(self.will(timeout)));
            let (willed, number) = (self.activation.willed_later(), self.number);
            let events = self.events.clone();
            tokio::spawn(async move {
                if willed.await {
                    let _ = events.send(Event::WillRan(number)).await;
                }
            });
        }
        self.activation.deadline(Some(deadline_ms));
    }

    pub(super) fn disarm(&mut self) {
        self.armed = false;
        self.activation.will(None);
        self.activation.deadline(None);
    }

    /// The will: another process runs the deactivation, and then releases the lease.
    fn will(&self, timeout: Duration) -> Task {
        let task = self.task(Script::Deactivate, timeout);
        let line = self.charge.scripts.deactivate.as_str();
        // The will runs in the guardian's own program.
        let mut argv = vec![own_program().into_os_string()];
        argv.push("last-will".into());
        argv.extend(self.token_arguments.iter().cloned());
        argv.extend(["--", line].map(OsString::from));
        Task { argv, ..task }
    }

    fn task(&self, script: Script, timeout: Duration) -> Task {
        let scripts = &self.charge.scripts;
        let (name, line, state) = match script {
            Script::Healthcheck { active } => {
                let state = if active { "active" } else { "standby" };
                ("healthcheck", &*scripts.healthcheck, state)
            }
            Script::Fence => ("fence", scripts.fence.as_deref().unwrap_or("true"), "standby"),
            Script::Activate => ("activate", &*scripts.activate, "active"),
            Script::Deactivate => ("deactivate", &*scripts.deactivate, "standby"),
        };
        let argv = ["/bin/sh", "-c", line, name, state].map(OsString::from).to_vec();
        let ttl = self.charge.settings.ttl.as_millis().to_string();
        let file = self.dir.path().join(LEASE_FILE);
        let mut env = vec![
            ("TENURE_KEY".to_owned(), OsString::from(&self.charge.key)),
            ("TENURE_OWNER".to_owned(), OsString::from(&self.charge.owner)),
            ("TENURE_STATE".to_owned(), OsString::from(state)),
            ("TENURE_TTL_MS".to_owned(), OsString::from(ttl)),
            ("TENURE_LEASE_FILE".to_owned(), file.into_os_string()),
        ];
        env.extend(self.servers.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
        env.extend(self.token.map(|token| ("TENURE_TOKEN".to_owned(), token.to_string().into())));
        let limit_ms = u64::try_from(timeout.as_millis()).ok();
        // The service may consist of processes that these two scripts started.
        let leaves = matches!(script, Script::Activate | Script::Deactivate);
        Task { argv, env, stdin: false, limit_ms, leaves }
    }
}

async fn start(program: Option<PathBuf>) -> Result<(PrivateDir, Guardian), String> {
    let unable = |error: std::io::Error| format!("cannot start the guardian: {error}");
    let dir = PrivateDir::new().map_err(unable)?;
    let guardian = match program {
        Some(program) => Guardian::start_program(program, &dir).await,
        None => Guardian::start(&dir).await,
    };
    Ok((dir, guardian.map_err(unable)?))
}

/// The guardian acts half a margin later than the agent, so that the agent decides first.
fn slot(guardian: &Guardian, charge: &Charge) -> Arc<Slot> {
    Arc::new(guardian.slot(Duration::ZERO, charge.settings.margin / 2))
}
