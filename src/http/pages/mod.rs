//! Pages for people: the page of the coordinator, the page of its API, and the runbook. Neither loads anything from another server.

mod files;
mod guarded;
mod page;
mod runbook;
mod sign_in;
mod swagger;

use actix_web::web;

pub fn configure(config: &mut web::ServiceConfig) {
    config
        .configure(page::configure)
        .configure(sign_in::configure)
        .configure(runbook::configure)
        .configure(swagger::configure);
}
