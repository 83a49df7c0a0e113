//! The yardstick: a bare actix-web handler that takes a small JSON document and gives one back.
//!
//! What the coordinator reaches of this rate, in the same minutes on the same machine, is the
//! share of a request that the lease protocol and its durable write leave over.

use std::process::ExitCode;

use actix_web::{App, HttpResponse, HttpServer, web};
use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};

use super::acquire;
use crate::lab::Lab;
use crate::load::{Lane, interleaved};
use crate::report::Outcome;

/// The path of the handler.
const PATH: &str = "/echo";

/// The request: as large as an acquire.
#[derive(Deserialize)]
struct Ask {
    key: String,
    owner: String,
    ttl_ms: u64,
}

/// The answer.
#[derive(Deserialize, Serialize)]
struct Told {
    key: String,
    owner: String,
    token: u64,
    valid_for_ms: u64,
}

async fn handle(ask: web::Json<Ask>) -> HttpResponse {
    let Ask { key, owner, ttl_ms } = ask.into_inner();
    HttpResponse::Ok().json(Told { key, owner, token: 1, valid_for_ms: ttl_ms })
}

/// Serves until SIGTERM: the hidden `--echo-server`.
pub fn serve() -> Result<ExitCode> {
    // The coordinator's own number: one core is left to the store and the client.
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let workers = cores.saturating_sub(1).max(1);
    actix_web::rt::System::new().block_on(async move {
        let server = HttpServer::new(|| App::new().route(PATH, web::post().to(handle)))
            .workers(workers)
            .bind(("127.0.0.1", 0))?;
        for address in server.addrs() {
            eprintln!("listening on http://{address}");
        }
        server.run().await
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Runs the yardstick as a workload of its own.
pub async fn measure(lab: &Lab, connections: usize) -> Result<Outcome> {
    let target = lab.yardstick().cloned().context("the echo server was not started")?;
    let rounds = interleaved(lab, &target, connections, ask).await?;
    let outcome = Outcome::new("echo", connections, env!("CARGO_PKG_VERSION"));
    Ok(outcome.of_rounds(rounds, "echoes_per_s"))
}

/// The connection `index` that asks the echo handler.
pub async fn ask(index: usize, mut lane: Lane) {
    let owner = format!("bench-{index}");
    let mut count = 0;
    while lane.is_open() {
        count += 1;
        let body = acquire(format!("bench/{index}/{}", count % 16), &owner, 60_000);
        if let Some(told) = lane.post::<Told>(PATH, &body).await {
            lane.judge(told.token == 1, 1, "an echo of another form");
        }
    }
}
