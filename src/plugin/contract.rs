//! What a plugin is given, and what it must do.

use std::{
    fmt,
    future::{Future, ready},
    pin::Pin,
    sync::Arc,
};

use super::failure::FenceError;
use crate::{
    lease::{ChangeKind, Key, Nonce, Owner, Token},
    store::Committed,
};

/// The order to shut out one ended tenure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FenceOrder {
    /// The key whose tenure ended.
    pub key: Key,
    /// The token of the tenure that ended. A resource that keeps the highest shut-out token refuses this token and all
    /// lower ones.
    pub token: Token,
    /// The owner of the tenure.
    pub owner: Owner,
    /// The change that ended the tenure, such as [`ChangeKind::Expired`].
    pub reason: ChangeKind,
    /// The digest of the session that kept the lease.
    pub session: Option<Nonce>,
    /// The pool of the key.
    pub pool: Arc<str>,
    /// 1 for the first try.
    pub attempt: u32,
    /// If the fence is a part of a trace: the header `traceparent` of this try, for the calls that the plugin makes.
    pub traceparent: Option<Arc<str>>,
}

/// What a plugin is told of the ownership of keys.
#[derive(Clone, Debug)]
pub struct Notification {
    /// Names it: the same for every try, on every node. It is a cursor of the event stream.
    pub id: Box<str>,
    /// The change; `None` if changes were missed, as a `reset` of the event stream says.
    pub change: Option<Committed>,
    /// The same as a CloudEvent, in JSON.
    pub event: Arc<str>,
    /// 1 for the first try.
    pub attempt: u32,
}

impl Notification {
    /// The kind of change, as the event stream names it, or `reset`.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        self.change.as_ref().map_or("reset", |committed| committed.change.kind.as_str())
    }
}

/// The future of a fence, or of a notification.
pub type Fencing = Pin<Box<dyn Future<Output = Result<(), FenceError>> + Send>>;

/// Fences one kind of resource.
pub trait FencePlugin: Send + Sync + 'static {
    /// Shuts out the tenure that the order names, and resolves once that is certain.
    ///
    /// The future is dropped when its time is over. Whatever it started must end with it. A panic counts as a failed
    /// try.
    fn fence(&self, order: FenceOrder) -> Fencing;

    /// Takes note of a change of ownership, and resolves once the plugin needs not be told again. Called only if the
    /// settings of the plugin have `on`. What [`Self::fence`] says of its future is true here too.
    fn notify(&self, _notification: Notification) -> Fencing {
        Box::pin(ready(Err(FenceError::permanent("this plugin takes no notifications"))))
    }
}

impl fmt::Debug for dyn FencePlugin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FencePlugin")
    }
}
