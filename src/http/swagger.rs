//! The API page: Swagger UI, from the zip archive that its crate carries.
//!
//! Guarantees: nothing is fetched, neither at build time nor by the page.
//!
//! Assumes: whoever asks for its scripts takes gzip, as every browser does. What the archive holds is
//! compressed already, and is sent as it is.

use std::sync::LazyLock;

use actix_web::{HttpResponse, guard, http::header, web};
use bytes::Bytes;
use utoipa_swagger_ui_vendored::SWAGGER_UI_VENDORED;

use super::openapi::document;

/// The folder of the archive that a browser needs, within the folder of the release.
const FOLDER: &str = "/dist/";
/// The files of that folder that the page names, and their types.
const FILES: [(&str, &str); 5] = [
    ("swagger-ui.css", "text/css"),
    ("swagger-ui-bundle.js", "text/javascript"),
    ("swagger-ui-standalone-preset.js", "text/javascript"),
    ("favicon-16x16.png", "image/png"),
    ("favicon-32x32.png", "image/png"),
];
/// How an entry of a zip archive is kept: as it is, or deflated.
const STORED: u16 = 0;
const DEFLATED: u16 = 8;
/// Signatures of the end of a zip archive, and the lengths of what comes before names.
const END: &[u8] = b"PK\x05\x06";
const ENTRY_BYTES: usize = 46;
const LOCAL_BYTES: usize = 30;

/// A file that is ready to be sent.
#[derive(Clone)]
struct Asset {
    kind: &'static str,
    gzip: bool,
    body: Bytes,
}

/// An entry of a zip archive.
struct Entry<'a> {
    method: u16,
    checksum: [u8; 4],
    /// The length before compression.
    length: [u8; 4],
    data: &'a [u8],
}

fn number<const N: usize>(zip: &[u8], at: usize) -> Option<usize> {
    let bytes = zip.get(at..at + N)?;
    Some(bytes.iter().rev().fold(0, |sum, byte| sum << 8 | usize::from(*byte)))
}

/// The entry whose name ends so.
fn find<'a>(zip: &'a [u8], name: &str) -> Option<Entry<'a>> {
    let end = zip.windows(END.len()).rposition(|window| window == END)?;
    let mut at = number::<4>(zip, end + 16)?;
    for _ in 0..number::<2>(zip, end + 10)? {
        let named = number::<2>(zip, at + 28)?;
        let after = at + ENTRY_BYTES + named;
        if zip.get(at + ENTRY_BYTES..after)?.ends_with(name.as_bytes()) {
            let local = number::<4>(zip, at + 42)?;
            let before = number::<2>(zip, local + 26)? + number::<2>(zip, local + 28)?;
            let begin = local + LOCAL_BYTES + before;
            return Some(Entry {
                method: number::<2>(zip, at + 10)?.try_into().ok()?,
                checksum: zip.get(at + 16..at + 20)?.try_into().ok()?,
                length: zip.get(at + 24..at + 28)?.try_into().ok()?,
                data: zip.get(begin..begin + number::<4>(zip, at + 20)?)?,
            });
        }
        at = after + number::<2>(zip, at + 30)? + number::<2>(zip, at + 32)?;
    }
    None
}

impl Asset {
    fn of(kind: &'static str, entry: &Entry<'_>) -> Option<Self> {
        match entry.method {
            STORED => Some(Self { kind, gzip: false, body: Bytes::copy_from_slice(entry.data) }),
            DEFLATED => {
                // The frame of RFC 1952: no name, no time, an unknown system.
                let head = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff];
                let body = [&head[..], entry.data, &entry.checksum, &entry.length].concat();
                Some(Self { kind, gzip: true, body: body.into() })
            }
            _ => None,
        }
    }

    fn plain(kind: &'static str, body: &'static str) -> Self {
        Self { kind, gzip: false, body: Bytes::from_static(body.as_bytes()) }
    }
}

/// Every file of the page, by name.
static ASSETS: LazyLock<Vec<(&str, Asset)>> = LazyLock::new(|| {
    let index = Asset::plain("text/html", include_str!("assets/swagger/index.html"));
    let style = Asset::plain("text/css", include_str!("assets/swagger/index.css"));
    let start = Asset::plain("text/javascript", include_str!("assets/swagger/initializer.js"));
    let mut assets = vec![
        ("", index.clone()),
        ("index.html", index),
        ("index.css", style),
        ("swagger-initializer.js", start),
    ];
    assets.extend(FILES.iter().filter_map(|(name, kind)| {
        let entry = find(SWAGGER_UI_VENDORED, &format!("{FOLDER}{name}"))?;
        Some((*name, Asset::of(kind, &entry)?))
    }));
    assets
});

async fn page(name: web::Path<String>) -> HttpResponse {
    let Some((_, asset)) = ASSETS.iter().find(|(known, _)| **known == **name) else {
        return HttpResponse::NotFound().finish();
    };
    let mut answer = HttpResponse::Ok();
    if asset.gzip {
        answer.insert_header(header::ContentEncoding::Gzip);
    }
    answer.content_type(asset.kind).body(asset.body.clone())
}

async fn description() -> HttpResponse {
    static TEXT: LazyLock<Bytes> = LazyLock::new(|| {
        let text = serde_json::to_vec(&document());
        text.expect("the document is text, numbers and maps with text as keys").into()
    });
    HttpResponse::Ok().content_type("application/json").body(TEXT.clone())
}

/// Adds the page, and the document that it shows.
pub fn configure(config: &mut web::ServiceConfig) {
    config
        .service(web::resource("/openapi.json").guard(guard::Get()).to(description))
        .service(web::resource("/docs/{name:.*}").guard(guard::Get()).to(page));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_of_the_page_is_there_and_the_big_ones_are_compressed() {
        let index = include_str!("assets/swagger/index.html");
        let named = index.split('"').filter(|text| text.contains('.') && !text.contains('<'));
        for name in named.map(|name| name.trim_start_matches("./")) {
            let asset = ASSETS.iter().find(|(known, _)| *known == name);
            let (_, asset) = asset.unwrap_or_else(|| panic!("{name} is missing"));
            assert!(asset.gzip || asset.body.len() < 1024, "{name}");
            assert!(!asset.gzip || asset.body.starts_with(&[0x1f, 0x8b, 8]), "{name}");
        }
        assert_eq!(ASSETS.len(), FILES.len() + 4);
    }

    #[test]
    fn the_length_and_the_checksum_are_those_of_the_archive() {
        let entry = find(SWAGGER_UI_VENDORED, "/dist/favicon-32x32.png").unwrap();
        assert_eq!(entry.data.len(), u32::from_le_bytes(entry.length) as usize);
        assert_eq!(crc32fast::hash(entry.data), u32::from_le_bytes(entry.checksum));
        assert!(find(SWAGGER_UI_VENDORED, "/dist/nothing").is_none());
        assert!(find(b"PK\x05\x06", "x").is_none());
    }
}
