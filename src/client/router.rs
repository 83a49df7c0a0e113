//! Finds the owner of a key without a call.
//!
//! Guarantees: the routes of a [`Router`] have every change of the pool in the end, also after a lost connection and
//! after a restart of the coordinators or a restore of their store. Between two resets of the stream, a route never goes
//! back to an older one. [`Router::lookup`] takes no lock and makes no call.
//!
//! Does not guarantee: that the owner in a route still has the key. A route is late by the time that the change needs to
//! get here, and [`Router::is_current`] tells whether the stream is connected. So send the token of the route with the
//! request, and let the owner compare it with that of its lease ([`super::Lease::token`]): it refuses a request whose
//! token differs.
//!
//! ```no_run
//! use tenure::client::{Client, Router};
//!
//! #[tokio::main(flavor = "current_thread")]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let client = Client::new("http://127.0.0.1:7373")?;
//!     let router = Router::follow(client, "shards").await?;
//!     if let Some(route) = router.lookup("shards/17") {
//!         if let Some(address) = route.address() {
//!             println!("send the request to {address}, with token {}", route.token());
//!         }
//!     }
//!     Ok(())
//! }
//! ```

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::{sync::watch, task::JoinHandle, time::sleep};

use super::{Client, ClientError, Event, EventFilter, EventStream, StreamItem};
use crate::api::{self, RouteState, RoutedMember};

/// The pause after the assignment could not be read.
const PAUSE: Duration = Duration::from_secs(1);

/// Who has a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    state: RouteState,
    owner: Option<Arc<str>>,
    address: Option<Arc<str>>,
    session: Option<Arc<str>>,
    token: u64,
    seq: u64,
}

impl Route {
    /// Whether the key has an owner, and whether that was asked to hand it over.
    #[must_use]
    pub fn state(&self) -> RouteState {
        self.state
    }

    /// The owner; `None` for a key that nobody has.
    #[must_use]
    pub fn owner(&self) -> Option<&str> {
        self.owner.as_deref()
    }

    /// Where the owner serves its keys; `None` if it did not say.
    #[must_use]
    pub fn address(&self) -> Option<&str> {
        self.address.as_deref()
    }

    /// The fencing token of the owner's tenure, or of the last one.
    #[must_use]
    pub fn token(&self) -> u64 {
        self.token
    }

    /// The digest of the owner's session; `None` if no session keeps the lease.
    #[must_use]
    pub fn session(&self) -> Option<&str> {
        self.session.as_deref()
    }
}

/// The owners of the keys of a pool. It follows them in the background until it is dropped.
pub struct Router {
    routes: Arc<Routes>,
    changes: watch::Receiver<u64>,
    following: JoinHandle<()>,
}

impl Router {
    /// Reads who has the keys of a pool, and follows the changes from then on.
    ///
    /// # Errors
    /// The server's refusal, such as that no policy names the pool, or that no server can be reached.
    pub async fn follow(client: Client, pool: impl Into<String>) -> Result<Self, ClientError> {
        let (pool, routes) = (pool.into(), Arc::new(Routes::default()));
        let cursor = routes.read(&client, &pool).await?;
        let (changed, changes) = watch::channel(0);
        let following = routes.clone().follow(client, pool, cursor, changed);
        Ok(Self { routes, changes, following: tokio::spawn(following) })
    }

    /// Who has a key, as far as this router knows. `None` for a key without a record.
    #[must_use]
    pub fn lookup(&self, key: &str) -> Option<Arc<Route>> {
        self.routes.by_key.pin().get(key).cloned()
    }

    /// All keys, in no order, and who has them.
    #[must_use]
    pub fn routes(&self) -> Vec<(Arc<str>, Arc<Route>)> {
        let all = self.routes.by_key.pin();
        all.iter().map(|(key, route)| (key.clone(), route.clone())).collect()
    }

    /// Whether the stream of changes is connected. Without it the routes get old.
    #[must_use]
    pub fn is_current(&self) -> bool {
        self.routes.is_current.load(Ordering::Acquire)
    }

