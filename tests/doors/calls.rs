//! What tests of supervision, of hand-over and of overload need. Not in a released binary.

use std::time::Duration;

use actix_web::{HttpRequest, HttpResponse, http::StatusCode, web};
use serde::{Deserialize, Serialize};

use super::{
    answer::{Problem, json},
    app::App,
    forward::act_at_home,
    request::{Body, Bounded, key},
};
use crate::actor::Mail;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyBody {
    key: String,
}

impl Bounded for KeyBody {}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BusyBody {
    for_ms: u64,
}

impl Bounded for BusyBody {}

/// What keeps a thread busy lets other tasks have a turn after so long.
const TURN: Duration = Duration::from_millis(30);

#[derive(Serialize)]
struct Injected {
    injected: bool,
}

/// Makes the key's actor panic, when it comes to this mail.
pub async fn inject_panic(
    request: HttpRequest,
    app: web::Data<App>,
    body: Body<KeyBody>,
) -> HttpResponse {
    match key(&body.0.key) {
        Ok(key) => {
            let registry = &app.manager.coordinator().registry;
            let injected = registry.post(key.as_str(), Mail::Panic).is_ok();
            json(&request, StatusCode::OK, &Injected { injected })
        }
        Err(problem) => problem.respond(&request),
    }
}

/// Keeps this worker's thread busy, as too many calls do: each task waits for its turn.
#[expect(clippy::disallowed_methods, reason = "it is to keep the thread from other work")]
pub async fn keep_busy(
    request: HttpRequest,
    app: web::Data<App>,
    body: Body<BusyBody>,
) -> HttpResponse {
    let until = app.manager.now() + Duration::from_millis(body.0.for_ms);
    actix_web::rt::spawn(async move {
        while app.manager.now() < until {
            std::thread::sleep(TURN);
            tokio::task::yield_now().await;
        }
    });
    json(&request, StatusCode::OK, &Injected { injected: true })
}

/// Asks the holder of a key to hand it over, as a pool that balances does.
pub async fn ask_handover(
    request: HttpRequest,
    app: web::Data<App>,
    body: Body<KeyBody>,
) -> HttpResponse {
    act_at_home(&request, &app, &body.1, async |asked| {
        let key = key(&body.0.key)?;
        let asked = app.manager.ask_handover(&key, "balance", "balancer", asked).await;
        asked.map_err(|error| Problem::admin(&error, &app, Some(&key)))?;
        Ok(json(&request, StatusCode::OK, &Injected { injected: true }))
    })
    .await
}
