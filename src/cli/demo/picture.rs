//! The picture that the demo draws. It fits into a terminal of 80 columns and 24 lines.

use std::fmt::{self, Write as _};

use super::{
    board::{Board, Life, Place},
    scenario::{SHARDS, TTL, worker_name},
};

/// Number of changes that are shown.
const TICKER: usize = 5;
/// The columns of a terminal.
const COLUMNS: usize = 80;
/// The columns for the shards of a worker.
const ROW: usize = COLUMNS - 20;

const RED: &str = "31";
const GREEN: &str = "32";
const YELLOW: &str = "33";
const BOLD: &str = "1";

/// Colours texts, or leaves them as they are.
#[derive(Clone, Copy)]
struct Paint {
    styled: bool,
}

impl Paint {
    fn text(self, code: &str, text: &str) -> String {
        if self.styled { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

/// The picture, as lines. `below` comes last.
pub fn picture(board: &Board, styled: bool, below: &[String]) -> String {
    let mut out = String::new();
    // Writing to a string does not fail.
    let _ = draw(&mut out, board, Paint { styled }, below);
    out
}

fn draw(out: &mut String, board: &Board, paint: Paint, below: &[String]) -> fmt::Result {
    let workers = board.lives.len();
    let title = format!("tenure demo: {workers} workers, {SHARDS} shards, ttl {TTL:?}");
    let (title, seconds) = (paint.text(BOLD, &title), board.seconds());
    writeln!(out, "{title}   {seconds:.1} s   {}\n", board.url)?;
    for (index, life) in board.lives.iter().enumerate() {
        let (mark, code) = match life {
            Life::Alive => ("alive ", GREEN),
            Life::Paused => ("paused", YELLOW),
            Life::Dead => ("dead  ", RED),
        };
        let (name, mark) = (worker_name(index), paint.text(code, mark));
        writeln!(out, "  {name}  {mark}  {}", shards_of(board, &name, *life, paint))?;
    }
    let free = board.shards.iter().filter(|(_, place)| place.owner.is_none());
    let free = free.map(|(key, _)| (number(key).to_owned(), false)).collect::<Vec<_>>();
    writeln!(out, "  {:<16}  {}\n", "free", fit(&free, |text, _| text.to_owned()))?;
    tables(out, board, paint)?;
    let shown = board.lines.iter().skip(board.lines.len().saturating_sub(TICKER));
    let lines = shown.len();
    for line in shown {
        writeln!(out, "  {}", clip(line))?;
    }
    out.push_str(&"\n".repeat(TICKER - lines));
    writeln!(out, "  Each entry is shard#token. A shard that changes hands gets a higher token.")?;
    below.iter().try_for_each(|line| writeln!(out, "  {line}"))
}

/// The shards of a worker, with their tokens.
fn shards_of(board: &Board, name: &str, life: Life, paint: Paint) -> String {
    let own = board.shards.iter().filter(|(_, place)| place.owner.as_deref() == Some(name));
    let entry = |(key, place): (&String, &Place)| {
        (format!("{}#{}", number(key), place.token), board.is_fresh(place))
    };
    let entries: Vec<_> = own.map(entry).collect();
    fit(&entries, |text, fresh| match (life, fresh) {
        (Life::Dead, _) => paint.text(RED, text),
        (Life::Paused, _) => paint.text(YELLOW, text),
        (Life::Alive, true) => paint.text(GREEN, text),
        (Life::Alive, false) => text.to_owned(),
    })
}

fn tables(out: &mut String, board: &Board, paint: Paint) -> fmt::Result {
    let (checked, unchecked) = (&board.tables.checked, &board.tables.unchecked);
    let line = |what, written, counted| {
        format!("  {what:<25} {written:>5} updates written, {counted:>5} counted")
    };
    let refused = match checked.refused {
        0 => String::new(),
        refused => paint.text(GREEN, &format!(", {refused} refused")),
    };
    let lost = match unchecked.lost() {
        0 => String::new(),
        lost => paint.text(RED, &format!(", {lost} LOST")),
    };
    let first = line("table that checks tokens", checked.written, checked.counted());
    let second = line("table that does not", unchecked.written, unchecked.counted());
    writeln!(out, "{first}{refused}\n{second}{lost}\n")
}

/// The number in the name of a shard.
fn number(key: &str) -> &str {
    key.rsplit('-').next().unwrap_or(key)
}

/// As many of the entries as fit into a row, and how many more there are.
fn fit(entries: &[(String, bool)], paint: impl Fn(&str, bool) -> String) -> String {
    let (mut out, mut width) = (String::new(), 0);
    for (at, (text, fresh)) in entries.iter().enumerate() {
        let rest = entries.len() - at;
        let more = format!("+{rest}");
        // Behind an entry that is not the last one, there must be room for the number of the others.
        let reserve = if rest > 1 { 2 + more.len() } else { 0 };
        if width + text.len() + reserve > ROW {
            return out + &more;
        }
        out += &paint(text, *fresh);
        width += text.len();
        if rest > 1 {
            out += "  ";
            width += 2;
        }
    }
    out
}

/// What fits into a line behind its margin.
fn clip(line: &str) -> &str {
    let end = line.char_indices().nth(COLUMNS - 2).map_or(line.len(), |(at, _)| at);
    &line[..end]
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::super::scenario::{MOST_WORKERS, shard_key};
    use super::*;
    use crate::clock::ManualClock;

    fn board() -> Board {
        Board::new("http://127.0.0.1:65535".into(), Arc::new(ManualClock::new()))
    }

    fn grant(board: &mut Board, shard: usize, worker: usize) {
        let (key, owner) = (shard_key(shard), worker_name(worker));
        let data = json!({"key": key, "owner": owner, "token": 10_000 + shard});
        board.learn("granted", &json!({ "data": data }));
    }

    #[test]
    fn the_picture_fits_into_a_terminal_whoever_has_the_shards() {
        let below = ["x".repeat(78)];
        for holders in 1..=MOST_WORKERS {
            let mut board = board();
            (0..MOST_WORKERS).for_each(|worker| board.begins(worker));
            (0..SHARDS).for_each(|shard| grant(&mut board, shard, shard % holders));
            board.paused(0);
            board.resumed(0);
            board.tables.checked.written = 99_999;
            board.tables.checked.refused = 9_999;
            let picture = picture(&board, false, &below);
            for line in picture.lines() {
                assert!(line.chars().count() <= COLUMNS, "{line}");
            }
            // The cursor stands in the last line.
            assert!(picture.lines().count() < 24, "{picture}");
        }
    }

    #[test]
    fn nothing_is_left_out_without_a_word() {
        let mut board = board();
        board.begins(0);
        (0..SHARDS).for_each(|shard| grant(&mut board, shard, 0));
        let all = picture(&board, false, &[]);
        let row = all.lines().find(|line| line.contains("worker-1  alive")).expect("its row");
        let shown = row.matches('#').count();
        assert!(row.ends_with(&format!("+{}", SHARDS - shown)), "{row}");
        let free = picture(&self::board(), false, &[]);
        assert!(free.contains("01  02  03"), "{free}");
    }

    #[test]
    fn colours_are_only_for_terminals() {
        let mut board = board();
        board.begins(0);
        grant(&mut board, 0, 0);
        board.killed(0);
        assert!(picture(&board, true, &[]).contains("\x1b[31mdead  \x1b[0m"));
        assert!(!picture(&board, false, &[]).contains('\x1b'));
    }
}
