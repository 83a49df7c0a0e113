//! What the tests of supervision need. Not in a released binary.

use actix_web::{HttpRequest, HttpResponse, http::StatusCode, web};
use serde::{Deserialize, Serialize};

use super::{
    body::{Body, json, key},
    server::App,
};
use crate::actor::Mail;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PanicBody {
    key: String,
}

#[derive(Serialize)]
struct Injected {
    injected: bool,
}

/// Makes the key's actor panic, when it comes to this mail.
pub async fn inject_panic(
    request: HttpRequest,
    app: web::Data<App>,
    body: Body<PanicBody>,
) -> HttpResponse {
    match key(&body.0.key) {
        Ok(key) => {
            let world = app.manager.world();
            let injected = world.registry.post(world, key.as_str(), Mail::Panic).is_ok();
            json(&request, StatusCode::OK, &Injected { injected })
        }
        Err(problem) => problem.respond(&request),
    }
}