    /// Counts the changes. Wait for its next value to learn that routes changed.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.clone()
    }
}

impl std::fmt::Debug for Router {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Router").field("keys", &self.routes.by_key.len()).finish_non_exhaustive()
    }
}

impl Drop for Router {
    fn drop(&mut self) {
        self.following.abort();
    }
}

#[derive(Default)]
struct Routes {
    by_key: papaya::HashMap<Arc<str>, Arc<Route>>,
    /// The addresses of members, by session. Only the task that follows uses it.
    addresses: Mutex<HashMap<String, Option<Arc<str>>>>,
    is_current: AtomicBool,
}

impl Routes {
    /// Reads all keys. Returns the cursor from which the changes are to be followed.
    async fn read(&self, client: &Client, pool: &str) -> Result<String, ClientError> {
        let (mut cursor, mut after) = (None, None);
        let mut known = std::collections::HashSet::new();
        loop {
            let page = client.assignment(pool, after).await?;
            for route in page.keys {
                known.insert(route.key.clone());
                // Whatever is known: a store that was restored has older routes.
                self.set(route);
            }
            let cursor = cursor.get_or_insert(page.cursor);
            match page.next {
                Some(next) => after = Some(next),
                None => {
                    // What is not there was forgotten, or belongs to another pool now.
                    self.by_key.pin().retain(|key, _| known.contains(&**key));
                    return Ok(cursor.clone());
                }
            }
        }
    }

    async fn follow(
        self: Arc<Self>,
        client: Client,
        pool: String,
        mut cursor: String,
        changed: watch::Sender<u64>,
    ) {
        loop {
            let filter = EventFilter { after: Some(cursor), ..EventFilter::default() };
            let path = ["pools", &pool, "assignment", "changes"];
            self.hear(EventStream::new(client.clone(), &path, filter), &changed).await;
            self.is_current.store(false, Ordering::Release);
            // Some changes are missing: everything is read again.
            cursor = loop {
                match self.read(&client, &pool).await {
                    Ok(cursor) => break cursor,
                    Err(error) => {
                        tracing::warn!(pool, %error, "cannot read who has the keys of a pool; retrying")
                    }
                }
                sleep(PAUSE).await;
            };
            changed.send_modify(|count| *count += 1);
        }
    }

    /// Follows the changes until some are missing.
    async fn hear(&self, mut stream: EventStream, changed: &watch::Sender<u64>) {
        loop {
            match stream.next().await {
                Ok(StreamItem::Connected) => self.begin(),
                Ok(StreamItem::Disconnected { .. }) => {
                    self.is_current.store(false, Ordering::Release);
                }
                Ok(StreamItem::Event(event)) => {
                    if !self.take(event) {
                        return;
                    }
                    changed.send_modify(|count| *count += 1);
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot follow who has the keys of a pool; retrying");
                    sleep(PAUSE).await;
                    return;
                }
            }
        }
    }

    /// The stream is connected. It begins with all members; those that ended meanwhile are not among them.
    fn begin(&self) {
        self.addresses().clear();
        self.is_current.store(true, Ordering::Release);
    }

    /// Takes an event. Returns whether none is missing before it.
    fn take(&self, event: Event) -> bool {
        match event.kind.as_str() {
            "route" => {
                if let Ok(route) = serde_json::from_value(event.body) {
                    self.learn(route);
                }
            }
            "member" => {
                if let Ok(member) = serde_json::from_value(event.body) {
                    self.meet(member);
                }
            }
            "reset" => return false,
            _ => {}
        }
        true
    }

    fn addresses(&self) -> std::sync::MutexGuard<'_, HashMap<String, Option<Arc<str>>>> {
        self.addresses.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps the route of a key, if it is newer than the known one.
    fn learn(&self, told: api::Route) {
        let routes = self.by_key.pin();
        let known = routes.get(&*told.key).map(|known| (known.token, known.seq));
        let is_gone = told.state == RouteState::Gone;
        let told_at = (told.token, told.seq);
        if known.is_some_and(|known| known > told_at || known == told_at && !is_gone) {
            return;
        }
        if is_gone {
            routes.remove(&*told.key);
        } else {
            self.set(told);
        }
    }

