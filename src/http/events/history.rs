//! Reads the history for subscribers.

use std::sync::Arc;

use actix_web::web;
use bytes::{Bytes, BytesMut};

use super::{
    cloud_event::{cloud_event, render_reset},
    filter::Filter,
};
use crate::{
    http::app::App,
    manager::Setting,
    store::{Committed, History, Position, StoreError},
};

/// The changes that one read of the store returns at most.
const CHANGES: usize = 96;
/// The bounds at which a piece ends although there is more: bytes, and reads of the store.
const PIECE_BYTES: usize = 64 * 1024;
const READS: usize = 16;

/// A part of the history, for a stream.
pub struct Piece {
    /// The events; empty when the subscriber wants none of them.
    pub events: Bytes,
    /// The position of the part's end.
    pub position: Position,
    /// Whether there is no more.
    pub is_last: bool,
    /// How many changes were looked at.
    pub looked_at: usize,
}

/// A part of the history, for the answer of a long poll.
pub struct Page {
    /// The changes as CloudEvents, oldest first.
    pub events: Vec<serde_json::Value>,
    /// The position of the part's end.
    pub position: Position,
    /// Whether the store no longer keeps what followed.
    pub reset: bool,
    /// Whether there is no more for now.
    pub is_last: bool,
    /// How many changes were looked at.
    pub looked_at: usize,
}

/// The next piece after a position, for a stream.
///
/// # Errors
/// When the store cannot be read.
pub async fn next_piece(
    app: web::Data<App>,
    filter: Arc<Filter>,
    after: Position,
    render: fn(&App, &Committed) -> Bytes,
) -> Result<Piece, StoreError> {
    let of = app.clone();
    app.replays.run(async move { read(&of, &filter, after, render).await }).await
}

/// The next events after a position, for a page; at most `most`.
///
/// # Errors
/// When the store cannot be read.
pub async fn next_page(
    app: web::Data<App>,
    filter: Arc<Filter>,
    after: Position,
    most: usize,
) -> Result<Page, StoreError> {
    let of = app.clone();
    app.replays.run(async move { read_page(&of, &filter, after, most).await }).await
}

/// An item of the history for a subscriber.
enum HistoryItem<'a> {
    Event(&'a Committed),
    /// The store no longer keeps what came before this position.
    Gap(Position),
}

/// Where a walk through the history ended.
struct Walked {
    position: Position,
    /// Whether there is no more.
    is_last: bool,
    /// How many changes were looked at.
    looked_at: usize,
}

/// Walks the history while there is room; `take` returns for how many more changes there is room.
async fn walk(
    app: &App,
    filter: &Filter,
    mut position: Position,
    mut room: usize,
    mut take: impl FnMut(HistoryItem<'_>) -> usize,
) -> Result<Walked, StoreError> {
    let mut looked_at = 0;
    for _ in 0..READS {
        match app.manager.history(position, CHANGES.min(room)).await? {
            History::Changes(changes) if changes.is_empty() => {
                return Ok(Walked { position, is_last: true, looked_at });
            }
            History::Changes(changes) => {
                looked_at += changes.len();
                for committed in changes {
                    position = committed.position;
                    if filter.wants(&app.manager, &committed) {
                        room = take(HistoryItem::Event(&committed));
                    }
                }
            }
            History::Gap { resume } => (position, room) = (resume, take(HistoryItem::Gap(resume))),
        }
        if room == 0 {
            break;
        }
    }
    Ok(Walked { position, is_last: false, looked_at })
}

async fn read(
    app: &App,
    filter: &Filter,
    after: Position,
    render: fn(&App, &Committed) -> Bytes,
) -> Result<Piece, StoreError> {
    let mut out = BytesMut::new();
    let take = |told: HistoryItem<'_>| {
        out.extend_from_slice(&match told {
            HistoryItem::Event(committed) => render(app, committed),
            HistoryItem::Gap(resume) => render_reset(&app.source, resume, "no-longer-kept"),
        });
        if out.len() < PIECE_BYTES { CHANGES } else { 0 }
    };
    let Walked { position, is_last, looked_at } = walk(app, filter, after, CHANGES, take).await?;
    Ok(Piece { events: out.freeze(), position, is_last, looked_at })
}

async fn read_page(
    app: &App,
    filter: &Filter,
    after: Position,
    most: usize,
) -> Result<Page, StoreError> {
    let (mut events, mut reset) = (Vec::new(), false);
    let take = |told: HistoryItem<'_>| match told {
        HistoryItem::Event(committed) => {
            let setting = Setting::of(&app.manager, committed);
            let event = cloud_event(&app.source, &setting, committed);
            events.push(serde_json::to_value(event).unwrap_or_default());
            most - events.len()
        }
        HistoryItem::Gap(_) => {
            reset = true;
            0
        }
    };
    let Walked { position, is_last, looked_at } = walk(app, filter, after, most, take).await?;
    Ok(Page { events, position, reset, is_last, looked_at })
}
