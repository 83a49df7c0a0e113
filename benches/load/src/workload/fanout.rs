//! `fanout`: ownership changes to many event subscribers, as fast as possible and at a pace.
//!
//! Each subscriber must see every change of every key, in the order of `seq` and without a hole.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde::de::IgnoredAny;
use tokio::task::JoinSet;
use tokio::time::timeout_at;

use super::acquire;
use crate::http::{Event, Grant, Subscriber};
use crate::lab::Lab;
use crate::load::{Faults, Lane, Latencies, Probes, drive, median};
use crate::report::Outcome;
use crate::server::Server;
use crate::stopwatch::{key_prefix, tick};

/// Ownership changes of a burst, unless told otherwise.
pub const CHANGES: u64 = 1_000;
/// Connections that make the changes; each has one key of its own.
const CHANGERS: u64 = 32;
/// Deliveries per second of the paced run.
const PACED_DELIVERIES_PER_S: u64 = 10_000;
/// How long after the last change deliveries may take.
pub const PATIENCE: Duration = Duration::from_secs(30);
/// The leases' ttl: none ends during the run.
pub const TTL_MS: u64 = 600_000;

/// Runs the workload; `connections` is the number of subscribers.
pub async fn measure(lab: &Lab, connections: usize) -> Result<Outcome> {
    let server = lab.server().await?;
    let scratch = lab.scratch()?;
    let mut probes = Probes::new();
    let subscribers = connections as u64;
    let changes = lab.args.count.unwrap_or(CHANGES);
    let rounds = lab.args.rounds;
    let mut faults = Faults::default();
    let mut rates = Vec::new();
    let mut resets = 0;
    for _ in 0..rounds {
        probes.probe(scratch.path())?;
        let burst = Load::new(changes, subscribers, None);
        let mut seen = burst.run(&server, lab.time_limit()).await?;
        faults.merge(std::mem::take(&mut seen.faults));
        resets += seen.resets();
        rates.push(seen.deliveries_per_s());
    }
    probes.probe(scratch.path())?;
    let per_s = (PACED_DELIVERIES_PER_S / subscribers).max(1);
    let paced_changes = (lab.args.seconds * per_s as f64).ceil() as u64;
    let paced = Load::new(paced_changes, subscribers, Some(per_s));
    let mut seen = paced.run(&server, lab.time_limit()).await?;
    faults.merge(std::mem::take(&mut seen.faults));

    let mut outcome = Outcome::new("fanout", connections, &server.version);
    outcome.disk = probes.summary();
    outcome.rounds = rounds;
    outcome.seconds = lab.args.seconds;
    outcome.figure("changes", changes as f64);
    outcome.figure("deliveries_per_s", median(&rates));
    outcome.figure("subscriber_resets", (resets + seen.resets()) as f64);
    outcome.figure("paced_changes_per_s", per_s as f64);
    outcome.figure("paced_deliveries_per_s", seen.deliveries_per_s());
    outcome.latency("paced_delivery_from_request", seen.latencies(|made| made.0).summary());
    outcome.latency("paced_delivery_from_answer", seen.latencies(|made| made.1).summary());
    outcome.faults = faults;
    Ok(outcome)
}

/// One run: so many changes to so many subscribers, at a pace or as fast as possible.
///
/// Change n is made by changer n modulo the number of changers, each on a key of its own.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Connections that make changes.
    pub changers: u64,
    /// Changes by each of them.
    pub each: u64,
    /// Who must see all of them.
    pub subscribers: u64,
    per_s: Option<u64>,
}

/// When a change was made: its request, and the answer.
type Made = (Instant, Instant);

/// A finished run.
#[derive(Debug)]
pub struct Seen {
    /// By the number of the change; `None` for one that was not made.
    made: Vec<Option<Made>>,
    /// Per subscriber.
    followed: Vec<Followed>,
    /// What went wrong.
    pub faults: Faults,
}

impl Load {
    /// So many changes, rounded down to what each changer makes.
    pub fn new(changes: u64, subscribers: u64, per_s: Option<u64>) -> Self {
        let changers = CHANGERS.min(changes);
        Self { changers, each: changes / changers, subscribers, per_s }
    }

    /// Makes them, and waits until all subscribers have seen all.
    pub async fn run(self, server: &Server, limit: Duration) -> Result<Seen> {
        let prefix = key_prefix();
        let give_up = tick() + limit;
        let mut watching = JoinSet::new();
        for _ in 0..self.subscribers {
            let subscriber = Subscriber::open(&server.target, &format!("prefix={prefix}/")).await?;
            let last = vec![0; self.changers as usize];
            let watch = Watch { prefix: prefix.clone(), load: self, last };
            watching.spawn(timeout_at(give_up.into(), watch.run(subscriber)));
        }
        let begun = tick();
        let work =
            |index, lane| self.change(lane, format!("{prefix}/{index}"), index as u64, begun);
        let span = (Duration::ZERO, limit);
        let (ran, tally) = drive(&server.target, self.changers as usize, span, work).await?;
        let mut made = vec![None; (self.changers * self.each) as usize];
        for (change, moments) in ran.into_iter().flatten() {
            made[change as usize] = Some(moments);
        }
        let mut seen = Seen { made, followed: Vec::new(), faults: tally.faults };
        let deadline = (tick() + PATIENCE).min(give_up);
        while let Some(ended) = timeout_at(deadline.into(), watching.join_next())
            .await
            .context("some subscribers have not seen every change")?
        {
            seen.followed.push(ended???);
        }
        Ok(seen)
    }

