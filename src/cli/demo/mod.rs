//! `tenure demo`: runs a coordinator in this process, with workers that share thirty-two shards. One worker is killed,
//! and the others take over its shards under higher tokens. Another one is paused, wakes up too late, and writes: a
//! table that checks tokens refuses this, and one that does not is damaged. With `--keep`, the caller kills, pauses,
//! resumes and adds workers.

mod board;
mod crew;
mod keep;
mod keys;
mod picture;
mod scenario;
mod screen;
mod story;
mod summary;
mod tables;
mod task;
mod worker;

use std::{
    cell::Cell,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::Duration,
};

use anyhow::Context as _;
use clap::Args;
use rustix::process::Signal;

use self::{
    board::{Board, SharedBoard, locked},
    crew::Crew,
    keys::Unbuffered,
    screen::Screen,
    task::Task,
};
use super::{Exit, Failure, coordinator::Coordinator};
use crate::{
    client::{Client, EventFilter, StreamItem},
    clock::{Clock, SystemClock},
    settings::Settings,
    worker::signals::listen,
};

/// When the story is given up.
const LIMIT: Duration = Duration::from_secs(60);

/// Show what tenure does, with a temporary server in this process
///
/// Eight workers share thirty-two shards. One is killed, and the others take over. Another one is paused, and wakes up
/// when its leases are over: its writes are refused by their tokens, and damage a table that does not check them.
#[derive(Clone, Debug, Args)]
pub struct DemoArgs {
    /// Go on until `q`, and kill, pause, resume and add workers by keys: k 3, p 3, r 3, a
    #[arg(long)]
    keep: bool,
}

impl DemoArgs {
    /// Runs the demo to its end.
    pub(super) fn run(self) -> Result<Exit, Failure> {
        let dir = scratch()?;
        let shown = actix::System::new().block_on(show(&dir, self.keep));
        let _ = std::fs::remove_dir_all(&dir);
        screen::print(&shown?);
        Ok(Exit::Done)
    }
}

/// A temporary directory for the store. It is removed at the end.
fn scratch() -> anyhow::Result<PathBuf> {
    let dir = std::env::temp_dir().join(format!("tenure-demo-{}", std::process::id()));
    std::fs::create_dir(&dir).with_context(|| format!("cannot create {}", dir.display()))?;
    Ok(dir)
}

/// Shows the demo, and returns its summary.
async fn show(dir: &Path, keep: bool) -> anyhow::Result<String> {
    let mut settings = Settings::default();
    settings.server.listen.set_port(0);
    settings.store.embedded.data_dir = dir.join("data");
    let coordinator = Coordinator::start(&settings, None).await?;
    let url = format!("http://{}", coordinator.bound);
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let board = Arc::new(Mutex::new(Board::new(url.clone(), clock)));
    locked(&board).say(format_args!("see the leases at {url}/ while this runs"));
    let (mut screen, keys) = (Screen::new(), Cell::default());
    let below = || if keep { keep::below(&keys) } else { Vec::new() };
    let play = async {
        let client = Client::new(&url)?;
        let _follower = follow(&client, &board).await?;
        let crew = Crew::new(client, board.clone());
        if keep {
            let _terminal = Unbuffered::new();
            keep::play(crew, &board, keys::pressed()?, &keys).await
        } else {
            story::play(crew, &board).await
        }
    };
    let outcome = tokio::select! {
        outcome = play => outcome,
        () = screen.draw(&board, below) => Ok(String::new()),
        () = tokio::time::sleep(LIMIT), if !keep => {
            Err(anyhow::anyhow!("the demo did not finish within {LIMIT:?}"))
        }
        ended = ended() => ended.map(|()| {
            if keep { summary::of_kept(&locked(&board)) } else { String::new() }
        }),
    };
    // What changed last.
    screen.frame(&board, &[]);
    coordinator.stop().await;
    outcome
}

/// Fills the board from the event stream, from the moment at which it is connected.
async fn follow(client: &Client, board: &SharedBoard) -> anyhow::Result<Task> {
    let (mut stream, feed) = (client.events(EventFilter::default()), board.clone());
    let (connected, ready) = tokio::sync::oneshot::channel();
    let follower = Task::run(async move {
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
    Ok(follower)
}

/// Resolves when this process is asked to end. The terminal must be as before then, so a signal must not end it at once.
async fn ended() -> anyhow::Result<()> {
    let mut terminate = listen(Signal::TERM).context("cannot listen for SIGTERM")?;
    let mut interrupt = listen(Signal::INT).context("cannot listen for SIGINT")?;
    let mut hangup = listen(Signal::HUP).context("cannot listen for SIGHUP")?;
    tokio::select! {
        () = terminate.recv() => {}
        () = interrupt.recv() => {}
        () = hangup.recv() => {}
    }
    Ok(())
}
