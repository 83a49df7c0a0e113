//! Which handler serves which path.

use actix_web::web;

use super::{
    handlers::{
        acquire, acquire_any, admin, events, heartbeats, leases, pools, releases, service, sessions,
    },
    pages,
};

/// Adds every path of the API, and the pages for people.
pub fn routes(config: &mut web::ServiceConfig) {
    config
        .configure(resources)
        .configure(resources_of_sessions)
        .configure(pages::configure)
        .default_service(web::to(service::not_found));
    #[cfg(feature = "testing")]
    config
        .route("/v1/testing/panic", web::post().to(super::testing::inject_panic))
        .route("/v1/testing/busy", web::post().to(super::testing::keep_busy))
        .route("/v1/testing/handover", web::post().to(super::testing::ask_handover));
}

fn resources(config: &mut web::ServiceConfig) {
    macro_rules! resources {
        (@more $resource:expr, get $handler:path) => {
            $resource.route(web::head().to($handler))
        };
        (@more $resource:expr, post $handler:path) => {
            $resource
        };
        (@allow get) => { "GET, HEAD" };
        (@allow post) => { "POST" };
        ($($path:literal $method:ident $handler:path),* $(,)?) => {
            config$(.service(
                resources!(@more web::resource($path).route(web::$method().to($handler)), $method $handler)
                    .default_service(web::to(|request| {
                        service::wrong_method(request, resources!(@allow $method))
                    })),
            ))*
        };
    }
    resources!(
        "/v1/heartbeat" post heartbeats::heartbeat,
        "/v1/heartbeats" post heartbeats::heartbeats,
        "/v1/acquire" post acquire::acquire,
        "/v1/acquire-any" post acquire_any::acquire_any,
        "/v1/release" post releases::release,
        "/v1/releases" post releases::releases,
        "/v1/transfer" post releases::transfer,
        "/v1/check" post leases::check,
        "/v1/leases" get leases::list,
        "/v1/leases/{key:.*}" get leases::get,
        "/v1/events" get events::events,
        "/v1/admin/revoke" post admin::revoke,
        "/v1/admin/pin" post admin::pin,
        "/v1/admin/unpin" post admin::unpin,
        "/v1/admin/drain" post admin::drain,
        "/v1/admin/fence-skip" post admin::fence_skip,
        "/v1/admin/forget" post admin::forget,
        "/v1/sessions/{id}/heartbeat" post sessions::heartbeat,
        "/v1/sessions/{id}/drain" post sessions::drain,
        "/v1/pools" get pools::list,
        "/v1/pools/{pool}" get pools::get,
        "/v1/info" get service::info,
        "/v1/nodes" get service::nodes,
        "/livez" get service::livez,
        "/readyz" get service::readyz,
        "/metrics" get service::metrics,
    );
}

/// The resources with several methods.
fn resources_of_sessions(config: &mut web::ServiceConfig) {
    config
        .service(
            web::resource("/v1/sessions")
                .route(web::post().to(sessions::open))
                .route(web::get().to(sessions::list))
                .route(web::head().to(sessions::list))
                .default_service(web::to(|request| {
                    service::wrong_method(request, "GET, HEAD, POST")
                })),
        )
        .service(
            web::resource("/v1/sessions/{id}")
                .route(web::get().to(sessions::get))
                .route(web::head().to(sessions::get))
                .route(web::delete().to(sessions::close))
                .default_service(web::to(|request| {
                    service::wrong_method(request, "GET, HEAD, DELETE")
                })),
        );
}
