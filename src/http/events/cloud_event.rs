//! Ownership changes as events of a stream, and the cursors from which a stream resumes.

use bytes::Bytes;

use crate::{
    http::{
        answer::Problem,
        app::{App, Source},
    },
    manager::{CloudEvent, Setting, read_cursor, write_cursor},
    store::{Committed, Position},
};

/// Writes a cursor: the store's tag, which tells it from cursors of other stores, and the position in the store.
pub fn cursor(source: &Source, at: Position) -> String {
    write_cursor(&source.store_tag(), at)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin {
    /// With the changes from now on.
    Now,
    /// With the changes after this position.
    After(Position),
    /// Now, for a subscriber that names a position in another store.
    AnotherStore,
}

/// Reads a cursor: `0` for the earliest change that is kept, or what [`cursor`] wrote.
pub fn parse_cursor(app: &App, text: &str) -> Result<Begin, Problem> {
    if text == "0" {
        return Ok(Begin::After(app.manager.earliest()));
    }
    let (tag, position) =
        read_cursor(text).ok_or_else(|| Problem::field("after", "is not a cursor"))?;
    let ours = tag == app.source.store_tag();
    Ok(if ours { Begin::After(position) } else { Begin::AnotherStore })
}

/// Turns a change into an event.
pub fn cloud_event<'a>(
    source: &'a Source,
    setting: &'a Setting,
    committed: &'a Committed,
) -> CloudEvent<'a> {
    crate::manager::cloud_event(&source.node, &source.store_tag(), setting, committed)
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

/// The document in a rendered event.
pub fn data_of(rendered: &[u8]) -> &[u8] {
    const BEFORE: &[u8] = b"\ndata: ";
    let at = rendered.windows(BEFORE.len()).position(|part| part == BEFORE);
    let data = at.map_or(rendered, |at| &rendered[at + BEFORE.len()..]);
    data.trim_ascii_end()
}

/// The position in the present store that a cursor names.
pub fn read_position(app: &App, text: &str) -> Option<Position> {
    match parse_cursor(app, text) {
        Ok(Begin::After(position)) => Some(position),
        _ => None,
    }
}

/// Renders a `frozen` event. It has no cursor: it is not a change of a key, and it is not replayed.
pub fn render_frozen(why: Option<&str>) -> Bytes {
    let data = serde_json::json!({ "frozen": why.is_some(), "reason": why });
    format!("event: frozen\ndata: {data}\n\n").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_of_an_event_is_what_follows_its_name() {
        let frozen = render_frozen(Some("why"));
        let expected = serde_json::json!({ "frozen": true, "reason": "why" });
        let found: serde_json::Value = serde_json::from_slice(data_of(&frozen)).expect("JSON");
        assert_eq!(found, expected);
        assert_eq!(data_of(b"id: 1\nevent: x\ndata: {\"data: \":1}\n\n"), br#"{"data: ":1}"#);
    }
}
