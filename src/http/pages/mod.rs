//! Pages for people: the status page and the API page. Neither loads anything from another server.

mod guarded;
mod sign_in;
mod status;
mod swagger;

use actix_web::web;

pub fn configure(config: &mut web::ServiceConfig) {
    config.configure(status::configure).configure(sign_in::configure).configure(swagger::configure);
}
