//! What needs a person: facts as sentences, the most severe first.

mod entry;
mod facts;
mod files;
mod store;
#[cfg(test)]
mod tests;
mod workers;

use self::entry::CRITICAL;
pub use self::facts::Facts;
use crate::api::Attention;

/// How many entries an answer has at most.
pub const LISTED: usize = 200;

/// What needs a person, the most severe first; and how many more there are than an answer lists.
pub fn attention(facts: &Facts) -> (Vec<Attention>, u64) {
    let mut found = store::attention(facts);
    found.extend(files::attention(facts));
    found.extend(workers::attention(facts));
    found.sort_by_key(|one| one.severity != CRITICAL);
    let all = found.len();
    found.truncate(LISTED);
    (found, (all - all.min(LISTED)) as u64)
}
