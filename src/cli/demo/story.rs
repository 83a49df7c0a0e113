//! The story: all workers take shards, one is killed, and another one is paused and wakes up too late.

use std::time::Duration;

use super::{
    board::{SharedBoard, locked},
    crew::Crew,
    scenario::{FRAME, SLEEPER, VICTIM, WORKERS},
    summary,
};

/// How long everything runs undisturbed, before and after each event.
const PEACE: Duration = Duration::from_secs(2);

/// Plays the story, and returns its summary.
pub async fn play(mut crew: Crew, board: &SharedBoard) -> anyhow::Result<String> {
    for _ in 0..WORKERS {
        crew.add().map_err(anyhow::Error::msg)?;
    }
    peace(board).await;
    crew.kill(VICTIM).map_err(anyhow::Error::msg)?;
    peace(board).await;
    crew.pause(SLEEPER).map_err(anyhow::Error::msg)?;
    peace(board).await;
    crew.resume(SLEEPER).map_err(anyhow::Error::msg)?;
    tokio::time::sleep(PEACE).await;
    drop(crew);
    summary::of_story(&locked(board))
}

/// Waits until every shard has a living owner, and for a while after that.
async fn peace(board: &SharedBoard) {
    while !locked(board).all_held_by_the_living() {
        tokio::time::sleep(FRAME / 4).await;
    }
    tokio::time::sleep(PEACE).await;
}
