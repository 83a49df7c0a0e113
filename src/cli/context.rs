//! What the commands share that talk to a server.

use super::{
    exit::Failure,
    output::{self, Output},
};
use crate::client::{Client, LeaseView};

/// What a command needs to talk to a server.
#[derive(Debug)]
pub(super) struct Context {
    pub(super) client: Client,
    pub(super) output: Output,
}

/// Runs a command that keeps leases, and says at once when a server denies their heartbeats.
pub(super) async fn telling<T>(client: &Client, command: impl Future<Output = T>) -> T {
    let mut denials = client.denials();
    tokio::pin!(command);
    loop {
        tokio::select! {
            biased;
            done = &mut command => return done,
            Ok(()) = denials.changed() => {
                let told = denials.borrow_and_update().clone();
                told.iter().for_each(|told| output::talk(told));
            }
        }
    }
}

impl Context {
    /// Prints an answer: a lease in it as rows, and every other field as it is.
    pub(super) fn answer(&self, answer: &serde_json::Value) -> Result<(), Failure> {
        let mut rows = Vec::new();
        for (name, value) in answer.as_object().into_iter().flatten() {
            match serde_json::from_value::<LeaseView>(value.clone()) {
                Ok(lease) => rows.extend(output::lease_rows(&lease)),
                Err(_) => rows.push((name.clone(), output::plain(value))),
            }
        }
        Ok(self.output.record(answer, &rows)?)
    }
}
