//! Ownership changes as CloudEvents, and the cursors that name their positions.

use std::sync::Arc;

use serde::Serialize;

use super::Manager;
use crate::{
    clock::rfc3339,
    lease::{DEFAULT_POOL, Nonce, Revision},
    store::{Committed, Position},
};

/// The beginning of a store's identity, which tells its cursors from those of other stores. A store that went backwards
/// gets another identity when its epoch is raised.
pub fn store_tag(identity: Nonce) -> String {
    format!("{:08x}", identity.0 >> 96)
}

/// Writes a cursor of the store with this tag.
pub fn write_cursor(store_tag: &str, at: Position) -> String {
    format!("{store_tag}-{}-{}", at.revision.0, at.index)
}

/// The store's tag and the position in a cursor. Only the exact form that [`write_cursor`] writes is accepted.
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
    /// The cursor of its position.
    pub id: String,
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

/// Turns a change into an event that the node with this URL reports.
pub fn cloud_event<'a>(
    url: &'a str,
    store_tag: &str,
    setting: &'a Setting,
    committed: &'a Committed,
) -> CloudEvent<'a> {
    let node = match &setting.writer {
        Writer::ThisNode => Some(url),
        Writer::Other(url) => Some(&**url),
        Writer::Forgotten => None,
    };
    let change = &committed.change;
    let key = committed.key.as_str();
    CloudEvent {
        specversion: "1.0",
        id: write_cursor(store_tag, committed.position),
        // When the node that made the change is no longer known, the reporting node is named.
        source: node.unwrap_or(url),
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
