//! Reading the history for subscribers, on a thread of its own: those that keep leases have no time for it.

use std::{future::Future, sync::Arc};

use actix_web::web;
use bytes::{Bytes, BytesMut};
use tokio::{runtime::Handle, sync::Semaphore, task::spawn_blocking};

use super::{
    cloud_event::{Setting, cloud_event, render, render_reset},
    event_filter::Filter,
    server::App,
};
use crate::store::{Committed, History, LeaseStore, Position, StoreError};

/// Pieces that are read at a time. However many subscribers there are, each has its turn. A store in the process
/// keeps a core busy; one over a network is mostly waited for, and one read that hangs must not hold up all others.
const IN_PROCESS: usize = 1;
const OVER_A_NETWORK: usize = 16;
/// Changes that are read from the store at a time.
const CHANGES: usize = 96;
/// What a piece gathers at most, while there is more: bytes, and reads of changes that are not wanted.
const PIECE_BYTES: usize = 64 * 1024;
const READS: usize = 16;

/// The turns.
pub struct Replays(Arc<Semaphore>);

/// A part of the history, as a stream sends it.
pub struct Piece {
    /// Events; none, when nothing of it is wanted.
    pub events: Bytes,
    /// Up to where it goes.
    pub position: Position,
    /// There is no more.
    pub is_last: bool,
}

/// A part of the history, as a long poll answers it.
pub struct Page {
    /// CloudEvents, oldest first.
    pub events: Vec<serde_json::Value>,
    /// Up to where it goes.
    pub position: Position,
    /// What followed was no longer kept.
    pub reset: bool,
    /// There is no more for now.
    pub is_last: bool,
}

impl Replays {
    /// Of this store.
    pub fn of(store: &dyn LeaseStore) -> Self {
        let shared = store.shared().is_some();
        Self(Arc::new(Semaphore::new(if shared { OVER_A_NETWORK } else { IN_PROCESS })))
    }

    /// The next piece after a position, for a stream.
    ///
    /// # Errors
    /// When the store cannot tell.
    pub async fn next(
        app: web::Data<App>,
        filter: Arc<Filter>,
        after: Position,
    ) -> Result<Piece, StoreError> {
        let turns = app.replays.0.clone();
        in_turn(turns, async move { read(&app, &filter, after).await }).await
    }

    /// The next events after a position, for a page; so many at most.
    ///
    /// # Errors
    /// When the store cannot tell.
    pub async fn page(
        app: web::Data<App>,
        filter: Arc<Filter>,
        after: Position,
        most: usize,
    ) -> Result<Page, StoreError> {
        let turns = app.replays.0.clone();
        in_turn(turns, async move { read_page(&app, &filter, after, most).await }).await
    }
}

/// Who leaves while it reads gives its turn back when the read is done, and not before.
async fn in_turn<T: Send + 'static>(
    turns: Arc<Semaphore>,
    job: impl Future<Output = Result<T, StoreError>> + Send + 'static,
) -> Result<T, StoreError> {
    let turn = turns.acquire_owned().await;
    let runtime = Handle::current();
    let read = spawn_blocking(move || {
        let done = runtime.block_on(job);
        drop(turn);
        done
    });
    read.await.unwrap_or_else(|ended| Err(StoreError::Unavailable(ended.to_string())))
}

/// What the history has for a subscriber.
enum Told<'a> {
    Event(&'a Setting, &'a Committed),
    /// What came before this position is no longer kept.
    Gap(Position),
}

/// Goes through the history, for as long as there is room; `take` says how many more changes there is room for. Up to
/// where it went, and whether there is no more.
async fn walk(
    app: &App,
    filter: &Filter,
    mut position: Position,
    mut room: usize,
    mut take: impl FnMut(Told<'_>) -> usize,
) -> Result<(Position, bool), StoreError> {
    for _ in 0..READS {
        match app.manager.history(position, CHANGES.min(room)).await? {
            History::Changes(changes) if changes.is_empty() => return Ok((position, true)),
            History::Changes(changes) => {
                for committed in changes {
                    position = committed.position;
                    let world = app.manager.world();
                    if filter.wants(world, &committed) {
                        room = take(Told::Event(&Setting::of(world, &committed), &committed));
                    }
                }
            }
            History::Gap { resume } => (position, room) = (resume, take(Told::Gap(resume))),
        }
        if room == 0 {
            break;
        }
    }
    Ok((position, false))
}

async fn read(app: &App, filter: &Filter, after: Position) -> Result<Piece, StoreError> {
    let mut out = BytesMut::new();
    let take = |told: Told<'_>| {
        out.extend_from_slice(&match told {
            Told::Event(setting, committed) => render(&app.source, setting, committed),
            Told::Gap(resume) => render_reset(&app.source, resume, "no-longer-kept"),
        });
        if out.len() < PIECE_BYTES { CHANGES } else { 0 }
    };
    let (position, is_last) = walk(app, filter, after, CHANGES, take).await?;
    Ok(Piece { events: out.freeze(), position, is_last })
}

async fn read_page(
    app: &App,
    filter: &Filter,
    after: Position,
    most: usize,
) -> Result<Page, StoreError> {
    let (mut events, mut reset) = (Vec::new(), false);
    let take = |told: Told<'_>| match told {
        Told::Event(setting, committed) => {
            let event = cloud_event(&app.source, setting, committed);
            events.push(serde_json::to_value(event).unwrap_or_default());
            most - events.len()
        }
        Told::Gap(_) => {
            reset = true;
            0
        }
    };
    let (position, is_last) = walk(app, filter, after, most, take).await?;
    Ok(Page { events, position, reset, is_last })
}
