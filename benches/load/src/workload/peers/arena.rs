//! The servers that contend, and what each of them is asked.

use std::sync::Arc;

use anyhow::{Context as _, Result};

use super::{Contender, Work, held_key, locks, scattered};
use crate::args::Peer;
use crate::http::{Alive, Grant};
use crate::lab::Lab;
use crate::load::{Faults, Lane, Turns};
use crate::redis::Redis;
use crate::server::{Echo, Server};
use crate::stopwatch::key_prefix;
use crate::stream::{self, Calls};
use crate::workload::hold::{LONG_TTL_MS, hold};
use crate::workload::{acquire_release, contended, echo};

/// The servers that contend, and what they hold.
pub struct Arena<'a> {
    /// The tool's surroundings.
    pub lab: &'a Lab,
    /// The connections to each of them.
    pub connections: usize,
    /// What they do.
    pub work: Work,
    prefix: String,
    /// The keys of each connection.
    keys: u64,
    /// How many leases are held beside the work, or kept by it.
    pub held: u64,
    leases: Arc<Vec<Grant>>,
    queues: contended::Queues,
    /// The coordinator.
    pub server: Server,
    /// Redis, where it takes part.
    pub redis: Option<Redis>,
}

impl<'a> Arena<'a> {
    /// Starts the servers and fills them. Also gives what went wrong meanwhile.
    pub async fn prepare(
        lab: &'a Lab,
        connections: usize,
        work: Work,
        held: u64,
    ) -> Result<(Self, Faults)> {
        let held = match work {
            Work::HandOffs => 0,
            Work::Cycles | Work::Heartbeats => lab.args.count.unwrap_or(held),
        };
        let (prefix, server) = (key_prefix(), lab.server().await?);
        let redis = redis(lab).await?;
        let (mut leases, mut faults) = (Vec::new(), Faults::default());
        let mut granted = 0;
        if held > 0 {
            let keep = work == Work::Heartbeats;
            let holding = hold(lab, &server, &format!("{prefix}/held"), held, keep).await?;
            (leases, faults, granted) = (holding.leases, holding.faults, holding.granted);
            if let Some(redis) = &redis {
                let key = |n| held_key(&prefix, n);
                redis.hold(key, granted, locks::HOLDER, LONG_TTL_MS).await?;
            }
        }
        let each = connections as u64;
        let keys = match (work, lab.args.keys) {
            (Work::HandOffs, given) => given.unwrap_or(contended::KEYS),
            (_, Some(given)) => (given / each).max(1),
            // A full store: many keys in use, too.
            (_, None) if held > 0 => acquire_release::KEYS,
            (_, None) => (acquire_release::KEYS / each).max(1),
        };
        let arena = Self {
            lab,
            connections,
            work,
            keys,
            held: granted,
            leases: Arc::new(leases),
            queues: contended::Queues::new(&prefix, keys),
            prefix,
            server,
            redis,
        };
        Ok((arena, faults))
    }

    /// Who takes part; tenure is the first.
    pub fn contenders(&self) -> Vec<Contender> {
        let mut all = vec![Contender::Tenure];
        all.extend((self.work == Work::Cycles).then_some(Contender::Stream));
        all.extend(self.redis.is_some().then_some(Contender::Redis));
        all.extend(match self.work {
            Work::Cycles => vec![Contender::Echo(Echo::Plain), Contender::Echo(Echo::Durable)],
            // It writes nothing.
            Work::Heartbeats => vec![Contender::Echo(Echo::Plain)],
            // Most of its requests wait for others.
            Work::HandOffs => Vec::new(),
        });
        all
    }

