//! The supervisor: hears of every actor's death, replaces dead actors, and publishes what the store committed.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use actix::{
    Actor, ActorContext, AsyncContext, Context, Handler, Message, StreamHandler, WrapFuture,
};
use futures_util::stream;
use tokio::sync::{broadcast::error::RecvError, mpsc::UnboundedReceiver};

use crate::{
    actor::{
        cluster::sweep::is_pending,
        mail::Mail,
        runtime::{exit_notice::Death, registry::Unreachable},
        session::bonds,
        world::World,
    },
    clock::HashMap,
    lease::{Key, Moment, Mutant, SessionOver, State},
    store::{Committed, Feed, History, News, Position, StoreError, Tie},
};

/// How many actors are started at a time after a restart, before the arbiters get time for other work.
const AWAKEN_BATCH: usize = 1000;
/// The pause after a failed start or a failed read of the history.
const PAUSE: Duration = Duration::from_millis(100);
/// How many changes are read at a time after the feed lagged.
const CATCH_UP: usize = 1024;

/// Starts the actors of keys that an earlier process left held, replaces dead actors, and feeds the bus.
pub struct Supervisor {
    world: Arc<World>,
    deaths: Option<UnboundedReceiver<Death>>,
    feed: Option<(Feed, Position)>,
    restarts: HashMap<Key, VecDeque<Moment>>,
}

/// The address at which a running supervisor is told to stop.
pub type SupervisorAddr = actix::Addr<Supervisor>;

/// Ends the supervisor: it no longer reacts to deaths.
pub struct Stop;

impl Message for Stop {
    type Result = ();
}

impl Supervisor {
    /// A supervisor of this world. It takes the feed here, so that it misses no change before the actor starts.
    #[must_use]
    pub fn new(world: Arc<World>, deaths: UnboundedReceiver<Death>) -> Self {
        let feed = world.store.feed();
        let position = world.store.latest();
        Self {
            world,
            deaths: Some(deaths),
            feed: Some((feed, position)),
            restarts: HashMap::default(),
        }
    }

    /// Whether the key's actor died too often lately to be started at once.
    fn exceeds_intensity(&mut self, key: &Key, now: Moment) -> bool {
        let limits = &self.world.limits;
        let horizon = now - limits.restart_window;
        if self.restarts.len() > AWAKEN_BATCH {
            self.restarts.retain(|_, times| times.back().is_some_and(|last| *last > horizon));
        }
        let times = self.restarts.entry(key.clone()).or_default();
        while times.front().is_some_and(|first| *first < horizon) {
            times.pop_front();
        }
        times.push_back(now);
        times.len() > limits.restart_intensity
    }

    /// Starts a rested key again even if no client calls: its lease must end on time.
    fn wake(&self, key: Key, at: Moment, ctx: &mut Context<Self>) {
        let rest = at.since(self.world.clock.now());
        ctx.run_later(rest, move |supervisor, ctx| {
            let started = supervisor.world.registry.start(&supervisor.world, &key);
            if let Err(Unreachable::Resting(until)) = started {
                supervisor.wake(key, until, ctx);
            }
        });
    }
}

impl Actor for Supervisor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Context<Self>) {
        if let Some(mut deaths) = self.deaths.take() {
            ctx.add_stream(stream::poll_fn(move |cx| deaths.poll_recv(cx)));
        }
        if let Some((feed, position)) = self.feed.take() {
            ctx.spawn(publish(self.world.clone(), feed, position).into_actor(self));
        }
    }
}

impl Handler<Stop> for Supervisor {
    type Result = ();
    fn handle(&mut self, _: Stop, ctx: &mut Context<Self>) {
        ctx.stop();
    }
}

impl StreamHandler<Death> for Supervisor {
    /// Replaces the dead actor at once, from the store. A key whose actors keep dying rests.
    fn handle(&mut self, death: Death, ctx: &mut Context<Self>) {
        let Death { key, incarnation, panicked, at } = death;
        if !panicked && self.world.stopping.load(std::sync::atomic::Ordering::Acquire) {
            return;
        }
        let now = self.world.clock.now();
        if self.exceeds_intensity(&key, now) {
            let until = now + self.world.limits.restart_window;
            tracing::error!(key = key.as_str(), "the key's actor died too often; it is paused");
            self.world.registry.rest(&key, incarnation, until);
            return self.wake(key, until, ctx);
        }
        if !self.world.registry.retire(&key, incarnation) {
            return;
        }
        match self.world.registry.start(&self.world, &key) {
            Ok(_) | Err(Unreachable::Resting(_)) => {
                tracing::error!(
                    key = key.as_str(),
                    panicked,
                    "the key's actor died and was restarted"
                );
            }
            Err(Unreachable::NoArbiter) => {}
        }
        self.world.metrics.restarted(panicked, self.world.clock.now().since(at));
    }
}

