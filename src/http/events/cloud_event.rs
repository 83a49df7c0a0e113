//! Ownership changes as CloudEvents, and the cursors from which a stream resumes.

use std::sync::Arc;

use bytes::Bytes;
use serde::Serialize;

use crate::{
    clock::rfc3339,
    http::{
        answer::Problem,
        app::{App, Source},
    },
    lease::{DEFAULT_POOL, Revision},
    manager::Manager,
    store::{Committed, Position},
};

/// Writes a cursor: the store's tag, which tells it from cursors of other stores, and the position in the store.
pub fn cursor(source: &Source, at: Position) -> String {
    write_cursor(&source.store_tag(), at)
}

/// Writes a cursor of the store with this tag.
pub fn write_cursor(store_tag: &str, at: Position) -> String {
    format!("{store_tag}-{}-{}", at.revision.0, at.index)
}

/// Where a subscriber begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin {
    /// With the changes from now on.
    Now,
    /// After this position.
    After(Position),
    /// Now, for a subscriber that names a position in another store.
    AnotherStore,
}

/// Reads a cursor.
pub fn parse_cursor(app: &App, text: &str) -> Result<Begin, Problem> {
    if text == "0" {
        return Ok(Begin::After(app.manager.earliest()));
    }
    let (tag, position) =
        read_cursor(text).ok_or_else(|| Problem::field("after", "is not a cursor"))?;
    let ours = tag == app.source.store_tag();
    Ok(if ours { Begin::After(position) } else { Begin::AnotherStore })
}

/// The store's tag and the position in a cursor. Only the exact form that [`cursor`] writes is accepted.
pub fn read_cursor(text: &str) -> Option<(&str, Position)> {
    let mut parts = text.split('-');
    let tag = parts.next()?;
    let revision = Revision(plain_number(parts.next()?)?);
    let index = plain_number(parts.next()?)?;
    parts.next().is_none().then_some((tag, Position { revision, index }))
}

/// A number of digits only, without leading zeros.
fn plain_number<T: std::str::FromStr>(text: &str) -> Option<T> {
    let digits = text.bytes().all(|b| b.is_ascii_digit());
    (digits && (text.len() == 1 || !text.starts_with('0'))).then(|| text.parse().ok()).flatten()
}

/// A change in the form of CloudEvents 1.0.
#[derive(Serialize)]
pub struct CloudEvent<'a> {
    specversion: &'static str,
    id: String,
    source: &'a str,
    #[serde(rename = "type")]
    kind: String,
    subject: &'a str,
    time: String,
    datacontenttype: &'static str,
    data: Data<'a>,
}

#[derive(Serialize)]
struct Data<'a> {
    key: &'a str,
    seq: u64,
    owner: Option<&'a str>,
    token: u64,
    previous: Option<Previous<'a>>,
    reason: Option<&'a str>,
    actor: Option<&'a str>,
    session: Option<String>,
    pool: &'a str,
    node: Option<&'a str>,
}

#[derive(Serialize)]
struct Previous<'a> {
    owner: &'a str,
    token: u64,
}

/// Turns a change into an event.
pub fn cloud_event<'a>(
    source: &'a Source,
    setting: &'a Setting,
    committed: &'a Committed,
) -> CloudEvent<'a> {
    let node = match &setting.writer {
        Writer::ThisNode => Some(&*source.node),
        Writer::Other(url) => Some(&**url),
        Writer::Forgotten => None,
    };
    let change = &committed.change;
    let key = committed.key.as_str();
    CloudEvent {
        specversion: "1.0",
        id: cursor(source, committed.position),
        // When the node that made the change is no longer known, the reporting node is named.
        source: node.unwrap_or(&source.node),
        kind: format!("io.tenure.lease.{}", change.kind.as_str()),
        subject: key,
        time: rfc3339(committed.at_ms),
        datacontenttype: "application/json",
        data: Data {
            key,
            seq: change.seq,
            owner: change.owner.as_ref().map(|owner| owner.as_str()),
            token: change.token.0,
            previous: change
                .previous
                .as_ref()
                .map(|(owner, token)| Previous { owner: owner.as_str(), token: token.0 }),
            reason: change.reason.as_deref(),
            actor: change.actor.as_deref(),
            session: change.session.map(|digest| digest.to_string()),
            pool: &setting.pool,
            node,
        },
    }
}

/// The node that made a change.
enum Writer {
    ThisNode,
    /// The node at this URL.
    Other(Box<str>),
    /// Another node, whose URL is no longer known.
    Forgotten,
}

/// What an event contains besides the change.
pub struct Setting {
    writer: Writer,
    /// The pool that the key belongs to now.
    pool: Arc<str>,
}

impl Setting {
    /// The setting as the node knows it now.
    pub fn of(manager: &Manager, committed: &Committed) -> Self {
        let writer = if manager.is_own(committed.node) {
            Writer::ThisNode
        } else {
            manager.home(committed.node).url.map_or(Writer::Forgotten, Writer::Other)
        };
        Self { writer, pool: manager.pool_of(committed.key.as_str()) }
    }

    /// The setting when the coordinator is already gone.
    pub fn unknown() -> Self {
        Self { writer: Writer::ThisNode, pool: DEFAULT_POOL.into() }
    }
}

/// Renders one event of the stream. The JSON has no line breaks, so one `data:` line is enough.
pub fn render(source: &Source, setting: &Setting, committed: &Committed) -> Bytes {
    let event = cloud_event(source, setting, committed);
    let mut out = Vec::with_capacity(512);
    out.extend_from_slice(
        format!("id: {}\nevent: {}\ndata: ", event.id, committed.change.kind.as_str()).as_bytes(),
    );
    // A write into memory does not fail.
    let _ = serde_json::to_writer(&mut out, &event);
    out.extend_from_slice(b"\n\n");
    out.into()
}

/// Renders the event that tells a subscriber that it may have missed changes, and its position.
pub fn render_reset(source: &Source, at: Position, reason: &str) -> Bytes {
    let id = cursor(source, at);
    let data = serde_json::json!({ "cursor": id, "reason": reason });
    format!("id: {id}\nevent: reset\ndata: {data}\n\n").into()
}

/// Renders a `frozen` event. It has no cursor: it is not a change of a key, and it is not replayed.
pub fn render_frozen(why: Option<&str>) -> Bytes {
    let data = serde_json::json!({ "frozen": why.is_some(), "reason": why });
    format!("event: frozen\ndata: {data}\n\n").into()
}
