//! What nodes remember of the store, beside what is in it: their pools, what principals have, the members and the holders
//! that they tell routers, and which leases sessions keep. A store that went backwards must not leave anything behind.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
    sync::Arc,
    time::Duration,
};

use tenure::{
    actor::{BusEvent, Quota, Subscriber},
    lease::{Key, KeyState, Nonce, Owner, Record},
    manager::{Manager, Route, RouteState, UNCOUNTED},
    store::{Found, Position},
};
use tokio::time::sleep;

use super::{host::Host, plan::Plan, run::owner, store::Server, time::ms};

/// Between two looks.
const PAUSE: Duration = Duration::from_secs(10);
/// So many looks have to differ from the store: what is on its way arrives meanwhile.
const LOOKS: u32 = 6;
/// More than any worker takes: nothing is refused, but everything is counted.
const PLENTY: u32 = 1_000_000;
const POOL: &str = "pool";

/// A router: who holds each key of the pool, as a node tells it.
pub type Routes = Rc<RefCell<BTreeMap<Key, Route>>>;

/// What a node remembers that can be looked at from outside.
pub struct Memories {
    manager: Arc<Manager>,
    workers: usize,
    routes: Routes,
}

/// Every worker is a principal of its own, with a limit.
pub fn count_all(manager: &Manager, workers: usize) {
    let quota = Quota { held: Some(PLENTY), sessions: Some(PLENTY) };
    let principals = (0..workers).filter_map(|worker| owner(worker).principal_digest());
    manager.coordinator().quotas.set(principals.map(|principal| (principal, quota)));
}

impl Memories {
    pub fn new(manager: &Arc<Manager>, workers: usize, routes: Routes) -> Self {
        // From now on the node publishes the members.
        drop(manager.roster(POOL));
        Self { manager: manager.clone(), workers, routes }
    }

    /// How they differ from the store.
    pub fn wrong(&self, truth: &[(Key, Found)]) -> Vec<String> {
        let records = truth.iter().filter_map(|(key, found)| {
            let record = found.record.as_ref().ok()?;
            Some((key, &**record))
        });
        let records: Vec<(&Key, &Record)> = records.collect();
        let differences = [
            self.pool(&records),
            self.counts(&records),
            self.routers(&records),
            self.kept(&records),
        ];
        differences.into_iter().flatten().collect()
    }

    /// Who has the keys of the pool.
    fn pool(&self, records: &[(&Key, &Record)]) -> Option<String> {
        let mut known = self.manager.coordinator().pools.holders(POOL)?;
        let of_pool = records.iter().filter(|(key, _)| is_of_pool(key));
        let truth: BTreeMap<Key, Option<Nonce>> =
            of_pool.map(|(key, record)| ((*key).clone(), holder(record))).collect();
        for key in never_granted(records) {
            known.entry(key.clone()).or_insert(None);
        }
        differ("the pool has", &known, &truth)
    }

    /// How many leases and sessions each principal has.
    fn counts(&self, records: &[(&Key, &Record)]) -> Option<String> {
        let quotas = &self.manager.coordinator().quotas;
        let of = |owner: &Owner, sessions: bool| {
            let digest = owner.principal_digest()?;
            let held = records.iter().filter(|(key, record)| {
                let holder = record.tenure.as_ref().filter(|_| record.state == KeyState::Held);
                key.is_session() == sessions
                    && holder.is_some_and(|tenure| tenure.owner.principal_digest() == Some(digest))
            });
            Some((quotas.held(digest, sessions), held.count()))
        };
        let all = (0..self.workers).flat_map(|worker| [(worker, false), (worker, true)]);
        let (mut known, mut truth) = (BTreeMap::new(), BTreeMap::new());
        for (worker, sessions) in all {
            let owner = owner(worker);
            let Some((counted, held)) = of(&owner, sessions) else { continue };
            known.insert((owner.to_string(), sessions), counted);
            truth.insert((owner.to_string(), sessions), held);
        }
        differ("principals have", &known, &truth)
    }

    /// What a router knows.
    fn routers(&self, records: &[(&Key, &Record)]) -> Option<String> {
        let joined = records.iter().filter_map(|(key, record)| {
            let spec = record.spec.as_ref().filter(|_| record.state == KeyState::Held)?;
            spec.pool.as_ref().and(key.session())
        });
        let (roster, joined) =
            (self.manager.roster(POOL).get(), joined.collect::<BTreeSet<Nonce>>());
        let listed: BTreeSet<Nonce> = roster.keys().copied().collect();
        if listed != joined {
            return Some(format!(
                "routers are told of the members {listed:?}, and there are {joined:?}"
            ));
        }
        let routes = self.routes.borrow();
        let of_pool = records.iter().filter(|(key, _)| is_of_pool(key));
        let truth: BTreeMap<Key, Option<String>> = of_pool
            .map(|(key, record)| {
                let held = record.tenure.as_ref().filter(|_| record.state == KeyState::Held);
                ((*key).clone(), held.map(|tenure| tenure.owner.to_string()))
            })
            .collect();
        let told = routes.iter();
        let owner_of = |route: &Route| route.owner.as_ref().map(Owner::to_string);
        let mut told: BTreeMap<Key, Option<String>> =
            told.map(|(key, route)| (key.clone(), owner_of(route))).collect();
        for key in never_granted(records) {
            told.entry(key.clone()).or_insert(None);
        }
        differ("a router knows", &told, &truth)
    }

