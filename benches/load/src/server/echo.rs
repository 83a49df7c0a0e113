//! The yardsticks: bare actix-web handlers that take a small JSON document and give one back.
//!
//! The echo answers at once. The durable echo first appends the request to a file and waits until it is durable, in
//! one group with the requests that came meanwhile. What the coordinator reaches of these rates, in the same minutes on
//! the same machine, is the share of a request that the lease protocol leaves over.

use std::path::Path;
use std::process::ExitCode;

use actix_web::error::{ErrorBadRequest, ErrorInternalServerError};
use actix_web::{App, HttpResponse, HttpServer, web};
use anyhow::Result;
use serde::{Deserialize, Serialize};

use super::group_log::Log;

/// The size of the durable echo's file: some seconds' requests.
const LOG_SIZE: usize = 64 << 20;

/// Which of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Echo {
    /// Answers at once.
    Plain,
    /// Answers when the request is durable.
    Durable,
}

impl Echo {
    /// The path of the handler.
    pub fn path(self) -> &'static str {
        match self {
            Self::Plain => "/echo",
            Self::Durable => "/durable-echo",
        }
    }
}

/// The request: as large as an acquire.
#[derive(Deserialize)]
struct Ask {
    key: String,
    owner: String,
    ttl_ms: u64,
}

/// The answer.
#[derive(Deserialize, Serialize)]
pub struct Told {
    key: String,
    owner: String,
    /// Always 1.
    pub token: u64,
    valid_for_ms: u64,
}

impl Ask {
    fn answer(self) -> HttpResponse {
        let Self { key, owner, ttl_ms } = self;
        HttpResponse::Ok().json(Told { key, owner, token: 1, valid_for_ms: ttl_ms })
    }
}

async fn echo(ask: web::Json<Ask>) -> HttpResponse {
    ask.into_inner().answer()
}

async fn durable_echo(
    body: web::Bytes,
    log: web::Data<Log>,
) -> Result<HttpResponse, actix_web::Error> {
    let ask: Ask = serde_json::from_slice(&body).map_err(ErrorBadRequest)?;
    log.append(body).await.map_err(ErrorInternalServerError)?;
    Ok(ask.answer())
}

fn routes(config: &mut web::ServiceConfig) {
    config.route(Echo::Plain.path(), web::post().to(echo));
    config.route(Echo::Durable.path(), web::post().to(durable_echo));
}

/// Serves both until SIGTERM, the durable one with a file in `directory`: the hidden `--echo-server`.
pub fn serve(directory: &Path) -> Result<ExitCode> {
    // The coordinator's own number: one core is left to the store and the client.
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let workers = cores.saturating_sub(1).max(1);
    let log = web::Data::new(Log::create(&directory.join("echo-log"), LOG_SIZE)?);
    let app = move || App::new().app_data(log.clone()).configure(routes);
    actix_web::rt::System::new().block_on(async move {
        let server = HttpServer::new(app).workers(workers).bind(("127.0.0.1", 0))?;
        for address in server.addrs() {
            eprintln!("listening on http://{address}");
        }
        server.run().await
    })?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use actix_web::test::{TestRequest, call_and_read_body_json, init_service};

    use super::*;

    #[tokio::test]
    async fn both_answer_alike_and_only_the_durable_echo_writes_the_request() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("log");
        let log = web::Data::new(Log::create(&path, 256).unwrap());
        let app = init_service(App::new().app_data(log).configure(routes)).await;
        let ask = serde_json::json!({ "key": "a", "owner": "one", "ttl_ms": 7 });
        for echo in [Echo::Plain, Echo::Durable] {
            assert!(std::fs::read(&path).unwrap().iter().all(|byte| *byte == 0), "{echo:?}");
            let request = TestRequest::post().uri(echo.path()).set_json(&ask).to_request();
            let told: Told = call_and_read_body_json(&app, request).await;
            assert_eq!((told.key.as_str(), told.token, told.valid_for_ms), ("a", 1, 7));
        }
        let written = std::fs::read(&path).unwrap();
        assert!(written.starts_with(ask.to_string().as_bytes()), "{written:?}");
    }
}
