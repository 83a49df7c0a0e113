//! One table `[[principal]]`.

use toml::{
    Spanned,
    de::{DeTable, DeValue},
    value::Datetime,
};

use super::{
    cells::{Cells, Placed, kind},
    fields, jwt,
};
use crate::{
    access::{
        certificates::CertPattern,
        date::Date,
        limit::Limit,
        pattern::OwnerPattern,
        principal::{MAX_NAME_BYTES, Parts, Principal},
        right::Right,
        subject::Subject,
        token::TokenDigest,
    },
    lease::{InvalidName, Owner},
};

const FIELDS: &str = "name, token, cert, uid, jwt, owner, may, limit and expires";

/// What can be read of a principal, and where each part is.
#[derive(Default)]
pub(super) struct Draft {
    pub(super) name: Option<Placed<String>>,
    pub(super) tokens: Vec<Placed<TokenDigest>>,
    pub(super) certificates: Vec<Placed<CertPattern>>,
    pub(super) uids: Vec<Placed<u32>>,
    pub(super) subjects: Vec<Placed<Subject>>,
    /// As they are written: they may name the principal.
    owners: Option<Vec<Placed<String>>>,
    owner_patterns: Vec<OwnerPattern>,
    rights: Vec<Right>,
    limit: Limit,
    expires: Option<Date>,
}

impl Draft {
    pub(super) fn read(at: usize, table: &DeTable<'_>, cells: &mut Cells<'_>) -> Self {
        let mut draft = Self::default();
        for (key, value) in table {
            draft.field(key, value, cells);
        }
        let has = |field: &str| table.contains_key(field);
        if !has("name") {
            cells.fault(
                at,
                "principal.name",
                "is missing: audit, limits and refusals call a principal by it",
            );
        }
        if !["token", "cert", "uid", "jwt"].into_iter().any(has) {
            let problem =
                "has no credential, so nobody can call as it: give it token, cert, uid or jwt";
            cells.fault(at, "principal", problem);
        }
        if !has("may") {
            let problem = "is missing, so it may do nothing: write may = [{ verb = \"read\", prefix = \"\" }]";
            cells.fault(at, "principal.may", problem);
        }
        draft.expand_owners(cells);
        draft
    }

    fn field(
        &mut self,
        key: &Spanned<std::borrow::Cow<'_, str>>,
        value: &Spanned<DeValue<'_>>,
        cells: &mut Cells<'_>,
    ) {
        match &**key.get_ref() {
            "name" => self.name = name(value, cells),
            "token" => self.tokens = tokens(value, cells),
            "cert" => self.certificates = certificates(value, cells),
            "uid" => self.uids = cells.one_or_list("principal.uid", value, Cells::uid),
            "jwt" => self.subjects = cells.one_or_list("principal.jwt", value, jwt::subject),
            "owner" => self.owners = Some(cells.texts("principal.owner", value)),
            "may" => self.rights = fields::rights(value, cells),
            "limit" => self.limit = fields::limit(value, cells),
            "expires" => self.expires = expires(value, cells),
            other => {
                let problem = format!("is unknown: a principal has {FIELDS}");
                cells.fault(key.span().start, &format!("principal.{other}"), problem);
            }
        }
    }

    /// Puts the principal's name into the patterns of its owners.
    fn expand_owners(&mut self, cells: &mut Cells<'_>) {
        let Some((name, _)) = &self.name else { return };
        let Some(written) = &self.owners else {
            // A name of the allowed length is an owner's name with whatever the defaults add.
            self.owner_patterns = OwnerPattern::default_of(name).unwrap_or_default();
            return;
        };
        for (written, at) in written {
            match OwnerPattern::parse(written, name) {
                Ok(pattern) => self.owner_patterns.push(pattern),
                Err(problem) => cells.fault(*at, "principal.owner", problem),
            }
        }
    }

    /// The principal. None if it has no name, which is a fault.
    pub(super) fn finish(self) -> Option<Principal> {
        let (name, _) = self.name?;
        let parts = Parts {
            tokens: self.tokens.into_iter().map(|(digest, _)| digest).collect(),
            certificates: self.certificates.into_iter().map(|(pattern, _)| pattern).collect(),
            uids: self.uids.into_iter().map(|(uid, _)| uid).collect(),
            subjects: self.subjects.into_iter().map(|(subject, _)| subject).collect(),
            owners: self.owner_patterns,
            rights: self.rights,
            limit: self.limit,
            expires: self.expires,
        };
        Some(Principal::new(&name, parts))
    }
}

fn name(value: &Spanned<DeValue<'_>>, cells: &mut Cells<'_>) -> Option<Placed<String>> {
    let (name, at) = cells.text("principal.name", value)?;
    let judged = match name.len() {
        actual if actual > MAX_NAME_BYTES => {
            Err(InvalidName::TooLong { actual, limit: MAX_NAME_BYTES })
        }
        _ => Owner::new(&name),
    };
    match judged {
        Ok(_) => Some((name, at)),
        Err(fault) => {
            cells.fault(at, "principal.name", fault.to_string());
            None
        }
    }
}

/// No fault quotes what is in the place of a digest: it may be a secret.
fn tokens(value: &Spanned<DeValue<'_>>, cells: &mut Cells<'_>) -> Vec<Placed<TokenDigest>> {
    let mut digests = Vec::new();
    for (text, at) in cells.texts("principal.token", value) {
        match text.parse() {
            Ok(digest) => digests.push((digest, at)),
            Err(problem) => cells.fault(at, "principal.token", problem),
        }
    }
    digests
}

fn certificates(value: &Spanned<DeValue<'_>>, cells: &mut Cells<'_>) -> Vec<Placed<CertPattern>> {
    let mut patterns = Vec::new();
    for (text, at) in cells.texts("principal.cert", value) {
        match CertPattern::parse(&text) {
            Ok(pattern) => patterns.push((pattern, at)),
            Err(problem) => cells.fault(at, "principal.cert", problem),
        }
    }
    patterns
}

fn expires(value: &Spanned<DeValue<'_>>, cells: &mut Cells<'_>) -> Option<Date> {
    let at = value.span().start;
    let day = match value.get_ref() {
        // What the parser leaves of a date that it found faulty, and told.
        DeValue::Datetime(Datetime { date: None, time: None, offset: None }) => return None,
        DeValue::Datetime(Datetime { date: Some(day), time: None, offset: None }) => *day,
        DeValue::Datetime(_) => {
            cells.fault(
                at,
                "principal.expires",
                "has a time: write the last day alone, such as 2027-01-31",
            );
            return None;
        }
        other => {
            let problem =
                format!("is {}, and must be a day without quotes, such as 2027-01-31", kind(other));
            cells.fault(at, "principal.expires", problem);
            return None;
        }
    };
    let date = Date::new(day.year, day.month, day.day);
    if date.is_none() {
        cells.fault(at, "principal.expires", "is no day of the calendar from 1970 on");
    }
    date
}
