//! Which handler serves which path.

use actix_web::web;

use super::{
    handlers::{
        access, acquire, acquire_all, acquire_any, admin, assignment, events, fences, heartbeats,
        leases, pools, releases, service, sessions, status, stream,
    },
    pages,
};

/// Adds every path of the API, and the pages for people.
pub fn routes(config: &mut web::ServiceConfig) {
    config
        .configure(resources)
        .configure(pages::configure)
        .default_service(web::to(service::not_found));
    #[cfg(feature = "testing")]
    config
        .route("/v1/testing/panic", web::post().to(super::testing::inject_panic))
        .route("/v1/testing/busy", web::post().to(super::testing::keep_busy))
        .route("/v1/testing/handover", web::post().to(super::testing::ask_handover));
}

/// Declares the resources of the API from their table: a row for each path, with its methods and their handlers.
macro_rules! resources {
    (@add $resource:ident, get $handler:path) => {
        $resource.route(web::get().to($handler)).route(web::head().to($handler))
    };
    (@add $resource:ident, $method:ident $handler:path) => {
        $resource.route(web::$method().to($handler))
    };
    (@allow get) => { "GET, HEAD" };
    (@allow post) => { "POST" };
    (@allow delete) => { "DELETE" };
    ($($path:literal $first:ident $handler:path $(, $method:ident $more:path)*;)*) => {
        /// Each path with each of its methods.
        #[cfg(test)]
        const TABLE: &[(&str, &str)] =
            &[$((stringify!($first), $path) $(, (stringify!($method), $path))*),*];

        fn resources(config: &mut web::ServiceConfig) {
            config$(.service({
                let resource = web::resource($path);
                let resource = resources!(@add resource, $first $handler);
                $(let resource = resources!(@add resource, $method $more);)*
                resource.default_service(web::to(|request| {
                    let allowed =
                        concat!(resources!(@allow $first) $(, ", ", resources!(@allow $method))*);
                    service::wrong_method(request, allowed)
                }))
            }))*;
        }
    };
}

resources! {
    "/v1/heartbeat" post heartbeats::heartbeat;
    "/v1/heartbeats" post heartbeats::heartbeats;
    "/v1/acquire" post acquire::acquire;
    "/v1/acquire-all" post acquire_all::acquire_all;
    "/v1/acquire-any" post acquire_any::acquire_any;
    "/v1/release" post releases::release;
    "/v1/releases" post releases::releases;
    "/v1/transfer" post releases::transfer;
    "/v1/check" post leases::check;
    "/v1/leases" get leases::list;
    "/v1/leases/{key:.*}" get leases::get;
    "/v1/events" get events::events;
    "/v1/stream" get stream::stream;
    "/v1/admin/revoke" post admin::revoke;
    "/v1/admin/pin" post admin::pin;
    "/v1/admin/unpin" post admin::unpin;
    "/v1/admin/drain" post admin::drain;
    "/v1/admin/fence-skip" post fences::fence_skip;
    "/v1/admin/fence-retry" post fences::fence_retry;
    "/v1/admin/forget" post admin::forget;
    "/v1/admin/pool" post pools::order;
    "/v1/admin/access" post access::order;
    "/v1/revocations" get access::list;
    "/v1/sessions/{id}/heartbeat" post sessions::heartbeat;
    "/v1/sessions/{id}/drain" post sessions::drain;
    "/v1/sessions" get sessions::list, post sessions::open;
    "/v1/sessions/{id}" get sessions::get, delete sessions::close;
    "/v1/pools" get pools::list;
    "/v1/pools/{pool}" get pools::get;
    "/v1/pools/{pool}/plan" get pools::plan;
    "/v1/pools/{pool}/assignment" get assignment::get;
    "/v1/pools/{pool}/assignment/changes" get assignment::changes;
    "/v1/info" get service::info;
    "/v1/nodes" get service::nodes;
    "/v1/status" get status::status;
    "/v1/status/series" get status::series;
    "/v1/top" get status::top;
    "/v1/history" get leases::history;
    "/livez" get service::livez;
    "/readyz" get service::readyz;
    "/metrics" get service::metrics;
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, fs, path::Path};

    use actix_web::http::Method;

    use super::TABLE;
    use crate::{
        access::Verb,
        http::{
            caller::{Need, need},
            openapi::document,
        },
    };

    /// The pages for people, and what each needs. The document does not have them.
    const PAGES: [(&str, Need); 9] = [
        ("/", Need::Nothing),
        ("/assets/{name}", Need::Nothing),
        ("/docs", Need::Right(&[Verb::Observe])),
        ("/docs/runbook", Need::Right(&[Verb::Observe])),
        ("/docs/runbook/{name}", Need::Right(&[Verb::Observe])),
        ("/docs/{name:.*}", Need::Right(&[Verb::Observe])),
        ("/openapi.json", Need::Right(&[Verb::Observe])),
        ("/sign-in", Need::Nothing),
        ("/sign-out", Need::Nothing),
    ];

    /// `openapi/tests.rs` says what each operation of the document needs, and the matrix of `tests/it/access` who may
    /// call it at which node.
    #[test]
    fn the_routes_are_the_operations_of_the_document() {
        let document = serde_json::to_value(document()).expect("the document is JSON");
        let paths = document["paths"].as_object().expect("paths").iter();
        let operations: BTreeSet<String> = paths
            .flat_map(|(path, operations)| {
                let methods = operations.as_object().expect("operations").keys();
                methods.map(move |method| format!("{method} {path}"))
            })
            .collect();
        let plain = |path: &str| path.replace(":.*}", "}");
        let routes: BTreeSet<String> =
            TABLE.iter().map(|(method, path)| format!("{method} {}", plain(path))).collect();
        assert_eq!(routes, operations);
        assert_eq!(routes.len(), TABLE.len(), "no route is there twice");
    }

    /// The paths that files below a folder route by themselves.
    fn routed(folder: &Path, found: &mut BTreeSet<String>) {
        for entry in fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                routed(&path, found);
            } else if path.extension().is_some_and(|kind| kind == "rs")
                && !path.ends_with("http/routes.rs")
            {
                let text = fs::read_to_string(&path).expect("a source");
                for call in [".route(\"", "resource(\"", "scope(\""] {
                    let paths = text.split(call).skip(1).filter_map(|rest| rest.split('"').next());
                    found.extend(paths.map(str::to_owned));
                }
            }
        }
    }

    #[test]
    fn every_other_route_is_a_page_that_needs_a_right_or_shows_nothing() {
        let mut found = BTreeSet::new();
        routed(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src/http"), &mut found);
        let pages: BTreeSet<String> = PAGES.iter().map(|(path, _)| (*path).to_owned()).collect();
        assert_eq!(found, pages);
        for (path, needed) in PAGES {
            let path = path.replace("{name:.*}", "index.html");
            let method = if path.starts_with("/sign") { Method::POST } else { Method::GET };
            assert_eq!(need(&method, &path), needed, "{path}");
        }
    }
}
