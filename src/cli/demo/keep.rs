//! `--keep`: the caller decides what happens.

use std::cell::Cell;

use tokio::sync::mpsc;

use super::{
    board::{SharedBoard, locked},
    crew::Crew,
    keys::{HELP, Keys, Order},
    scenario::{KEPT_WORKERS, worker_name},
    summary,
};

/// The lines below the picture.
pub fn below(keys: &Cell<Keys>) -> Vec<String> {
    let pending = keys.get().pending().map(String::from).unwrap_or_default();
    vec![format!("{HELP} > {pending}")]
}

/// Carries out what the keys say, until the caller ends it or the keys end. Returns the summary.
pub async fn play(
    mut crew: Crew,
    board: &SharedBoard,
    mut pressed: mpsc::Receiver<u8>,
    keys: &Cell<Keys>,
) -> anyhow::Result<String> {
    for _ in 0..KEPT_WORKERS {
        crew.add().map_err(anyhow::Error::msg)?;
    }
    locked(board).say(HELP);
    while let Some(key) = pressed.recv().await {
        let mut state = keys.get();
        let order = state.press(key);
        keys.set(state);
        let carried_out = match order {
            None => continue,
            Some(Order::Quit) => break,
            Some(Order::Add) => crew.add().map(|worker| {
                locked(board).say(format_args!("ADDED     {}", worker_name(worker)));
            }),
            Some(Order::Kill(worker)) => crew.kill(worker),
            Some(Order::Pause(worker)) => crew.pause(worker),
            Some(Order::Resume(worker)) => crew.resume(worker),
        };
        if let Err(why) = carried_out {
            locked(board).say(why);
        }
    }
    drop(crew);
    Ok(summary::of_kept(&locked(board)))
}
