//! The picture that the demo draws, built from the event stream alone.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    io::IsTerminal,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use serde_json::Value;

use super::scenario::{SHARDS, TTL, VICTIM, WORKERS, shard_key, worker_name};
use crate::{clock::Clock, lease::Moment};

/// Number of changes that are shown below the picture.
const TICKER: usize = 8;

/// Whether stdout is a terminal and `NO_COLOR` is not set.
pub fn styled() -> bool {
    std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty())
}

/// The board, which the event stream fills and all others read.
pub type SharedBoard = Arc<Mutex<Board>>;

pub fn locked(board: &SharedBoard) -> MutexGuard<'_, Board> {
    board.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Which worker has which shard, and the latest changes.
pub struct Board {
    url: String,
    clock: Arc<dyn Clock>,
    began: Moment,
    owners: BTreeMap<String, (Option<String>, u64)>,
    ticker: Vec<String>,
    said: usize,
    killed: Option<Moment>,
    /// Shards that the killed worker held, with its tokens.
    orphans: BTreeMap<String, u64>,
    /// Orphans with a new owner: its name, its token, and the time of the grant.
    taken: BTreeMap<String, (String, u64, Moment)>,
}

impl Board {
    pub fn new(url: String, clock: Arc<dyn Clock>) -> Self {
        let began = clock.now();
        let owners = (0..SHARDS).map(|index| (shard_key(index), (None, 0))).collect();
        Self {
            url,
            clock,
            began,
            owners,
            ticker: Vec::new(),
            said: 0,
            killed: None,
            orphans: BTreeMap::new(),
            taken: BTreeMap::new(),
        }
    }

    fn seconds(&self) -> f64 {
        self.clock.now().since(self.began).as_secs_f64()
    }

    pub fn learn(&mut self, kind: &str, event: &Value) {
        let data = &event["data"];
        let (Some(key), Some(token)) = (data["key"].as_str(), data["token"].as_u64()) else {
            return;
        };
        let owner = data["owner"].as_str().map(str::to_owned);
        let line = match &owner {
            Some(owner) => {
                format!("{:5.1} s  {kind:<9} {key}  to {owner}, token {token}", self.seconds())
            }
            None => {
                let from = data["previous"]["owner"].as_str().unwrap_or("nobody");
                format!("{:5.1} s  {kind:<9} {key}  of {from}, token {token}", self.seconds())
            }
        };
        self.ticker.push(line);
        if let (Some(owner), true) = (&owner, self.orphans.contains_key(key)) {
            self.taken.insert(key.to_owned(), (owner.clone(), token, self.clock.now()));
        }
        self.owners.insert(key.to_owned(), (owner, token));
    }

    /// Records that this worker was killed.
    pub fn kill(&mut self, index: usize) {
        let victim = worker_name(index);
        self.killed = Some(self.clock.now());
        self.orphans = self
            .owners
            .iter()
            .filter(|(_, (owner, _))| owner.as_ref() == Some(&victim))
            .map(|(key, (_, token))| (key.clone(), *token))
            .collect();
        self.ticker.push(format!(
            "{:5.1} s  KILLED    {victim}, which held {} shards",
            self.seconds(),
            self.orphans.len()
        ));
    }

    pub fn is_anything_free(&self) -> bool {
        self.owners.values().any(|(owner, _)| owner.is_none())
    }

    pub fn all_held_by_the_living(&self) -> bool {
        let dead = self.killed.map(|_| worker_name(VICTIM));
        self.owners.values().all(|(owner, _)| owner.is_some() && *owner != dead)
    }

    /// Changes that were not printed yet.
    pub fn unsaid(&mut self) -> Vec<String> {
        let lines = self.ticker[self.said..].to_vec();
        self.said = self.ticker.len();
        lines
    }

    /// The whole picture, as lines.
    pub fn picture(&self, styled: bool) -> String {
        let paint = |code: &str, text: &str| {
            if styled { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
        };
        let mut out = String::new();
        let title = format!("tenure demo: {WORKERS} workers, {SHARDS} shards, ttl {TTL:?}");
        let _ = writeln!(out, "{}   {:.1} s   {}\n", paint("1", &title), self.seconds(), self.url);
        for index in 0..WORKERS {
            let worker = worker_name(index);
            let dead = self.killed.is_some() && index == VICTIM;
            let mark = if dead { paint("31", "dead ") } else { paint("32", "alive") };
            let mut shards = String::new();
            for (key, (owner, token)) in &self.owners {
                if owner.as_ref() == Some(&worker) {
                    let text = format!("{}#{token:<3} ", &key["shard-".len()..]);
                    let new = self.taken.contains_key(key);
                    let code = if dead {
                        "31"
                    } else if new {
                        "33"
                    } else {
                        "0"
                    };
                    shards.push_str(&paint(code, &text));
                }
            }
            let _ = writeln!(out, "  {worker}  {mark}  {shards}");
        }
        let free: Vec<_> = self
            .owners
            .iter()
            .filter(|(_, (owner, _))| owner.is_none())
            .map(|(key, _)| &key["shard-".len()..])
            .collect();
        let _ = writeln!(out, "  {:<15}  {}\n", "free", free.join(" "));
        let shown = &self.ticker[self.ticker.len().saturating_sub(TICKER)..];
        for line in shown {
            let _ = writeln!(out, "  {line}");
        }
        for _ in shown.len()..TICKER {
            out.push('\n');
        }
        out.push_str(
            "\n  Each entry is shard#token. A shard that changes hands gets a higher token.",
        );
        out
    }

    /// A summary in a few lines. An error if a token did not rise, which must never happen.
    pub fn summary(&self) -> anyhow::Result<String> {
        let mut out =
            format!("\n{} died holding {} shards:\n", worker_name(VICTIM), self.orphans.len());
        for (key, old) in &self.orphans {
            let Some((owner, new, at)) = self.taken.get(key) else {
                anyhow::bail!("{key} was not taken over");
            };
            anyhow::ensure!(new > old, "{key}: token {new} is not greater than {old}");
            let after = at.since(self.killed.unwrap_or(self.began)).as_secs_f64();
            let _ = writeln!(
                out,
                "  {key}  token {old} -> {new}  by {owner}, {after:.1} s after the kill"
            );
        }
        let _ = write!(
            out,
            "A resource that keeps the highest token it has seen now refuses {}.",
            worker_name(VICTIM)
        );
        Ok(out)
    }
}
