//! What the demo showed, in words.

use std::fmt::{self, Write as _};

use anyhow::{Context as _, ensure};

use super::{
    board::{Board, LateWrite, Loss},
    scenario::{SLEEPER, VICTIM, worker_name},
    tables::Outcome,
};

/// The end of the story.
///
/// # Errors
/// If a token did not rise, a late write was not refused, or the table without tokens was not damaged: what the demo is
/// to show did not happen.
pub fn of_story(board: &Board) -> anyhow::Result<String> {
    let victim = board.losses.get(&VICTIM).context("nobody was killed")?;
    let sleeper = board.losses.get(&SLEEPER).context("nobody was paused")?;
    for loss in [victim, sleeper] {
        for (key, old) in &loss.had {
            let (_, new, _) =
                loss.taken.get(key).with_context(|| format!("{key} was not taken over"))?;
            ensure!(new > old, "{key}: token {new} is not greater than {old}");
        }
    }
    let late: Vec<_> = board.late.iter().filter(|late| late.worker == SLEEPER).collect();
    ensure!(!late.is_empty(), "the paused worker made no late write");
    ensure!(board.tables.checked.lost() == 0, "the table that checks tokens lost updates");
    ensure!(board.tables.unchecked.lost() > 0, "the table without tokens lost nothing");
    let mut out = String::new();
    taken_over(&mut out, victim)?;
    woken(&mut out, sleeper)?;
    for late in late {
        writeln!(out, "{}", row(late))?;
    }
    out.push('\n');
    totals(&mut out, board)?;
    out.push_str(
        "No lease can stop a worker that is paused between its check and its write. A\n\
         token can: whoever keeps the highest token it has seen refuses the late write.\n",
    );
    Ok(out)
}

/// The end when the caller decides what happens.
pub fn of_kept(board: &Board) -> String {
    let mut out = String::from("\n");
    // Writing to a string does not fail.
    let _ = totals(&mut out, board);
    out
}

fn taken_over(out: &mut String, loss: &Loss) -> fmt::Result {
    writeln!(out, "\n{} died holding {} shards:", worker_name(VICTIM), loss.had.len())?;
    for (key, old) in &loss.had {
        if let Some((owner, new, at)) = loss.taken.get(key) {
            let after = at.since(loss.at).as_secs_f64();
            writeln!(
                out,
                "  {key}  token {old} -> {new}  by {owner}, {after:.1} s after the kill"
            )?;
        }
    }
    Ok(())
}

fn woken(out: &mut String, loss: &Loss) -> fmt::Result {
    let (name, count) = (worker_name(SLEEPER), loss.had.len());
    let pause = loss.woken.unwrap_or(loss.at).since(loss.at).as_secs_f64();
    writeln!(
        out,
        "\n{name} checked its {count} leases, and was paused for {pause:.1} s. Others took its\n\
         shards over. It woke up, and finished the writes that it had begun:\n"
    )?;
    writeln!(out, "            {:<33}  one that does not", "a table that checks tokens")
}

/// A late write, in both tables side by side.
fn row(late: &LateWrite) -> String {
    let token = late.read.token;
    let checked = match late.checked {
        Outcome::Refused { highest } => format!("refused: token {token} is below {highest}"),
        _ => "landed".to_owned(),
    };
    let unchecked = match late.unchecked {
        Outcome::Overwrote { before, after } => {
            format!("{before} became {after}: {} lost", before - (after - 1))
        }
        _ => "landed, in time".to_owned(),
    };
    format!("  {}  {checked:<33}  {unchecked}", late.read.key)
}

fn totals(out: &mut String, board: &Board) -> fmt::Result {
    let (checked, unchecked) = (&board.tables.checked, &board.tables.unchecked);
    writeln!(
        out,
        "  with tokens     {} updates written, {} counted, {} late ones refused\n  \
           without tokens  {} updates written, {} counted, {} lost\n",
        checked.written,
        checked.counted(),
        checked.refused,
        unchecked.written,
        unchecked.counted(),
        unchecked.lost(),
    )
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::clock::ManualClock;

    fn granted(board: &mut Board, shard: &str, worker: usize, token: u64) {
        let data = json!({"key": shard, "owner": worker_name(worker), "token": token});
        board.learn("granted", &json!({ "data": data }));
    }

    /// The story with one shard each. The sleeper's new owner reads under this token.
    fn board(new: u64) -> Board {
        let clock = Arc::new(ManualClock::new());
        let mut board = Board::new("http://127.0.0.1:1".into(), clock);
        (0..=SLEEPER).for_each(|worker| board.begins(worker));
        granted(&mut board, "shard-01", VICTIM, 1001);
        granted(&mut board, "shard-02", SLEEPER, 1002);
        board.killed(VICTIM);
        granted(&mut board, "shard-01", 0, 1003);
        let late = board.read([("shard-02", 1002)].into_iter());
        board.paused(SLEEPER);
        granted(&mut board, "shard-02", 0, new);
        for _ in 0..1000 {
            let reads = board.read([("shard-02", new)].into_iter());
            board.write(0, reads);
        }
        board.resumed(SLEEPER);
        board.write(SLEEPER, late);
        board
    }

    #[test]
    fn the_story_is_told_in_80_columns() {
        let told = of_story(&board(1004)).expect("a story");
        for part in [
            "worker-4 died holding 1 shards:",
            "shard-02  refused: token 1002 is below 1004  1000 became 1: 1000 lost",
            "with tokens     1000 updates written, 1000 counted, 1 late ones refused",
            "without tokens  1001 updates written, 1 counted, 1000 lost",
        ] {
            assert!(told.contains(part), "{part:?} is missing in\n{told}");
        }
        assert!(told.lines().all(|line| line.chars().count() <= 80), "{told}");
    }

    #[test]
    fn a_token_that_does_not_rise_is_no_story() {
        let why = of_story(&board(1002)).expect_err("the token did not rise").to_string();
        assert!(why.contains("token 1002 is not greater than 1002"), "{why}");
    }
}
