//! What a history says of one key: what was believed, and what the store committed.

use std::collections::HashMap;

use super::{Event, book::Book};

/// A span in which a worker believed that it held the key.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window<'a> {
    pub worker: &'a str,
    pub token: u64,
    pub from: u64,
    pub until: u64,
    /// The line that began it, and the one that it owes its length to.
    pub opened: usize,
    pub kept: usize,
    /// Its holder closed it itself.
    pub closed: Option<usize>,
}

impl Window<'_> {
    /// Whose belief it is: two of them must not meet.
    pub fn tenure(&self) -> (&str, u64) {
        (self.worker, self.token)
    }

    /// Takes in what its holder was told while it believed; not what opens another window.
    fn goes_on(&mut self, told: &Self) -> bool {
        let on = self.closed.is_none() && told.from <= self.until;
        if on && told.until > self.until {
            (self.until, self.kept) = (told.until, told.kept);
        }
        on
    }

    fn shut(&mut self, t: u64, at: usize) {
        if self.closed.is_none() && t < self.until {
            (self.until, self.closed) = (t, Some(at));
        }
    }

    /// The lines that show it.
    pub fn shown_by(&self) -> impl Iterator<Item = usize> {
        [self.opened, self.kept].into_iter().chain(self.closed)
    }
}

/// A change that the store committed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Commit<'a> {
    pub at: usize,
    pub seq: u64,
    pub kind: &'a str,
    pub token: u64,
    pub owner: &'a str,
    pub session: Option<&'a str>,
    pub fences: &'a [String],
}

impl Commit<'_> {
    pub fn grants(&self) -> bool {
        self.kind == "granted"
    }

    pub fn ends(&self) -> bool {
        matches!(
            self.kind,
            "released" | "expired" | "revoked" | "reclaimed" | "transferred" | "session-ended"
        ) && !self.withdraws_an_offer()
    }

    /// An administrator withdrew the offer of a key. No tenure ended.
    fn withdraws_an_offer(&self) -> bool {
        self.kind == "revoked" && self.owner.is_empty()
    }

    /// The same change, read twice.
    fn same(&self, other: &Self) -> bool {
        (self.seq, self.kind, self.token, self.owner)
            == (other.seq, other.kind, other.token, other.owner)
    }
}

/// All of one key.
pub(super) struct Story<'a> {
    pub key: &'a str,
    pub lines: &'a [usize],
    /// In the order in which they began.
    pub windows: Vec<Window<'a>>,
    /// In the order of the store's history.
    pub commits: Vec<Commit<'a>>,
    /// From when on nobody believes in a token.
    pub cuts: HashMap<u64, u64>,
    /// Grants and revivals of each token, and its ends, as places in `commits`.
    pub grants: HashMap<u64, Vec<usize>>,
    pub ends: HashMap<u64, Vec<usize>>,
    /// The session under which a token was granted.
    pub sessions: HashMap<u64, &'a str>,
    /// No number is missing among the commits.
    pub whole: bool,
}

impl<'a> Story<'a> {
    pub fn new(book: &Book<'a>, key: &'a str, lines: &'a [usize]) -> Self {
        let mut story = Self {
            key,
            lines,
            windows: Vec::new(),
            commits: commits(book, lines),
            cuts: HashMap::new(),
            grants: HashMap::new(),
            ends: HashMap::new(),
            sessions: HashMap::new(),
            whole: true,
        };
        story.sort_commits(book);
        story.find_cuts(book);
        story.find_windows(book);
        story
    }

    fn sort_commits(&mut self, book: &Book<'a>) {
        if !book.in_order() && book.regresses.is_empty() {
            self.commits.sort_by_key(|commit| commit.seq);
            self.commits.dedup_by(|then, before| before.same(then));
            self.whole = self.commits.iter().zip(1..).all(|(commit, seq)| commit.seq <= seq);
        }
        for (place, commit) in self.commits.iter().enumerate() {
            if commit.grants() {
                self.grants.entry(commit.token).or_default().push(place);
            } else if commit.ends() {
                self.ends.entry(commit.token).or_default().push(place);
            }
            if let (true, Some(session)) = (commit.grants(), commit.session) {
                self.sessions.insert(commit.token, session);
            }
        }
    }

    /// A cut counts from the line that says so, or from the commit of the end where that is earlier; being
    /// reclaimed is being cut.
    fn find_cuts(&mut self, book: &Book<'a>) {
        for &at in self.lines {
            if let Event::Cut { token, .. } = book.event(at) {
                self.cuts.entry(*token).or_insert(book.t(at));
            }
        }
        for commit in self.commits.iter().filter(|commit| commit.ends()) {
            let then = book.t(commit.at);
            if commit.kind == "reclaimed" {
                let cut = self.cuts.entry(commit.token).or_insert(then);
                *cut = then.min(*cut);
            } else if let Some(cut) = self.cuts.get_mut(&commit.token) {
                *cut = then.min(*cut);
            }
        }
    }

    fn find_windows(&mut self, book: &Book<'a>) {
        let mut last: HashMap<(&str, u64), usize> = HashMap::new();
        for &at in self.lines {
            match book.event(at) {
                Event::Told { worker, token, until, session, .. } => {
                    if let Some(session) = session {
                        self.sessions.insert(*token, session);
                    }
                    let cut = self.cuts.get(token).copied().unwrap_or(u64::MAX);
                    let new = Window {
                        worker,
                        token: *token,
                        from: book.t(at),
                        until: (*until).min(cut),
                        opened: at,
                        kept: at,
                        closed: None,
                    };
                    let open = last.get(&new.tenure()).copied();
                    if !open.is_some_and(|place| self.windows[place].goes_on(&new))
                        && new.from < new.until
                    {
                        last.insert((worker, *token), self.windows.len());
                        self.windows.push(new);
                    }
                }
                Event::Shut { worker, token, .. } => {
                    if let Some(place) = last.get(&(worker.as_str(), *token)) {
                        self.windows[*place].shut(book.t(at), at);
                    }
                }
                _ => {}
            }
        }
    }

    pub fn line(&self, place: usize) -> usize {
        self.commits[place].at
    }

    /// The first commit of a token's grant.
    pub fn granted(&self, token: u64) -> Option<&Commit<'a>> {
        Some(&self.commits[*self.grants.get(&token)?.first()?])
    }

    /// Whether a tenure has ended before this line, and was not revived since.
    pub fn ended(&self, token: u64, before: usize) -> bool {
        let so_far = &self.commits[..self.commits.partition_point(|commit| commit.at < before)];
        let of_token =
            |commit: &&Commit<'a>| commit.token == token && (commit.grants() || commit.ends());
        so_far.iter().rev().find(of_token).is_some_and(Commit::ends)
    }

    /// Whether the store's history of this key is here to be compared with.
    pub fn is_told(&self, book: &Book<'a>) -> bool {
        book.has_store && self.whole
    }
}

fn commits<'a>(book: &Book<'a>, lines: &[usize]) -> Vec<Commit<'a>> {
    let of_line = |&at: &usize| match book.event(at) {
        Event::Committed { seq, kind, token, owner, session, fences, .. } => Some(Commit {
            at,
            seq: *seq,
            kind,
            token: *token,
            owner,
            session: session.as_deref(),
            fences,
        }),
        _ => None,
    };
    lines.iter().filter_map(of_line).collect()
}
