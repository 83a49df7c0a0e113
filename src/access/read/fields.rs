//! The fields of a principal that have fields of their own: `may` and `limit`.

use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use super::cells::{Cells, kind};
use crate::{
    access::{
        limit::Limit,
        right::{Right, Scope},
        verb::Verb,
    },
    lease::{self, MAX_KEY_BYTES},
};

const MAY: &str = "principal.may";
const VERB: &str = "principal.may.verb";
const PREFIX: &str = "principal.may.prefix";
const KEY: &str = "principal.may.key";

/// The entries of `may`.
pub(super) fn rights(value: &Spanned<DeValue<'_>>, cells: &mut Cells<'_>) -> Vec<Right> {
    let DeValue::Array(items) = value.get_ref() else {
        let problem = format!(
            "is {}, and must be a list: [{{ verb = \"read\", prefix = \"\" }}]",
            kind(value.get_ref())
        );
        cells.fault(value.span().start, MAY, problem);
        return Vec::new();
    };
    if items.is_empty() {
        cells.fault(
            value.span().start,
            MAY,
            "is empty, so it may do nothing: allow it something, or remove it",
        );
    }
    let mut rights = Vec::new();
    for item in items.iter() {
        match item.get_ref() {
            DeValue::Table(table) => rights.extend(right(item.span().start, table, cells)),
            other => {
                let problem = format!("has {}, and must have tables alone", kind(other));
                cells.fault(item.span().start, MAY, problem);
            }
        }
    }
    rights
}

fn right(at: usize, table: &DeTable<'_>, cells: &mut Cells<'_>) -> Option<Right> {
    let (mut verbs, mut prefix, mut one) = (None, None, None);
    for (key, value) in table {
        match &**key.get_ref() {
            "verb" => verbs = Some(self::verbs(value, cells)),
            "prefix" => prefix = Some((self::prefix(value, cells), key.span().start)),
            "key" => one = Some((self::key(value, cells), key.span().start)),
            other => {
                let key_of_right = format!("{MAY}.{other}");
                cells.fault(
                    key.span().start,
                    &key_of_right,
                    "is unknown: a right has verb, and prefix or key",
                );
            }
        }
    }
    let Some(verbs) = verbs else {
        cells.fault(at, VERB, format!("is missing: name one or several of {}", Verb::list()));
        return None;
    };
    if let (Some(_), Some((_, at))) = (&prefix, &one) {
        cells.fault(*at, KEY, "stands beside prefix: give the key an entry of its own");
    }
    let (keyed, without): (Vec<Verb>, Vec<Verb>) = verbs.iter().partition(|verb| verb.has_keys());
    for (field, given) in [(PREFIX, &prefix), (KEY, &one)] {
        if let (Some(verb), Some((_, at))) = (without.first(), given) {
            let problem = format!(
                "is not for {verb}, which is about no keys: give {verb} an entry of its own"
            );
            cells.fault(*at, field, problem);
        }
    }
    if let (Some(verb), None, None) = (keyed.first(), &prefix, &one) {
        let problem = format!("is missing: {verb} needs one, and \"\" is every key");
        cells.fault(at, PREFIX, problem);
    }
    let line = cells.line(at);
    let prefix = prefix.and_then(|(prefix, _)| prefix).map(Scope::Prefix);
    let one = one.and_then(|(key, _)| key).map(Scope::Key);
    Some(Right { verbs: verbs.into(), scope: one.or(prefix), line })
}

fn verbs(value: &Spanned<DeValue<'_>>, cells: &mut Cells<'_>) -> Vec<Verb> {
    let mut verbs = Vec::new();
    for (text, at) in cells.texts(VERB, value) {
        match text.parse() {
            Ok(verb) => verbs.push(verb),
            Err(problem) => cells.fault(at, VERB, problem),
        }
    }
    verbs
}

/// What keys begin with. The empty text is every key.
fn prefix(value: &Spanned<DeValue<'_>>, cells: &mut Cells<'_>) -> Option<Box<str>> {
    let (prefix, at) = cells.text(PREFIX, value)?;
    if prefix.len() > MAX_KEY_BYTES {
        let problem =
            format!("is {} bytes long; no key has more than {MAX_KEY_BYTES}", prefix.len());
        cells.fault(at, PREFIX, problem);
    }
    if let Some(byte) = prefix.find(char::is_control) {
        cells.fault(
            at,
            PREFIX,
            format!("holds a control character at byte {byte}, which no key has"),
        );
    }
    if prefix.ends_with('*') {
        let problem = "ends in a *, which is a character like others here: leave it out";
        cells.fault(at, PREFIX, problem);
    }
    Some(prefix.into())
}

/// One key. It is not a pattern.
fn key(value: &Spanned<DeValue<'_>>, cells: &mut Cells<'_>) -> Option<Box<str>> {
    let (key, at) = cells.text(KEY, value)?;
    if let Err(fault) = lease::Key::new(&key) {
        cells.fault(at, KEY, fault.to_string());
    }
    if key.ends_with('*') {
        let problem = "ends in a *, which is a character like others here: use prefix for keys with a common beginning";
        cells.fault(at, KEY, problem);
    }
    Some(key.into())
}

/// The fields of `limit`.
pub(super) fn limit(value: &Spanned<DeValue<'_>>, cells: &mut Cells<'_>) -> Limit {
    let mut limit = Limit::default();
    let DeValue::Table(table) = value.get_ref() else {
        let problem =
            format!("is {}, and must be a table: {{ waits = 100 }}", kind(value.get_ref()));
        cells.fault(value.span().start, "principal.limit", problem);
        return limit;
    };
    for (key, value) in table {
        let name = &**key.get_ref();
        let path = format!("principal.limit.{name}");
        match limit.field_mut(name) {
            Some(field) => *field = cells.whole(&path, value, 1).map(|(number, _)| number),
            None => {
                let problem = format!("is unknown: a limit has {}", Limit::FIELDS.join(", "));
                cells.fault(key.span().start, &path, problem);
            }
        }
    }
    limit
}
