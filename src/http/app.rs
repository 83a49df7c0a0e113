//! The state that the handlers share.

use std::{sync::Arc, time::Duration};

use super::{
    caller::Cookies,
    door::{Budget, Door},
    peer::Forwarder,
    replays::Replays,
    streams::Streams,
};
use crate::{
    access::Current,
    lease::Nonce,
    manager::{Manager, store_tag},
    store::LeaseStore,
    telemetry::Recorder,
    tls::Certificates,
};

/// The state that the handlers share.
pub struct App {
    pub manager: Arc<Manager>,
    /// Forwards requests to other nodes.
    pub forwarder: Forwarder,
    pub recorder: Recorder,
    /// Sets the gauges that are only computed for a scrape.
    pub before_scrape: Box<dyn Fn() + Send + Sync>,
    /// The origin that answers and events name.
    pub source: Arc<Source>,
    pub store_kind: &'static str,
    /// An event stream sends a comment after it was silent for this long.
    pub keep_alive: Duration,
    /// Reads the history for subscribers.
    pub replays: Replays,
    /// Decides which requests reach a handler.
    pub door: Door,
    /// Whether whoever reaches the port from elsewhere may do everything.
    pub open_door: bool,
    /// The access file that is in force; `None`: everybody may do everything.
    pub access: Option<Arc<Current>>,
    /// When each certificate in use is valid.
    pub certificates: Arc<Certificates>,
    /// The cookies of the status page.
    pub cookies: Arc<Cookies>,
    /// The bytes that bodies may take.
    pub bodies: Arc<Budget>,
    /// The open streams.
    pub streams: Arc<Streams>,
}

impl App {
    /// The URL of a lease's home node: this node's own where no other is the home node. `None` for a node whose record
    /// has not been read yet.
    pub fn url_of(&self, node: Option<Nonce>) -> Option<String> {
        match node.filter(|node| !self.manager.is_own(*node)) {
            None => Some(self.source.node.clone()),
            Some(node) => self.manager.home(node).url.map(String::from),
        }
    }
}

/// The origin of answers and events.
pub struct Source {
    /// The URL at which others reach this coordinator.
    pub node: String,
    /// The store whose history this is.
    pub store: Arc<dyn LeaseStore>,
}

impl Source {
    /// The beginning of the store's identity, for cursors. A store that went backwards gets another identity when its
    /// epoch is raised, for all processes that go on with it.
    pub fn store_tag(&self) -> String {
        store_tag(self.identity())
    }

    /// The store's present identity. It changes when the epoch of a store that went backwards is raised.
    pub fn identity(&self) -> Nonce {
        self.store.meta().identity
    }
}
