//! `tenure last-will`: deactivates a service and releases its lease. The guardian runs it if the guard itself cannot.

use std::{path::PathBuf, time::Duration};

use clap::Args;
use serde::Deserialize;
use tokio::{process::Command, time::sleep};

use crate::{
    cli::{Exit, Failure, output::log},
    client::Client,
};

/// The pause between two tries. The guardian, which started this process, ends it when its time is over.
const PAUSE: Duration = Duration::from_millis(200);

/// Deactivate a service whose guard is gone, then give its lease back (started by `guard`).
#[derive(Clone, Debug, Args)]
pub struct LastWillArgs {
    /// Lease file [default: none, the lease expires]
    #[arg(long, env = "TENURE_LEASE_FILE", value_name = "PATH")]
    lease_file: Option<PathBuf>,
    /// Script of `guard --deactivate`
    #[arg(last = true, required = true, value_name = "SCRIPT")]
    deactivate: String,
}

#[derive(Deserialize)]
struct Held {
    key: String,
    lease_id: String,
}

impl LastWillArgs {
    pub(in crate::cli) async fn run(self, client: Client) -> Result<Exit, Failure> {
        loop {
            let mut script = Command::new("/bin/sh");
            script.args(["-c", &self.deactivate, "deactivate", "standby"]);
            match script.status().await {
                Ok(status) if status.success() => break,
                Ok(status) => log(&format!("guard: ALARM: the deactivation failed: {status}")),
                Err(error) => log(&format!("guard: ALARM: the deactivation cannot start: {error}")),
            }
            sleep(PAUSE).await;
        }
        // The service is inactive, so another agent can have the lease at once, without waiting for its end.
        let file = self.lease_file.and_then(|path| std::fs::read(path).ok());
        let held = file.and_then(|text| serde_json::from_slice::<Held>(&text).ok());
        if let Some(Held { key, lease_id }) = held {
            client.release(&key, &lease_id, None).await?;
        }
        Ok(Exit::Done)
    }
}
