//! A program with its coordinator inside: leases, fencing tokens and ownership events without a server, a port or
//! another process.
//!
//! Three workers share five jobs; one of them falls silent, and its jobs go to the others.
//!
//! ```sh
//! cargo run --example embedding -- --data-dir /tmp/embedded
//! ```

use std::{path::PathBuf, time::Duration};

use clap::Parser;
use tenure::{
    lease::{CandidateOrder, Grant, Heartbeat, Key, Owner, Release},
    manager::{AcquireAny, AcquireError, BusEvent, Candidates, Count, Manager, Tenure},
    settings::Settings,
};
use tokio::sync::oneshot;

const JOBS: [&str; 5] = ["job/ledger", "job/mail", "job/reports", "job/search", "job/thumbnails"];
const TTL_MS: u64 = 1_000;
/// How long the program runs; the third worker is heard in the first half of it.
const ROUNDS: u32 = 12;
const ROUND: Duration = Duration::from_millis(300);

#[derive(Parser)]
struct Args {
    /// Where the coordinator keeps what it must not forget.
    #[arg(long)]
    data_dir: PathBuf,
}

/// Takes jobs while there are any, and keeps those that it has; gives which these are at the end.
async fn work(
    manager: &Manager,
    name: &str,
    rounds: u32,
) -> Result<Vec<(Key, Grant)>, AcquireError> {
    let owner = Owner::new(name).expect("a short name");
    let jobs = JOBS.map(|job| Key::new(job).expect("a short key"));
    let mut mine: Vec<(Key, Grant)> = Vec::new();
    for _ in 0..rounds {
        let any = AcquireAny {
            candidates: Candidates::Keys(jobs.to_vec()),
            order: CandidateOrder::Random,
            count: Count::UpTo(1),
            ..AcquireAny::new(owner.clone(), TTL_MS)
        };
        match manager.acquire_any(&any, manager.now()).await {
            Ok(taken) => mine.extend(taken.grants),
            Err(AcquireError::NoneAvailable(_)) => {}
            Err(other) => return Err(other),
        }
        // What this worker sends elsewhere goes with the token: who keeps the highest that it saw can refuse
        // a worker that is late.
        for (key, grant) in &mine {
            let beat = Heartbeat::new(grant.lease_id);
            if let Err(lost) = manager.heartbeat(key.as_str(), beat, manager.now()).await {
                println!("{name} lost {key}: {lost}");
            }
        }
        tokio::time::sleep(ROUND).await;
    }
    Ok(mine)
}

/// Who leaves says so: nobody waits for its leases to run out.
async fn leave(manager: &Manager, mine: Vec<(Key, Grant)>) {
    for (key, grant) in mine {
        let release = Release::new(grant.lease_id);
        let _ = manager.release(key.as_str(), release, manager.now()).await;
    }
}

fn tell(heard: &BusEvent) {
    let BusEvent::Change(published) = heard else { return };
    let (key, change) = (&published.committed.key, &published.committed.change);
    let kind = change.kind.as_str();
    let owner = change.owner.as_ref().map_or("", Owner::as_str);
    let before = change.previous.as_ref().map_or("", |(owner, _)| owner.as_str());
    println!("{key} {kind} token={} owner={owner:?} before={before:?}", change.token.0);
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut settings = Settings::default();
    settings.store.embedded.data_dir = Args::parse().data_dir;
    let tenure = Tenure::start(settings).await?;
    let mut events = tenure.subscribe()?;
    let (done, mut ended) = oneshot::channel::<()>();
    let told = tokio::spawn(async move {
        loop {
            tokio::select! {
                biased;
                Ok(heard) = events.changes.recv() => tell(&heard),
                _ = &mut ended => break,
            }
        }
    });
    let first = work(&tenure, "w1", ROUNDS);
    let second = work(&tenure, "w2", ROUNDS);
    let silent = work(&tenure, "w3", ROUNDS / 3);
    let (first, second, _) = tokio::try_join!(first, second, silent)?;
    leave(&tenure, first).await;
    leave(&tenure, second).await;
    // Publishes what was committed before it returns.
    tenure.stop().await;
    drop(done);
    Ok(told.await?)
}
