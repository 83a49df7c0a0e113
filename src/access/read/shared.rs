//! What no two principals may have in common: names and credentials. Which issuers there must be.

use std::hash::Hash;

use super::{
    cells::{Cells, Placed},
    jwt::IssuerDraft,
    principal::Draft,
};
use crate::clock::HashMap;

/// Finds names and credentials that are in the file twice. The later one has the fault.
pub(super) fn judge(drafts: &[Draft], issuers: &[IssuerDraft], cells: &mut Cells<'_>) {
    let names = drafts.iter().filter_map(|draft| draft.name.as_ref());
    twice("principal.name", "is the name of another principal too", names, cells);
    let tokens = drafts.iter().flat_map(|draft| &draft.tokens);
    twice("principal.token", "is in the file twice: a token names one principal", tokens, cells);
    let names = drafts.iter().flat_map(|draft| &draft.certificates);
    let problem = "is in the file twice: a certificate names one principal";
    twice("principal.cert", problem, names, cells);
    let uids = drafts.iter().flat_map(|draft| &draft.uids);
    twice("principal.uid", "is in the file twice: a user is one principal", uids, cells);
    let subjects = drafts.iter().flat_map(|draft| &draft.subjects);
    let problem = "is in the file twice: a subject of an issuer is one principal";
    twice("principal.jwt", problem, subjects, cells);
    let names = || issuers.iter().filter_map(|issuer| issuer.name.as_ref());
    twice("jwt.issuer", "is the issuer of another [[jwt]] too", names(), cells);
    for (subject, at) in drafts.iter().flat_map(|draft| &draft.subjects) {
        if !names().any(|(name, _)| **name == *subject.issuer) {
            let problem = format!(
                "names the issuer {:?}, which no table [[jwt]] has: add one with its keys",
                subject.issuer
            );
            cells.fault(*at, "principal.jwt", problem);
        }
    }
}

fn twice<'d, T: Hash + Eq + 'd>(
    key: &str,
    problem: &str,
    values: impl Iterator<Item = &'d Placed<T>>,
    cells: &mut Cells<'_>,
) {
    let mut seen: HashMap<&T, usize> = HashMap::default();
    for (value, at) in values {
        match seen.get(value) {
            Some(first) => {
                let first = cells.line(*first);
                cells.fault(*at, key, format!("{problem} (the first is at line {first})"));
            }
            None => drop(seen.insert(value, *at)),
        }
    }
}
