//! Ownership changes as they are told: CloudEvents, and the cursors that a stream resumes from.

use std::sync::Arc;

use bytes::Bytes;
use serde::Serialize;

use super::{
    problem::Problem,
    server::{App, Source},
};
use crate::{
    actor::World,
    clock::rfc3339,
    lease::{DEFAULT_POOL, Revision},
    store::{Committed, Position},
};

/// A cursor: the store's identity, so that another store's is noticed, and the position in it.
pub fn cursor(source: &Source, at: Position) -> String {
    write_cursor(&source.store_tag(), at)
}

/// A cursor of a store by its tag.
pub fn write_cursor(store_tag: &str, at: Position) -> String {
    format!("{store_tag}-{}-{}", at.revision.0, at.index)
}

/// `None` for a cursor of another store.
pub fn parse_cursor(app: &App, text: &str) -> Result<Option<Position>, Problem> {
    if text == "0" {
        return Ok(Some(app.manager.earliest()));
    }
    let (tag, position) =
        read_cursor(text).ok_or_else(|| Problem::field("after", "is not a cursor"))?;
    Ok((tag == app.source.store_tag()).then_some(position))
}

/// The store's tag and the position of a cursor, as [`cursor`] writes it and in no other way.
pub fn read_cursor(text: &str) -> Option<(&str, Position)> {
    let mut parts = text.split('-');
    let tag = parts.next()?;
    let revision = Revision(plain_number(parts.next()?)?);
    let index = plain_number(parts.next()?)?;
    parts.next().is_none().then_some((tag, Position { revision, index }))
}

/// Digits alone, and no more of them than are needed.
fn plain_number<T: std::str::FromStr>(text: &str) -> Option<T> {
    let digits = text.bytes().all(|b| b.is_ascii_digit());
    (digits && (text.len() == 1 || !text.starts_with('0'))).then(|| text.parse().ok()).flatten()
}

/// A change as CloudEvents 1.0 have it.
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

/// A change as an event.
pub fn cloud_event<'a>(
    source: &'a Source,
    setting: &'a Setting,
    committed: &'a Committed,
) -> CloudEvent<'a> {
    let node = setting.writer.as_ref().map_or(Some(&*source.node), Option::as_deref);
    let change = &committed.change;
    let key = committed.key.as_str();
    CloudEvent {
        specversion: "1.0",
        id: cursor(source, committed.position),
        // Who says so, when it is forgotten who did it.
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

/// What an event says besides the change.
pub struct Setting {
    /// The URL of the node that made it, when it was another: `Some(None)` when that is forgotten.
    writer: Option<Option<Box<str>>>,
    /// The pool that the key is in now.
    pool: Arc<str>,
}

impl Setting {
    /// As the world knows it now.
    pub fn of(world: &World, committed: &Committed) -> Self {
        Self {
            writer: (!world.is_own(committed.node)).then(|| world.url_of(committed.node)),
            pool: world.pool_of(committed.key.as_str()),
        }
    }

    /// Of a coordinator that is gone.
    pub fn unknown() -> Self {
        Self { writer: None, pool: DEFAULT_POOL.into() }
    }
}

/// One event of the stream. JSON has no line breaks, so one `data:` line is enough.
pub fn render(source: &Source, setting: &Setting, committed: &Committed) -> Bytes {
    let event = cloud_event(source, setting, committed);
    let mut out = Vec::with_capacity(512);
    out.extend_from_slice(
        format!("id: {}\nevent: {}\ndata: ", event.id, committed.change.kind.as_str()).as_bytes(),
    );
    // Writing into memory does not fail.
    let _ = serde_json::to_writer(&mut out, &event);
    out.extend_from_slice(b"\n\n");
    out.into()
}

/// Tells a subscriber that it may have missed something, and where it stands.
pub fn render_reset(source: &Source, at: Position, reason: &str) -> Bytes {
    let id = cursor(source, at);
    let data = serde_json::json!({ "cursor": id, "reason": reason });
    format!("id: {id}\nevent: reset\ndata: {data}\n\n").into()
}

/// No cursor: it is no change of a key, and is not replayed.
pub fn render_frozen(why: Option<&str>) -> Bytes {
    let data = serde_json::json!({ "frozen": why.is_some(), "reason": why });
    format!("event: frozen\ndata: {data}\n\n").into()
}
