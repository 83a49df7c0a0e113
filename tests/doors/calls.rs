//! What tests of supervision and of hand-over need. Not in a released binary.

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
