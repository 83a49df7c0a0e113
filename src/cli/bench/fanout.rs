//! `fanout`: ownership changes to many event subscribers, as fast as possible and at a pace.
//!
//! Each subscriber must see every change of every key, in the order of `seq` and without a hole.

use std::io::Write as _;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use tokio::task::JoinSet;
use tokio::time::timeout_at;

use super::disk::Probes;
use super::drive::{Client, Ran, Verdict, drive};
use super::json::{integer, member, string};
use super::lab::Lab;
use super::report::Outcome;
use super::server::Server;
use super::sse::Subscriber;
use super::tally::{Faults, Latencies, Window, median};
use super::tick::{nonce, tick};
use super::wire::{Answer, Template};

/// Ownership changes of a burst, unless told otherwise.
const CHANGES: u64 = 1_000;
/// Connections that make the changes; each has one key of its own.
const CHANGERS: u64 = 32;
/// Deliveries per second of the paced run.
const PACED_DELIVERIES_PER_S: u64 = 10_000;
/// How long after the last change deliveries may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// The leases' ttl: none ends during the run.
const TTL_MS: u64 = 600_000;

/// Runs the workload; `connections` is the number of subscribers.
pub async fn measure(lab: &mut Lab, connections: usize) -> Result<Outcome> {
    let server = lab.server().await?;
    let scratch = lab.scratch()?;
    let mut probes = Probes::new();
    let subscribers = connections as u64;
    let changes = lab.args.count.unwrap_or(CHANGES);
    let rounds = lab.args.rounds;
    let progress = lab.show("fanout", u64::from(rounds) + 1);
    let mut faults = Faults::default();
    let mut rates = Vec::new();
    let mut resets = 0;
    for _ in 0..rounds {
        probes.probe(scratch.path())?;
        let burst = Load { changes, subscribers, per_s: None };
        let mut seen = burst.run(&server, lab.time_limit()).await?;
        faults.merge(std::mem::take(&mut seen.faults));
        resets += seen.resets();
        rates.push(seen.deliveries() as f64 / seen.span().as_secs_f64());
        progress.inc(1);
    }
    probes.probe(scratch.path())?;
    let per_s = (PACED_DELIVERIES_PER_S / subscribers).max(1);
    let paced_changes = (lab.args.seconds * per_s as f64).ceil() as u64;
    let paced = Load { changes: paced_changes, subscribers, per_s: Some(per_s) };
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
    outcome.figure("paced_deliveries_per_s", seen.deliveries() as f64 / seen.span().as_secs_f64());
    outcome.latency("paced_delivery_from_request", seen.latencies(|made| made.sent).summary());
    outcome.latency("paced_delivery_from_answer", seen.latencies(|made| made.answered).summary());
    outcome.faults = faults;
    Ok(outcome)
}

/// One run: so many changes to so many subscribers, at a pace or as fast as possible.
#[derive(Clone, Copy, Debug)]
struct Load {
    changes: u64,
    subscribers: u64,
    per_s: Option<u64>,
}

/// When a change was made.
#[derive(Clone, Copy, Debug)]
struct Made {
    sent: Instant,
    answered: Instant,
}

/// A finished run.
#[derive(Debug)]
struct Seen {
    /// By the number of the change; `None` for one that was not made.
    made: Vec<Option<Made>>,
    /// Per subscriber.
    followed: Vec<Followed>,
    faults: Faults,
}

