//! `tenure demo`: runs a coordinator in this process, with eight workers and thirty-two shards. One worker is killed,
//! and the others take over its shards under higher tokens.

mod board;
mod scenario;
mod worker;

use std::{
    io::{IsTerminal, Write},
    sync::{Arc, Mutex},
    time::Duration,
};

use anyhow::Context as _;

use self::{
    board::{Board, SharedBoard, locked},
    scenario::{VICTIM, WORKERS},
};
use super::{Exit, Failure, coordinator::Coordinator};
use crate::{
    client::{Client, EventFilter, StreamItem},
    clock::{Clock, SystemClock},
    settings::Settings,
};

/// How long everything runs undisturbed, before and after the kill.
const PEACE: Duration = Duration::from_secs(3);
/// When the demo gives up.
const LIMIT: Duration = Duration::from_secs(30);
/// How often the picture is drawn.
const FRAME: Duration = Duration::from_millis(100);

/// Runs the demo to its end.
pub(super) fn run() -> Result<Exit, Failure> {
    let dir = scratch()?;
    let shown = actix::System::new().block_on(show(&dir));
    let _ = std::fs::remove_dir_all(&dir);
    shown?;
    Ok(Exit::Done)
}

/// A temporary directory for the store. It is removed at the end.
fn scratch() -> anyhow::Result<std::path::PathBuf> {
    let dir = std::env::temp_dir().join(format!("tenure-demo-{}", std::process::id()));
    std::fs::create_dir(&dir).with_context(|| format!("cannot create {}", dir.display()))?;
    Ok(dir)
}

async fn show(dir: &std::path::Path) -> anyhow::Result<()> {
    let mut settings = Settings::default();
    settings.server.listen.set_port(0);
    settings.store.embedded.data_dir = dir.join("data");
    let coordinator = Coordinator::start(&settings, None).await?;
    let url = format!("http://{}", coordinator.bound);
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let board = Arc::new(Mutex::new(Board::new(url.clone(), clock)));
    let outcome = tokio::select! {
        outcome = play(&url, &board) => outcome,
        () = draw(&board) => Ok(()),
        () = tokio::time::sleep(LIMIT) => Err(anyhow::anyhow!("the demo did not finish within {LIMIT:?}")),
        _ = tokio::signal::ctrl_c() => Ok(()),
    };
    coordinator.stop().await;
    outcome
}

/// The story: all workers take shards, one is killed, and the others take over.
async fn play(url: &str, board: &SharedBoard) -> anyhow::Result<()> {
    let client = Client::new(url)?;
    let mut stream = client.events(EventFilter::default());
    let (connected, ready) = tokio::sync::oneshot::channel();
    let feed = board.clone();
    let follower = actix::spawn(async move {
        let mut connected = Some(connected);
        while let Ok(item) = stream.next().await {
            match item {
                StreamItem::Connected => drop(connected.take().map(|told| told.send(()))),
                StreamItem::Event(event) => locked(&feed).learn(&event.kind, &event.body),
                _ => {}
            }
        }
    });
    ready.await.context("no event stream")?;
    let workers: Vec<_> = (0..WORKERS)
        .map(|index| actix::spawn(worker::work(client.clone(), index, board.clone())))
        .collect();
    held_by_the_living(board).await;
    tokio::time::sleep(PEACE).await;
    workers[VICTIM].abort();
    locked(board).kill(VICTIM);
    held_by_the_living(board).await;
    tokio::time::sleep(PEACE).await;
    for worker in workers {
        worker.abort();
    }
    follower.abort();
    finish(board)
}

/// Waits until every shard has a living owner.
async fn held_by_the_living(board: &SharedBoard) {
    while !locked(board).all_held_by_the_living() {
        tokio::time::sleep(FRAME / 4).await;
    }
}

#[expect(clippy::print_stdout, reason = "the output of a command goes to stdout")]
fn finish(board: &SharedBoard) -> anyhow::Result<()> {
    let mut board = locked(board);
    if std::io::stdout().is_terminal() {
        println!("{}", board.picture(board::styled()));
    }
    for line in board.unsaid() {
        if !std::io::stdout().is_terminal() {
            println!("{line}");
        }
    }
    println!("{}", board.summary()?);
    Ok(())
}

/// Draws the picture on a terminal. Elsewhere, it prints the changes as lines.
#[expect(clippy::print_stdout, reason = "the output of a command goes to stdout")]
async fn draw(board: &SharedBoard) {
    let terminal = std::io::stdout().is_terminal();
    let styled = board::styled();
    let mut height = 0;
    loop {
        if terminal {
            let picture = locked(board).picture(styled);
            let up = if height > 0 { format!("\x1b[{height}A\r") } else { String::new() };
            height = picture.lines().count();
            println!("{up}{}", picture.replace('\n', "\x1b[K\n"));
        } else {
            for line in locked(board).unsaid() {
                println!("{line}");
            }
        }
        let _ = std::io::stdout().flush();
        tokio::time::sleep(FRAME).await;
    }
}