    /// Makes the ownership changes of one key: acquire, release, acquire, …
    async fn change(
        self,
        mut lane: Lane,
        key: String,
        index: u64,
        begun: Instant,
    ) -> Vec<(u64, Made)> {
        let mut made = Vec::new();
        let mut held: Option<Grant> = None;
        let body = acquire(key, "bench", TTL_MS);
        for turn in 0..self.each {
            let change = turn * self.changers + index;
            let due = self.per_s.map(|it| begun + Duration::from_micros(change * 1_000_000 / it));
            if !lane.is_open() || matches!(due, Some(due) if !lane.pace(due).await) {
                break;
            }
            let changed = match held.take() {
                None => {
                    held = lane.post("/v1/acquire", &body).await;
                    held.is_some()
                }
                Some(grant) => lane.post::<IgnoredAny>("/v1/release", &grant).await.is_some(),
            };
            if changed {
                lane.done(1);
                made.push((change, lane.last()));
            }
        }
        made
    }
}

impl Seen {
    /// All deliveries to all subscribers.
    fn all(&self) -> impl Iterator<Item = &(u32, Instant)> {
        self.followed.iter().flat_map(|it| &it.deliveries)
    }

    fn resets(&self) -> u64 {
        self.followed.iter().map(|it| it.resets).sum()
    }

    /// The rate from the first request to the last delivery.
    pub fn deliveries_per_s(&self) -> f64 {
        let first = self.made.iter().flatten().map(|made| made.0).min();
        let last = self.all().map(|(_, at)| *at).max();
        let span = first.zip(last).map_or(Duration::ZERO, |(first, last)| last - first);
        self.all().count() as f64 / span.as_secs_f64()
    }

    /// The latencies of all deliveries, counted from a moment of their change.
    fn latencies(&self, from: impl Fn(&Made) -> Instant) -> Latencies {
        let mut latencies = Latencies::new();
        for (change, at) in self.all() {
            if let Some(made) = &self.made[*change as usize] {
                // An event may come before the answer that it belongs to.
                latencies.record(at.saturating_duration_since(from(made)));
            }
        }
        latencies
    }
}

/// What one subscriber has seen.
#[derive(Debug)]
struct Followed {
    /// Per delivery: the number of the change, and when it came.
    deliveries: Vec<(u32, Instant)>,
    resets: u64,
}

/// One subscriber's view: the last `seq` of each key.
struct Watch {
    prefix: String,
    load: Load,
    last: Vec<u64>,
}

impl Watch {
    async fn run(mut self, mut subscriber: Subscriber) -> Result<Followed> {
        let expected = (self.load.changers * self.load.each) as usize;
        let mut deliveries = Vec::with_capacity(expected);
        while deliveries.len() < expected {
            let event = subscriber.next().await?;
            let arrived = tick();
            deliveries.push((self.change(&event)?, arrived));
        }
        Ok(Followed { deliveries, resets: subscriber.resets() })
    }

    /// The number of the change that an event tells; an error for a hole.
    fn change(&mut self, event: &Event) -> Result<u32> {
        let (key, seq) = (&event.subject, event.data.seq);
        let index: Option<usize> =
            key.strip_prefix(&self.prefix).and_then(|it| it.strip_prefix('/')?.parse().ok());
        let index = index.filter(|it| *it < self.last.len());
        let index = index.with_context(|| format!("an event of another key: {key}"))?;
        let last = self.last[index];
        ensure!(seq == last + 1, "a hole in the events of {key}: seq {seq} after {last}");
        self.last[index] = seq;
        Ok(((seq - 1) * self.load.changers) as u32 + index as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hole_and_a_foreign_key_are_errors() {
        let load = Load::new(6, 1, None);
        let mut watch = Watch { prefix: "p".to_owned(), load, last: vec![0; 6] };
        let mut told = |key: &str, seq: u64| {
            let event = serde_json::json!({"subject": key, "data": {"seq": seq}, "more": 1});
            watch.change(&serde_json::from_value(event).unwrap())
        };
        assert_eq!(told("p/1", 1).unwrap(), 1);
        assert_eq!(told("p/1", 2).unwrap(), 7);
        assert_eq!(told("p/0", 1).unwrap(), 0);
        assert!(told("p/0", 3).is_err());
        assert!(told("q/0", 2).is_err());
        assert!(told("p/6", 1).is_err());
    }
}