    fn set(&self, told: api::Route) {
        let api::Route { key, state, owner, token, seq, session, address } = told;
        let met = session.as_ref().and_then(|session| self.addresses().get(session).cloned());
        let address = met.unwrap_or_else(|| address.map(Into::into));
        let (owner, session) = (owner.map(Into::into), session.map(Into::into));
        let route = Route { state, owner, address, session, token, seq };
        self.by_key.pin().insert(key.into(), Arc::new(route));
    }

    /// Notes the address of a member. Routes to it that have another one are replaced.
    fn meet(&self, member: RoutedMember) {
        let RoutedMember { session, address, gone, .. } = member;
        if gone {
            self.addresses().remove(&session);
            return;
        }
        let address: Option<Arc<str>> = address.map(Into::into);
        self.addresses().insert(session.clone(), address.clone());
        let routes = self.by_key.pin();
        for (key, route) in &routes {
            if route.session() == Some(session.as_str()) && route.address != address {
                let address = address.clone();
                routes.insert(key.clone(), Arc::new(Route { address, ..Route::clone(route) }));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(token: u64, seq: u64, session: &str) -> api::Route {
        api::Route {
            key: "k".into(),
            state: RouteState::Held,
            owner: Some("w".into()),
            token,
            seq,
            session: Some(session.into()),
            address: None,
        }
    }

    fn of(routes: &Routes) -> Option<(u64, Option<String>)> {
        let route = routes.by_key.pin().get("k").cloned()?;
        Some((route.token(), route.address().map(str::to_owned)))
    }

    #[test]
    fn the_newest_route_of_a_key_stays_whatever_the_order_in_which_they_come() {
        let routes = Routes::default();
        for (token, seq) in [(7, 3), (5, 1), (7, 2)] {
            routes.learn(route(token, seq, "s"));
        }
        assert_eq!(of(&routes), Some((7, None)));
        routes.learn(api::Route { state: RouteState::Gone, ..route(7, 2, "s") });
        assert!(of(&routes).is_some(), "this is older");
        // A key that is forgotten but still has its record is free under the same token and number.
        routes.learn(api::Route { state: RouteState::Gone, ..route(7, 3, "s") });
        assert_eq!(of(&routes), None);
    }

    #[test]
    fn a_stream_that_begins_forgets_the_members_of_the_one_before() {
        let routes = Routes::default();
        let (session, owner, gone) = ("s".to_owned(), "w".to_owned(), false);
        routes.meet(RoutedMember { session, owner, address: Some("a:1".into()), gone });
        routes.begin();
        routes.set(api::Route { address: Some("b:1".into()), ..route(7, 3, "s") });
        assert_eq!(of(&routes), Some((7, Some("b:1".to_owned()))));
    }

    #[test]
    fn after_a_reset_an_older_route_of_a_restored_store_counts() {
        let routes = Routes::default();
        routes.learn(route(7, 3, "s"));
        routes.set(route(5, 1, "s"));
        assert_eq!(of(&routes), Some((5, None)));
        routes.learn(route(6, 1, "s"));
        assert_eq!(of(&routes), Some((6, None)));
    }

    #[test]
    fn a_route_has_the_address_of_its_member_whichever_comes_first() {
        let routes = Routes::default();
        let member = |session: &str, address: &str| RoutedMember {
            session: session.into(),
            owner: "w".into(),
            address: Some(address.into()),
            gone: false,
        };
        routes.learn(route(1, 1, "s"));
        routes.meet(member("s", "a:1"));
        assert_eq!(of(&routes), Some((1, Some("a:1".into()))));
        routes.meet(member("t", "b:1"));
        assert_eq!(of(&routes), Some((1, Some("a:1".into()))));
        routes.learn(route(2, 2, "t"));
        assert_eq!(of(&routes), Some((2, Some("b:1".into()))));
    }
}
