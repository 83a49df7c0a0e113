//! Percent-encoding in paths and queries.

use std::fmt::Write as _;

use actix_web::HttpRequest;

/// The path of a request as routes match it: with its percent-encoding decoded, except for `%`, `/` and `+`. Whatever
/// depends on which handler serves a request must read this path, and never the one that was sent.
pub fn path_of(request: &HttpRequest) -> &str {
    request.match_info().as_str()
}

/// What follows `/v1/leases/` in a path as it was sent: a key, percent-encoded. The segments before it may be encoded,
/// too.
pub fn key_part(sent: &str) -> Option<&str> {
    let mut parts = sent.splitn(4, '/');
    let leads = ["", "v1", "leases"].iter().all(|segment| {
        let part = parts.next().and_then(|part| percent_decode(part.as_bytes()).ok());
        part.is_some_and(|part| part == segment.as_bytes())
    });
    parts.next().filter(|_| leads)
}

/// Encodes a text as a part of a path or of a query. With `slashes`, each `/` stays as it is, as in a key.
pub fn percent_encode(text: &str, slashes: bool, into: &mut String) {
    for byte in text.bytes() {
        let plain = byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
        if plain || (slashes && byte == b'/') {
            into.push(char::from(byte));
        } else {
            let _ = write!(into, "%{byte:02X}");
        }
    }
}

/// Decodes percent-encoding once: a decoded `%` begins no further code. Fails at a `%` without two digits.
pub fn percent_decode(raw: &[u8]) -> Result<Vec<u8>, &'static str> {
    let mut bytes = Vec::with_capacity(raw.len());
    let mut rest = raw;
    while let Some((&byte, after)) = rest.split_first() {
        if byte != b'%' {
            bytes.push(byte);
            rest = after;
            continue;
        }
        let digits = after.get(..2).filter(|digits| digits.iter().all(u8::is_ascii_hexdigit));
        let digits = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        let Some(decoded) = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) else {
            return Err("holds a % that is not followed by two hexadecimal digits");
        };
        bytes.push(decoded);
        rest = &after[2..];
    }
    Ok(bytes)
}
