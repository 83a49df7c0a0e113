//! The API page: Swagger UI, from a zip archive that `build.rs` makes of the one in its crate.
//!
//! Guarantees: neither the build nor the page fetches anything. The archive is unpacked at the first request for the
//! page.

use std::{
    collections::HashMap,
    io::{Cursor, Read},
    sync::LazyLock,
};

use actix_web::{HttpResponse, guard, http::header, web};
use bytes::Bytes;
use zip::ZipArchive;

use super::guarded::guarded;
use crate::http::openapi::document;

/// The policy of the API page. Swagger UI writes styles into the page.
const POLICY: &str = "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; base-uri 'none'; \
                      form-action 'none'; object-src 'none'; frame-ancestors 'none'";
/// What `build.rs` took from the archive of Swagger UI.
const ARCHIVE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/swagger-ui.zip"));
/// The script that tells the page where the document is. It replaces the archive's own.
const INITIALIZER: &str = "swagger-initializer.js";
include!("swagger_files.rs");

/// A file of the page: its type and its content.
type Asset = (&'static str, Bytes);

static ASSETS: LazyLock<HashMap<&'static str, Asset>> = LazyLock::new(|| {
    let mut assets = unpack(ARCHIVE);
    let initializer = include_bytes!("assets/swagger-initializer.js");
    assets.insert(INITIALIZER, ("text/javascript", Bytes::from_static(initializer)));
    assets
});

/// Unpacks the files that the archive has; an archive that cannot be read has none.
fn unpack(zip: &[u8]) -> HashMap<&'static str, Asset> {
    let Ok(mut archive) = ZipArchive::new(Cursor::new(zip)) else { return HashMap::new() };
    let mut assets = HashMap::new();
    for (name, kind) in FILES {
        let mut bytes = Vec::new();
        if archive.by_name(name).is_ok_and(|mut file| file.read_to_end(&mut bytes).is_ok()) {
            assets.insert(name, (kind, bytes.into()));
        }
    }
    assets
}

async fn page(name: web::Path<String>) -> HttpResponse {
    let name = if name.is_empty() { FILES[0].0 } else { name.as_str() };
    match ASSETS.get(name) {
        Some((kind, body)) => guarded(kind, POLICY).body(body.clone()),
        None => HttpResponse::NotFound().finish(),
    }
}

async fn to_page() -> HttpResponse {
    HttpResponse::Found().insert_header((header::LOCATION, "/docs/")).finish()
}

async fn description() -> HttpResponse {
    static TEXT: LazyLock<Bytes> = LazyLock::new(|| {
        let text = serde_json::to_vec(&document());
        text.expect("the document is text, numbers and maps with text as keys").into()
    });
    HttpResponse::Ok().content_type("application/json").body(TEXT.clone())
}

/// Adds the page, and the document that it displays.
pub fn configure(config: &mut web::ServiceConfig) {
    config
        .route("/docs", web::get().to(to_page))
        .service(web::resource("/openapi.json").guard(guard::Get()).to(description))
        .service(web::resource("/docs/{name:.*}").guard(guard::Get()).to(page));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_that_the_page_names_is_there() {
        let index = std::str::from_utf8(&ASSETS["index.html"].1).unwrap();
        let named = index.split('"').filter(|text| text.contains('.') && !text.contains('<'));
        let named: Vec<&str> = named.map(|name| name.trim_start_matches("./")).collect();
        assert!(named.len() >= 6 && named.contains(&INITIALIZER), "{named:?}");
        for name in named {
            assert!(ASSETS[name].1.len() > 100, "{name}");
        }
        assert_eq!(ASSETS.len(), FILES.len() + 1);
    }

    #[test]
    fn an_archive_that_cannot_be_read_has_no_files() {
        assert!(unpack(b"no archive").is_empty());
    }
}
