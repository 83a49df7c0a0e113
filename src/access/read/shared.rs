//! What no two principals may have in common: names and credentials.

use std::hash::Hash;

use super::{
    cells::{Cells, Placed},
    principal::Draft,
};
use crate::clock::HashMap;

/// Finds names and credentials that are in the file twice. The later one has the fault.
pub(super) fn judge(drafts: &[Draft], cells: &mut Cells<'_>) {
    let names = drafts.iter().filter_map(|draft| draft.name.as_ref());
    twice("principal.name", "is the name of another principal too", names, cells);
    let tokens = drafts.iter().flat_map(|draft| &draft.tokens);
    twice("principal.token", "is in the file twice: a token names one principal", tokens, cells);
    let names = drafts.iter().flat_map(|draft| &draft.certificates);
    let problem = "is in the file twice: a certificate names one principal";
    twice("principal.cert", problem, names, cells);
    let uids = drafts.iter().flat_map(|draft| &draft.uids);
    twice("principal.uid", "is in the file twice: a user is one principal", uids, cells);
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
