//! What the clients believed, and whether two believed it of one key at a time.
//!
//! I1: windows of different tokens of a key never overlap. I2: tokens rise in the order of grants. A
//! window begins when the answer was heard, and ends `valid_for_ms` after the moment before its
//! request was sent, or when its holder sent a release or heard that the lease is lost.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tenure::lease::Moment;

/// A span in which a worker believed that it held a key.
#[derive(Clone, Debug)]
struct Window {
    token: u64,
    owner: String,
    from: Moment,
    until: Moment,
}

/// How a tenure went on, as its holder knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// Its holder sent a release, or lets it run out.
    GivenBack,
    /// Its holder heard that it is lost.
    Lost,
}

/// A lease that somebody held at some moment.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Lease {
    pub key: String,
    pub token: u64,
    pub owner: String,
}

#[derive(Debug, Default)]
struct Book {
    keys: BTreeMap<String, Vec<Window>>,
    ends: HashMap<(String, u64), (End, String)>,
    grants: u64,
    beats: u64,
    releases: u64,
    abandoned: u64,
    /// Heartbeats after which a window began anew: the guarantee had ended before the answer came.
    resumed: u64,
}

/// The book that all workers write into.
#[derive(Clone, Debug, Default)]
pub struct Ledger(Arc<Mutex<Book>>);

/// What became of the leases that were held at a moment.
#[derive(Clone, Debug, Default)]
pub struct Fortunes {
    pub held: usize,
    pub given_back: usize,
    pub lost: Vec<String>,
    pub kept: usize,
}

impl Fortunes {
    /// Of those that nobody gave back, the share that the same owner has under the same token.
    pub fn share(&self) -> f64 {
        let rest = self.kept + self.lost.len();
        self.kept as f64 / rest.max(1) as f64
    }
}

impl Ledger {
    fn book(&self) -> MutexGuard<'_, Book> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A grant was heard at `told`.
    pub fn granted(&self, lease: &Lease, told: Moment, until: Moment) {
        let mut book = self.book();
        book.grants += 1;
        let window = Window { token: lease.token, owner: lease.owner.clone(), from: told, until };
        book.keys.entry(lease.key.clone()).or_default().push(window);
    }

    /// The answer to a heartbeat was heard at `told`.
    pub fn kept(&self, lease: &Lease, told: Moment, until: Moment) {
        let mut book = self.book();
        book.beats += 1;
        let windows = book.keys.entry(lease.key.clone()).or_default();
        let last = windows.iter_mut().rev().find(|window| window.token == lease.token);
        match last {
            Some(last) if told <= last.until => last.until = last.until.max(until),
            _ => {
                let owner = lease.owner.clone();
                windows.push(Window { token: lease.token, owner, from: told, until });
                book.resumed += 1;
            }
        }
    }

    fn close(&self, lease: &Lease, at: Moment, end: End, why: &str) {
        let mut book = self.book();
        book.releases += u64::from(end == End::GivenBack);
        book.ends.entry((lease.key.clone(), lease.token)).or_insert((end, why.to_owned()));
        let windows = book.keys.entry(lease.key.clone()).or_default();
        for window in windows.iter_mut().filter(|window| window.token == lease.token) {
            window.until = window.until.min(at);
        }
    }

    /// Its holder is about to send a release.
    pub fn gives_back(&self, lease: &Lease, at: Moment) {
        self.close(lease, at, End::GivenBack, "");
    }

    /// Its holder will not ask about it any more, and believes in it for as long as it was told.
    pub fn abandoned(&self, lease: &Lease) {
        let mut book = self.book();
        book.abandoned += 1;
        let end = (End::GivenBack, String::new());
        book.ends.entry((lease.key.clone(), lease.token)).or_insert(end);
    }

    /// Its holder heard that it is lost.
    pub fn lost(&self, lease: &Lease, at: Moment, why: &str) {
        self.close(lease, at, End::Lost, why);
    }