    /// Which leases sessions keep.
    fn kept(&self, records: &[(&Key, &Record)]) -> Option<String> {
        let sessions = &self.manager.coordinator().sessions;
        let missing = records.iter().find(|(key, record)| {
            let session = record.session_ref().filter(|_| record.state == KeyState::Held);
            session.is_some_and(|of| {
                sessions.indexed(of.session).is_some_and(|kept| !kept.contains(key))
            })
        });
        missing.map(|(key, _)| format!("the session that keeps {key} is not known to keep it"))
    }
}

fn is_of_pool(key: &Key) -> bool {
    key.as_str().starts_with("p/")
}

/// Keys that were pinned, and never granted. They have records, but no change says who has them.
fn never_granted<'a>(records: &'a [(&'a Key, &'a Record)]) -> impl Iterator<Item = &'a Key> {
    let untouched = |record: &Record| record.tenure.is_none() && record.previous.is_none();
    let of_pool = records.iter().filter(|(key, _)| is_of_pool(key));
    of_pool.filter(move |(_, record)| untouched(record)).map(|(key, _)| *key)
}

/// The session that has the key, or no session: `Nonce(0)`.
fn holder(record: &Record) -> Option<Nonce> {
    let session = record.session_ref().map_or(Nonce(0), |of| of.session);
    (record.state == KeyState::Held).then_some(session)
}

fn differ<K: Ord + std::fmt::Debug, V: PartialEq + std::fmt::Debug>(
    what: &str,
    known: &BTreeMap<K, V>,
    truth: &BTreeMap<K, V>,
) -> Option<String> {
    let keys: BTreeSet<&K> = known.keys().chain(truth.keys()).collect();
    let different = keys.into_iter().find(|key| known.get(key) != truth.get(key))?;
    let (known, truth) = (known.get(different), truth.get(different));
    Some(format!("{what} {different:?}: {known:?}, and the store says {truth:?}"))
}

/// Nodes remember what is true, a while after nobody changes anything.
pub async fn look(hosts: &[Rc<Host>], server: &Server) -> Vec<String> {
    let mut wrong = Vec::new();
    for _ in 0..LOOKS {
        let truth = server.items();
        let of_host = |host: &Rc<Host>| {
            let told = host.remembers(&truth).into_iter();
            told.map(|told| format!("I8: node {}: {told}", host.number)).collect::<Vec<_>>()
        };
        wrong = hosts.iter().flat_map(of_host).collect();
        if wrong.is_empty() {
            return wrong;
        }
        sleep(PAUSE).await;
    }
    wrong
}

/// Follows the holders of the pool's keys as routers do: all keys, then the changes; and all anew after a reset.
pub async fn route(manager: Arc<Manager>, mut subscriber: Subscriber, routes: Routes) {
    loop {
        let mut position = begin(&manager, &routes).await;
        loop {
            let committed = match subscriber.changes.recv().await {
                Ok(BusEvent::Change(change)) => change.committed.clone(),
                Ok(BusEvent::Frozen(_)) => continue,
                Ok(BusEvent::Lost(_)) => break,
                Err(tokio::sync::broadcast::error::RecvError::Lagged(_)) => break,
                Err(_) => return,
            };
            if committed.position <= position || !is_of_pool(&committed.key) {
                continue;
            }
            position = committed.position;
            let Some(route) = Route::of_change(&committed.change) else { continue };
            let mut routes = routes.borrow_mut();
            match routes.get(&committed.key) {
                Some(known) if known.seq >= route.seq => {}
                _ if route.state == RouteState::Gone => drop(routes.remove(&committed.key)),
                _ => drop(routes.insert(committed.key, route)),
            }
        }
    }
}

/// Reads who has each key. Returns the position from which the changes are to be followed.
async fn begin(manager: &Manager, routes: &Routes) -> Position {
    'anew: loop {
        let (mut first, mut after, mut all) = (None, None, BTreeMap::new());
        loop {
            let Ok(page) = manager.assignment(POOL, None, after.take(), 100, UNCOUNTED).await
            else {
                sleep(ms(100)).await;
                continue 'anew;
            };
            let position = *first.get_or_insert(page.position);
            all.extend(page.keys);
            after = page.next;
            if after.is_none() {
                *routes.borrow_mut() = all;
                return position;
            }
        }
    }
}

/// The leases of the keys that have permits in some worlds, by the number of permits that is in force at the end. Each of
/// them can then be had.
pub fn permits(plan: &Plan) -> Vec<Key> {
    let number = plan.reloads.last().map_or(super::plan::PERMITS, |reload| reload.permits);
    let lease = |key: &Key, at| match number {
        1 => key.clone(),
        _ => Key::new(&format!("{key}#{at}")).expect("it is a key"),
    };
    let all = plan.shared.iter().filter(|_| plan.alls > 0);
    all.flat_map(|key| (1..=number).map(move |at| lease(key, at))).collect()
}