impl Load {
    async fn run(self, server: &Server, limit: Duration) -> Result<Seen> {
        let changers = CHANGERS.min(self.changes);
        let each = self.changes / changers;
        let prefix = format!("bench/{}", nonce());
        let give_up = tick() + limit;
        let mut watching = JoinSet::new();
        for _ in 0..self.subscribers {
            let subscriber = Subscriber::open(&server.target, &format!("prefix={prefix}/")).await?;
            let watch =
                Watch { prefix: prefix.clone(), changers, each, last: vec![0; changers as usize] };
            watching.spawn(watch.run(subscriber, give_up));
        }
        let begun = tick();
        let clients = (0..changers)
            .map(|index| Changer {
                acquire: server.target.post("/v1/acquire"),
                release: server.target.post("/v1/release"),
                key: format!("{prefix}/{index}"),
                index,
                changers,
                each,
                turn: 0,
                begun,
                per_s: self.per_s,
                lease_id: None,
                sent: begun,
                made: Vec::new(),
            })
            .collect();
        let ran: Ran<Changer> = drive(&server.target, clients, Window::open(begun, limit)).await?;
        let mut seen = Seen {
            made: vec![None; (changers * each) as usize],
            followed: Vec::new(),
            faults: ran.tally.faults,
        };
        for client in ran.clients {
            for (turn, made) in client.made.into_iter().enumerate() {
                seen.made[turn * changers as usize + client.index as usize] = Some(made);
            }
        }
        let deadline = (tick() + PATIENCE).min(give_up);
        while let Some(ended) = timeout_at(deadline.into(), watching.join_next())
            .await
            .context("some subscribers have not seen every change")?
        {
            seen.followed.push(ended??);
        }
        Ok(seen)
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

    fn deliveries(&self) -> u64 {
        self.followed.iter().map(|it| it.deliveries.len() as u64).sum()
    }

    /// From the first request to the last delivery.
    fn span(&self) -> Duration {
        let first = self.made.iter().flatten().map(|made| made.sent).min();
        let last = self.all().map(|(_, at)| *at).max();
        match (first, last) {
            (Some(first), Some(last)) => last - first,
            _ => Duration::ZERO,
        }
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

/// Makes ownership changes of one key: acquire, release, acquire, …
struct Changer {
    acquire: Template,
    release: Template,
    key: String,
    index: u64,
    changers: u64,
    each: u64,
    turn: u64,
    begun: Instant,
    per_s: Option<u64>,
    lease_id: Option<String>,
    sent: Instant,
    made: Vec<Made>,
}

impl Client for Changer {
    fn request(&mut self, out: &mut Vec<u8>) -> bool {
        if self.turn == self.each {
            return false;
        }
        let key = &self.key;
        // Writing to memory cannot fail.
        match &self.lease_id {
            None => self.acquire.fill(out, |body| {
                let _ =
                    write!(body, "{{\"key\":\"{key}\",\"owner\":\"bench\",\"ttl_ms\":{TTL_MS}}}");
            }),
            Some(lease_id) => self.release.fill(out, |body| {
                let _ = write!(body, "{{\"key\":\"{key}\",\"lease_id\":\"{lease_id}\"}}");
            }),
        }
        self.turn += 1;
        self.sent = tick();
        true
    }

    fn answer(&mut self, answer: Answer<'_>) -> Verdict {
        self.made.push(Made { sent: self.sent, answered: tick() });
        if self.lease_id.take().is_none() {
            self.lease_id = string(answer.text(), member::LEASE_ID).map(|(id, _)| id.to_owned());
            if self.lease_id.is_none() {
                return Verdict::Unexpected("POST /v1/acquire");
            }
        }
        match answer.status {
            200 => Verdict::Done(1),
            _ => Verdict::Unexpected("POST /v1/release"),
        }
    }

    fn due(&self) -> Option<Instant> {
        let change = self.turn * self.changers + self.index;
        let per_s = self.per_s.filter(|_| self.turn < self.each)?;
        Some(self.begun + Duration::from_micros(change * 1_000_000 / per_s))
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
    changers: u64,
    each: u64,
    last: Vec<u64>,
}

impl Watch {
    async fn run(mut self, mut subscriber: Subscriber, give_up: Instant) -> Result<Followed> {
        let expected = (self.changers * self.each) as usize;
        let mut seen = Vec::with_capacity(expected);
        let mut changes = Vec::new();
        while seen.len() < expected {
            let mut wrong = None;
            let reading = subscriber.read(|event| match self.change(event.data) {
                Ok(change) => changes.push(change),
                Err(why) => wrong = wrong.take().or(Some(why)),
            });
            let arrived = timeout_at(give_up.into(), reading).await?.context("the event stream")?;
            if let Some(why) = wrong {
                return Err(why);
            }
            seen.extend(changes.drain(..).map(|change| (change, arrived)));
        }
        Ok(Followed { deliveries: seen, resets: subscriber.resets() })
    }

    /// The number of the change that an event tells; an error for a hole.
    fn change(&mut self, data: &str) -> Result<u32> {
        let key = string(data, member::SUBJECT).map_or("", |(key, _)| key);
        let index: Option<usize> =
            key.strip_prefix(&self.prefix).and_then(|it| it.strip_prefix('/')?.parse().ok());
        let (index, seq) = index
            .filter(|index| *index < self.last.len())
            .zip(integer(data, member::SEQ))
            .with_context(|| format!("an event of another form: {data}"))?;
        let last = self.last[index];
        ensure!(seq == last + 1, "a hole in the events of {key}: seq {seq} after {last}");
        self.last[index] = seq;
        Ok(((seq - 1) * self.changers) as u32 + index as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hole_a_foreign_key_and_another_form_are_errors() {
        let mut watch = Watch { prefix: "p".to_owned(), changers: 2, each: 3, last: vec![0; 2] };
        let told =
            |key: &str, seq: u64| format!("{{\"subject\":\"{key}\",\"data\":{{\"seq\":{seq}}}}}");
        assert_eq!(watch.change(&told("p/1", 1)).unwrap(), 1);
        assert_eq!(watch.change(&told("p/1", 2)).unwrap(), 3);
        assert_eq!(watch.change(&told("p/0", 1)).unwrap(), 0);
        assert!(watch.change(&told("p/0", 3)).is_err());
        assert!(watch.change(&told("q/0", 2)).is_err());
        assert!(watch.change("{}").is_err());
    }
}