    /// The leases whose holders believe in them at a moment.
    pub fn held_at(&self, at: Moment) -> Vec<Lease> {
        let book = self.book();
        let of_key = |(key, windows): (&String, &Vec<Window>)| {
            let there = windows.iter().find(|window| window.from <= at && at < window.until)?;
            let (token, owner) = (there.token, there.owner.clone());
            Some(Lease { key: key.clone(), token, owner })
        };
        book.keys.iter().filter_map(of_key).collect()
    }

    /// What became of leases by now: kept is what its owner believes in now.
    pub fn fortunes(&self, leases: &[Lease], now: Moment) -> Fortunes {
        let book = self.book();
        let mut fortunes = Fortunes { held: leases.len(), ..Fortunes::default() };
        for lease in leases {
            match book.ends.get(&(lease.key.clone(), lease.token)) {
                Some((End::GivenBack, _)) => fortunes.given_back += 1,
                Some((End::Lost, why)) => {
                    fortunes
                        .lost
                        .push(format!("{} {} {}: {why}", lease.key, lease.token, lease.owner));
                }
                None => {
                    let windows = &book.keys[&lease.key];
                    if windows.iter().any(|w| w.token == lease.token && w.until > now) {
                        fortunes.kept += 1;
                    } else {
                        let why = "its guarantee ended and no heartbeat was answered";
                        fortunes
                            .lost
                            .push(format!("{} {} {}: {why}", lease.key, lease.token, lease.owner));
                    }
                }
            }
        }
        fortunes
    }

    /// I1 and I2.
    pub fn check(&self) {
        let book = self.book();
        for (key, windows) in &book.keys {
            // An answer that came after its own guarantee had ended was believed by nobody.
            let mut windows: Vec<_> = windows.iter().filter(|w| w.from < w.until).collect();
            windows.sort_by_key(|window| window.from);
            // The window that reaches furthest of those before.
            let mut before: Option<&Window> = None;
            for window in windows {
                if let Some(before) = before {
                    let overlap = before.until.since(window.from);
                    let same = before.token == window.token && before.owner == window.owner;
                    assert!(
                        same || overlap.is_zero(),
                        "{key}: two held it for {overlap:?}: {before:?} and {window:?}"
                    );
                    assert!(
                        same || before.token < window.token,
                        "{key}: tokens do not rise: {before:?}, then {window:?}"
                    );
                }
                if before.is_none_or(|before| before.until <= window.until) {
                    before = Some(window);
                }
            }
        }
    }

    /// How often a key went from one worker to another.
    pub fn taken_over(&self) -> usize {
        let book = self.book();
        let of_key = |windows: &Vec<Window>| {
            let owners: BTreeMap<u64, &str> =
                windows.iter().map(|w| (w.token, w.owner.as_str())).collect();
            let owners: Vec<&str> = owners.into_values().collect();
            owners.windows(2).filter(|pair| pair[0] != pair[1]).count()
        };
        book.keys.values().map(of_key).sum()
    }

    /// Every grant that a worker was told: key, token and owner.
    pub fn tenures(&self) -> Vec<Lease> {
        let book = self.book();
        let windows = book.keys.iter().flat_map(|(key, windows)| {
            windows.iter().map(|w| Lease {
                key: key.clone(),
                token: w.token,
                owner: w.owner.clone(),
            })
        });
        windows.collect()
    }

    /// What was seen; and that it was not nothing.
    pub fn summary(&self) -> String {
        let book = self.book();
        let Book { grants, beats, releases, abandoned, resumed, .. } = &*book;
        assert!(*grants > 0 && *beats > 0, "there was no load");
        let lost = book.ends.values().filter(|(end, _)| *end == End::Lost).count();
        format!(
            "{grants} grants, {beats} heartbeats, {releases} releases, {abandoned} abandoned, \
             {lost} lost, \
             {resumed} went on after their guarantee had ended"
        )
    }
}