/// Publishes every committed change, in the store's order. Changes that the feed lost are read from the store's
/// history.
async fn publish(world: Arc<World>, mut feed: Feed, mut position: Position) {
    world.bus.reach(position);
    loop {
        match feed.recv().await {
            Ok(News::Gap { resume }) => {
                position = resume;
                if !world.breaks(Mutant::GapUnsaid) {
                    world.bus.lose(resume);
                }
                missed_some(&world);
            }
            Ok(News::Changes(batch)) => {
                for committed in batch.iter() {
                    if committed.position > position {
                        position = committed.position;
                        announce(&world, committed.clone());
                    }
                }
            }
            Err(RecvError::Lagged(_)) => position = catch_up(&world, position).await,
            Err(RecvError::Closed) => return,
        }
        world.bus.reach(position);
    }
}

/// Changes were missed: what is known only from changes is read again.
fn missed_some(world: &World) {
    if !world.breaks(Mutant::GhostsAfterGap) {
        world.sessions.doubt();
        world.pools.doubt();
    }
    world.registry.tell_all(|| Mail::Stale(u64::MAX));
}

async fn catch_up(world: &World, mut position: Position) -> Position {
    loop {
        match world.store.history(position, CATCH_UP).await {
            Ok(History::Changes(changes)) if changes.is_empty() => return position,
            Ok(History::Changes(changes)) => {
                for committed in changes {
                    position = committed.position;
                    announce(world, committed);
                }
            }
            Ok(History::Gap { resume }) => {
                tracing::error!("changes were removed from the history before they were published");
                world.metrics.feed_gaps.increment(1);
                world.bus.lose(resume);
                missed_some(world);
                return resume;
            }
            Err(error) => {
                tracing::warn!(%error, "cannot read the store's history; retrying");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

fn announce(world: &World, committed: Committed) {
    let own = world.is_own(committed.node);
    world.pools.heard(world, &committed, own);
    world.heard_of_handover(&committed.key, &committed.change);
    if own || !world.breaks(Mutant::BondsOfOthersUnheard) {
        world.sessions.bonds.heard(Tie::of_change(&committed.key, &committed.change));
    }
    if let Some(over) = world.sessions.heard(&committed, own) {
        // The grant landed after the session's end.
        world.registry.tell(committed.key.as_str(), || Mail::Stale(committed.change.seq));
        world.registry.tell(committed.key.as_str(), || Mail::SessionOver(over));
    }
    if committed.key.is_session() {
        // Subscribers learn of a session's changes from the changes of its leases.
        if !own {
            world.registry.tell(committed.key.as_str(), || Mail::Stale(committed.change.seq));
        }
        return;
    }
    world.metrics.published.increment(1);
    if own {
        world.rules().of(committed.key.as_str()).1.changed(&committed.change);
        let now = world.clock.now();
        let left_out = world.ownership_log.write(&committed.key, &committed.change, now);
        world.metrics.lines_suppressed.increment(left_out);
    } else {
        world.registry.tell(committed.key.as_str(), || Mail::Stale(committed.change.seq));
    }
    world.bus.publish(committed);
}

/// Reads every key and remembers those that an earlier process left held or offered: their promises still hold. Must
/// finish before the first call is accepted.
///
/// # Errors
/// Errors of the store.
pub(crate) async fn inherit(world: &World) -> Result<Vec<Key>, StoreError> {
    let mut inherited = Vec::new();
    bonds::read_all(world, |key, record| {
        if let (Some(digest), Some(record)) = (key.session(), record)
            && record.state != State::Held
        {
            world.sessions.left(SessionOver::of_record(digest, record));
        }
        if record.is_none_or(is_pending) {
            world.registry.inherit(key.clone());
            inherited.push(key.clone());
        }
    })
    .await?;
    Ok(inherited)
}

/// Starts the actors of inherited keys, a batch at a time, so that their leases end on time even if no client calls.
pub(crate) async fn awaken(world: Arc<World>, inherited: Vec<Key>) {
    for batch in inherited.chunks(AWAKEN_BATCH) {
        for key in batch {
            while let Err(Unreachable::NoArbiter) = world.registry.start(&world, key) {
                tokio::time::sleep(PAUSE).await;
            }
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    world.registry.all_seen();
}
