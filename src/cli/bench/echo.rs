//! The yardstick: a bare actix-web handler that takes a small JSON document and gives one back.
//!
//! What the coordinator reaches of this rate, in the same minutes on the same machine, is the
//! share of a request that the lease protocol and its durable write leave over.

use std::process::ExitCode;

use actix_web::{App, HttpResponse, HttpServer, web};
use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};

use super::drive::{Client, Verdict};
use super::json::{integer, member};
use super::lab::Lab;
use super::report::Outcome;
use super::rounds::interleaved;
use super::wire::{Answer, Target, Template};

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
#[derive(Serialize)]
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

/// Serves until SIGTERM: the hidden `bench --echo-server`.
///
/// # Errors
/// When no port can be bound.
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
///
/// # Errors
/// When it does not run.
pub async fn measure(lab: &mut Lab, connections: usize) -> Result<Outcome> {
    let target = lab.yardstick().cloned().context("the echo server was not started")?;
    let make = |_, index| EchoClient::new(&target, index);
    let rounds = interleaved(lab, &target, connections, "echo", make).await?;
    let outcome = Outcome::new("echo", connections, env!("CARGO_PKG_VERSION"));
    Ok(outcome.of_rounds(rounds, lab.args.rounds, lab.args.seconds, "echoes_per_s"))
}

/// One connection that asks the echo handler.
#[derive(Debug)]
pub struct EchoClient {
    template: Template,
    index: usize,
    count: u64,
}

impl EchoClient {
    /// The client of connection `index`.
    pub fn new(target: &Target, index: usize) -> Self {
        Self { template: target.post(PATH), index, count: 0 }
    }
}

impl Client for EchoClient {
    fn request(&mut self, out: &mut Vec<u8>) -> bool {
        use std::io::Write as _;
        self.count += 1;
        let (index, key) = (self.index, self.count % 16);
        self.template.fill(out, |body| {
            // Writing to memory cannot fail.
            let _ = write!(
                body,
                "{{\"key\":\"bench/{index}/{key}\",\"owner\":\"bench-{index}\",\"ttl_ms\":60000}}"
            );
        });
        true
    }

    fn answer(&mut self, answer: Answer<'_>) -> Verdict {
        match answer.status {
            200 if integer(answer.text(), member::TOKEN) == Some(1) => Verdict::Done(1),
            _ => Verdict::Unexpected("POST /echo"),
        }
    }
}
