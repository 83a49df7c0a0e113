//! What became of the leases that were held at a moment.

use std::fmt;

use super::{Event, Line, book::Book, story::Story};

/// Why a window is shut by its holder's own wish: it sends a release, or lets the lease run out.
const BY_WISH: [&str; 2] = ["released", "forgotten"];

/// The leases that were held at one moment, as of a later one.
#[derive(Clone, Debug, Default)]
pub struct Fortunes {
    /// The same holder has it under the same token.
    pub kept: usize,
    /// Its holder wanted it no more.
    pub given_back: usize,
    /// Every other one, and why its holder lost it.
    pub lost: Vec<String>,
}

impl Fortunes {
    /// Of those that nobody gave back, the share that was kept.
    pub fn share(&self) -> f64 {
        let rest = self.kept + self.lost.len();
        self.kept as f64 / rest.max(1) as f64
    }
}

impl fmt::Display for Fortunes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kept, given_back, lost } = self;
        let (share, lost) = (self.share() * 100.0, lost.len());
        write!(f, "{kept} leases kept, {given_back} given back, {lost} lost: {share:.2} %")
    }
}

/// What became, by `after`, of the leases that somebody held at `before`.
pub fn fortunes(lines: &[Line], before: u64, after: u64) -> Fortunes {
    let book = Book::new(lines);
    let mut fortunes = Fortunes::default();
    for (key, of_key) in &book.keys {
        let story = Story::new(&book, key, of_key);
        let held_at = |t| story.windows.iter().filter(move |w| w.from <= t && t < w.until);
        let Some(held) = held_at(before).next() else { continue };
        let shut = of_key.iter().find_map(|&at| match book.event(at) {
            Event::Shut { worker, token, why, .. } => {
                ((worker.as_str(), *token) == held.tenure()).then_some(why.as_str())
            }
            _ => None,
        });
        if held_at(after).any(|window| window.tenure() == held.tenure()) {
            fortunes.kept += 1;
        } else if shut.is_some_and(|why| BY_WISH.contains(&why)) {
            fortunes.given_back += 1;
        } else {
            let why = shut.unwrap_or("its guarantee ended and no heartbeat was answered");
            fortunes.lost.push(format!("{key} of {}, token {}: {why}", held.worker, held.token));
        }
    }
    fortunes
}