    /// One turn of one of them.
    pub async fn take(&self, contender: Contender, turns: &mut Turns) -> Result<()> {
        match contender {
            Contender::Tenure => self.turn_of_tenure(turns).await,
            Contender::Stream => self.turn_by_stream(turns).await,
            Contender::Redis => self.turn_of_redis(turns).await,
            Contender::Echo(which) => {
                let target = self.lab.yardstick().context("the echo server was not started")?;
                let cpu = || self.lab.yardstick_cpu();
                let work = |index: usize, lane: Lane| echo::ask(index, lane, which);
                turns.take(self.lab, target, self.connections, cpu, work).await
            }
        }
    }

    async fn turn_of_tenure(&self, turns: &mut Turns) -> Result<()> {
        let (lab, count, target) = (self.lab, self.connections, &self.server.target);
        let cpu = || self.server.cpu();
        match self.work {
            Work::Cycles => {
                let work = |index: usize, lane: Lane| {
                    acquire_release::cycle(lane, self.keys_of(index), self.keys)
                };
                turns.take(lab, target, count, cpu, work).await
            }
            Work::Heartbeats => {
                let work = |index: usize, lane: Lane| {
                    beat(lane, Arc::clone(&self.leases), (index as u64, count as u64))
                };
                turns.take(lab, target, count, cpu, work).await
            }
            Work::HandOffs => {
                let work = |index: usize, lane: Lane| self.queues.join(index, lane);
                turns.take(lab, target, count, cpu, work).await
            }
        }
    }

    async fn turn_by_stream(&self, turns: &mut Turns) -> Result<()> {
        let target = Calls(stream::Target::of(&self.server.target)?);
        let work =
            |index: usize, lane| acquire_release::cycle(lane, self.keys_of(index), self.keys);
        turns.take(self.lab, &target, self.connections, || self.server.cpu(), work).await
    }

    async fn turn_of_redis(&self, turns: &mut Turns) -> Result<()> {
        let redis = self.redis.as_ref().context("no Redis was started")?;
        let (lab, count, target) = (self.lab, self.connections, &redis.target);
        let scripts = || Arc::clone(&redis.scripts);
        let cpu = || redis.cpu();
        match self.work {
            Work::Cycles => {
                let work = |index: usize, lane| {
                    locks::cycle(lane, scripts(), self.keys_of(index), self.keys)
                };
                turns.take(lab, target, count, cpu, work).await
            }
            Work::Heartbeats => {
                let work = |index: usize, lane| {
                    let which = (index as u64, count as u64, self.held);
                    locks::beat(lane, scripts(), self.prefix.clone(), which)
                };
                turns.take(lab, target, count, cpu, work).await
            }
            Work::HandOffs => {
                let work = |index: usize, lane| {
                    let key = format!("{}/{}", self.prefix, index as u64 % self.keys);
                    locks::contend(lane, scripts(), key, format!("bench-{index}"))
                };
                turns.take(lab, target, count, cpu, work).await
            }
        }
    }

    /// What the keys of the connection `index` begin with.
    fn keys_of(&self, index: usize) -> String {
        format!("{}/{index}", self.prefix)
    }

    /// The keys of all connections.
    pub fn all_keys(&self) -> u64 {
        match self.work {
            Work::Cycles => self.keys * self.connections as u64,
            Work::Heartbeats => 0,
            Work::HandOffs => self.keys,
        }
    }
}

/// A new Redis, where one takes part.
pub async fn redis(lab: &Lab) -> Result<Option<Redis>> {
    Ok(match lab.args.peers.contains(&Peer::Redis) {
        true => Some(Redis::start(lab.scratch()?).await?),
        false => None,
    })
}

/// Heartbeats of the leases that are held, every `stride`-th from `turn` on.
async fn beat(mut lane: Lane, leases: Arc<Vec<Grant>>, (mut turn, stride): (u64, u64)) {
    while lane.is_open() {
        let lease = &leases[scattered(turn, leases.len() as u64) as usize];
        turn += stride;
        if let Some(told) = lane.post::<Alive>("/v1/heartbeat", lease).await {
            lane.judge(told.valid_for_ms.is_some(), 1, "a held lease was not kept");
        }
    }
}
