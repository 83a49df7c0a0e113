//! A worker that writes rows while it holds a lease, and is never the second one to do so.
//!
//! It waits for the lease, begins its tenure at the table `tenure_fence`, and sends its token with every
//! row; the database refuses a token that is shut out (`docs/fencing.md`). No check before a write can do
//! that: a worker that is paused between the two writes long after its lease went to somebody else.
//!
//! ```sql
//! CREATE TABLE tenure_fence (key text PRIMARY KEY, token bigint NOT NULL);
//! CREATE TABLE entries (id bigserial, key text, writer text, token bigint);
//! ```
//!
//! ```sh
//! cargo run --example fenced_writer -- --database postgres://tenure@127.0.0.1/accounts --owner w1
//! ```
//!
//! With `--bare` it sends no token: then only a fence plugin that takes its rights away, before anybody
//! else is granted the lease, keeps it out.

use std::time::Duration;

use clap::Parser;
use tenure::{
    client::{Acquire, Client, ClientError, Grant, Owner},
    clock::{Clock, SystemClock},
    lease::Moment,
};
use tokio_postgres::NoTls;

/// What a holder sends before it writes for the first time: everybody before it is shut out.
const BEGIN: &str = "INSERT INTO tenure_fence AS fence (key, token) VALUES ($1, $2::bigint - 1) \
     ON CONFLICT (key) DO UPDATE SET token = GREATEST(fence.token, EXCLUDED.token)";
/// A row, unless the token is shut out. It holds the fence until it is committed.
const WRITE: &str = "WITH fence AS (SELECT token FROM tenure_fence WHERE key = $1 FOR SHARE) \
     INSERT INTO entries (key, writer, token) \
     SELECT $1, $3, $2::bigint WHERE (SELECT token FROM fence) < $2::bigint";
/// A row, whoever writes it.
const WRITE_BARE: &str = "INSERT INTO entries (key, writer, token) VALUES ($1, $3, $2::bigint)";
/// How long one call waits in the queue.
const WAIT_MS: u64 = 10_000;

/// Writes rows while it holds a lease.
#[derive(Debug, Parser)]
struct Args {
    /// The coordinator.
    #[arg(long, default_value = "http://127.0.0.1:7373")]
    server: String,
    /// The database.
    #[arg(long)]
    database: String,
    /// The lease.
    #[arg(long, default_value = "entries")]
    key: String,
    /// Who this is.
    #[arg(long)]
    owner: String,
    /// For how long a heartbeat keeps the lease.
    #[arg(long, default_value_t = 5_000)]
    ttl_ms: u64,
    /// How long it takes to make a row, after the lease was found to be held.
    #[arg(long, default_value_t = 500)]
    work_ms: u64,
    /// Sends no token.
    #[arg(long)]
    bare: bool,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args = Args::parse();
    let server = Client::new(&args.server)?;
    let clock = SystemClock::new();
    let (database, connection) = tokio_postgres::connect(&args.database, NoTls).await?;
    tokio::spawn(connection);
    println!("ready");

    let (grant, mut until) = wait_for(&server, &args, &clock).await?;
    let token = i64::try_from(grant.lease.token.unwrap_or_default())?;
    if !args.bare {
        database.execute(BEGIN, &[&args.key, &token]).await?;
    }
    println!("granted {token}");
    loop {
        let sent = clock.now();
        match server.heartbeat(&args.key, &grant.lease_id).await {
            Ok(alive) => until = sent + Duration::from_millis(alive.valid_for_ms),
            Err(ClientError::Unreachable { .. }) if clock.now() < until => {}
            Err(why) => {
                println!("lost {why}");
                return Ok(());
            }
        }
        if clock.now() >= until {
            println!("lost in time");
            return Ok(());
        }
        println!("working");
        tokio::time::sleep(Duration::from_millis(args.work_ms)).await;
        // Here it may have been paused for hours.
        let write = if args.bare { WRITE_BARE } else { WRITE };
        match database.execute(write, &[&args.key, &token, &args.owner]).await {
            Ok(1) => println!("written {token}"),
            Ok(_) => {
                println!("refused {token}");
                return Ok(());
            }
            Err(why) => {
                println!("shut out {why}");
                return Ok(());
            }
        }
    }
}

/// Waits for the lease, and tells until when it is held.
async fn wait_for(
    server: &Client,
    args: &Args,
    clock: &SystemClock,
) -> Result<(Grant, Moment), ClientError> {
    let owner = Owner { owner: args.owner.clone(), ttl_ms: Some(args.ttl_ms), session: None };
    let body =
        Acquire { key: args.key.clone(), owner, wait_ms: Some(WAIT_MS), ..Acquire::default() };
    loop {
        let sent = clock.now();
        match server.acquire(&body).await {
            Ok(grant) => {
                let until = sent + Duration::from_millis(grant.valid_for_ms);
                return Ok((grant, until));
            }
            Err(ClientError::Refused(problem)) if problem.retryable || problem.code == "held" => {
                tokio::time::sleep(Duration::from_millis(problem.retry_after_ms.unwrap_or(0)))
                    .await;
            }
            Err(why) => return Err(why),
        }
    }
}
