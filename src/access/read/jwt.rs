//! The tables `[[jwt]]`, which name issuers of JWTs, and the entries of `jwt` of a principal.

use std::time::Duration;

use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use super::{
    cells::{Cells, Placed, kind},
    file,
};
#[cfg(feature = "jwt")]
use crate::access::jwt::{Issuer, Keys};
#[cfg(not(feature = "jwt"))]
use crate::access::jwt_absent::{Issuer, Keys};
use crate::{
    access::{pattern::Pattern, subject::Subject},
    settings::parse_duration,
};

const FIELDS: &str = "issuer, keys, audience and max_age";
/// The longest file of keys, in bytes.
const MAX_KEYS_BYTES: u64 = 1 << 20;
const MAX_AGE: Duration = Duration::from_secs(24 * 3600);

/// What can be read of an issuer.
#[derive(Default)]
pub(super) struct IssuerDraft {
    pub(super) name: Option<Placed<String>>,
    audience: Option<Placed<String>>,
    max_age: Option<Duration>,
    keys: Option<Keys>,
}

impl IssuerDraft {
    pub(super) fn read(at: usize, table: &DeTable<'_>, cells: &mut Cells<'_>) -> Self {
        let mut draft = Self::default();
        for (key, value) in table {
            match &**key.get_ref() {
                "issuer" => draft.name = not_empty("jwt.issuer", value, cells),
                "audience" => draft.audience = not_empty("jwt.audience", value, cells),
                "max_age" => draft.max_age = max_age(value, cells),
                "keys" => draft.keys = keys(value, cells),
                other => {
                    let problem = format!("is unknown: an issuer has {FIELDS}");
                    cells.fault(key.span().start, &format!("jwt.{other}"), problem);
                }
            }
        }
        for (field, problem) in [
            ("issuer", "is missing: write what its JWTs have in iss"),
            ("keys", "is missing: name a file with its public keys (JWKS)"),
            ("audience", "is missing: write what JWTs for this coordinator have in aud"),
        ] {
            if !table.contains_key(field) {
                cells.fault(at, &format!("jwt.{field}"), problem);
            }
        }
        draft
    }

    /// The issuer. None if something of it is missing, which is a fault.
    pub(super) fn finish(self) -> Option<Issuer> {
        let ((name, _), (audience, _)) = (self.name?, self.audience?);
        Issuer::new(&name, &audience, self.max_age.unwrap_or(MAX_AGE), self.keys)
    }
}

fn not_empty(
    key: &str,
    value: &Spanned<DeValue<'_>>,
    cells: &mut Cells<'_>,
) -> Option<Placed<String>> {
    let (text, at) = cells.text(key, value)?;
    if text.is_empty() {
        cells.fault(at, key, "must not be empty");
        return None;
    }
    Some((text, at))
}

fn max_age(value: &Spanned<DeValue<'_>>, cells: &mut Cells<'_>) -> Option<Duration> {
    let (text, at) = cells.text("jwt.max_age", value)?;
    let span = parse_duration(&text).ok().filter(|span| !span.is_zero());
    if span.is_none() {
        cells.fault(at, "jwt.max_age", format!("{text:?} is no span of time, such as \"24h\""));
    }
    span
}

/// The keys in the file that is named, from the directory of this file on.
fn keys(value: &Spanned<DeValue<'_>>, cells: &mut Cells<'_>) -> Option<Keys> {
    let (named, at) = not_empty("jwt.keys", value, cells)?;
    let path = cells.dir.join(&named);
    cells.named.push(path.clone());
    let content = || file::guarded(&path, MAX_KEYS_BYTES, cells.user).map(|(content, _)| content);
    let read = Keys::read(content);
    read.map_err(|problem| cells.fault(at, "jwt.keys", format!("{named:?}: {problem}"))).ok()
}

/// An entry of a principal's `jwt`.
pub(super) fn subject(
    cells: &mut Cells<'_>,
    key: &str,
    value: &Spanned<DeValue<'_>>,
) -> Option<Placed<Subject>> {
    let at = value.span().start;
    let DeValue::Table(table) = value.get_ref() else {
        let problem = format!(
            "is {}, and must be a table: {{ issuer = \"https://…\", sub = \"…\" }}",
            kind(value.get_ref())
        );
        cells.fault(at, key, problem);
        return None;
    };
    let (mut issuer, mut sub) = (None, None);
    for (name, value) in table {
        let path = format!("{key}.{}", name.get_ref());
        match &**name.get_ref() {
            "issuer" => issuer = not_empty(&path, value, cells),
            "sub" => sub = pattern(&path, value, cells),
            _ => cells.fault(name.span().start, &path, "is unknown: it has issuer and sub"),
        }
    }
    for (field, problem) in [
        ("issuer", "is missing: name the issuer of a table [[jwt]]"),
        ("sub", "is missing: write what its JWTs have in sub, exact or with one * at the end"),
    ] {
        if !table.contains_key(field) {
            cells.fault(at, &format!("{key}.{field}"), problem);
        }
    }
    let (issuer, _) = issuer?;
    Some((Subject { issuer: issuer.into(), sub: sub? }, at))
}

fn pattern(key: &str, value: &Spanned<DeValue<'_>>, cells: &mut Cells<'_>) -> Option<Pattern> {
    let (text, at) = cells.text(key, value)?;
    match Pattern::parse(&text) {
        Ok(pattern) => Some(pattern),
        Err(problem) => {
            cells.fault(at, key, problem);
            None
        }
    }
}
