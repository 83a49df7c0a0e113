//! `acquire-release-peers` and the other workloads beside peers: the coordinator and others in turns.
//!
//! The others are the echo, the durable echo where the work writes, and those of `--peers`. All have the same number of
//! connections and the same closed loop. A cycle is two requests of tenure and two of Redis; the echoes count requests,
//! and tenure's share of their rates is that of its requests.

mod arena;
pub mod expiry;
pub mod fanout;
mod locks;

use anyhow::{Context as _, Result, ensure};

use crate::compared::{self, Cell, Compared};
use crate::lab::Lab;
use crate::load::{Disk, Probes, Turns, median, order, ratios};
use crate::report::Outcome;
use crate::server::Echo;
use crate::units::number;
use arena::Arena;

/// A prime: so many leases further is the next one that is kept, so that neighbours in memory do not help.
const STEP: u64 = 611_953;

/// What all contenders do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Acquire and release distinct keys.
    Cycles,
    /// Keep leases that are held.
    Heartbeats,
    /// Queue for few keys.
    HandOffs,
}

/// Who does it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contender {
    /// A coordinator, by HTTP.
    Tenure,
    /// The same coordinator, by a stream for each connection.
    Stream,
    /// A Redis.
    Redis,
    /// An echo handler.
    Echo(Echo),
}

/// Measures the work beside so many held leases (`--count`).
pub async fn measure(lab: &Lab, connections: usize, work: Work, held: u64) -> Result<Outcome> {
    ensure!(lab.args.server.is_none(), "peers need servers that the tool itself starts");
    let scratch = lab.scratch()?;
    let (arena, faults) = Arena::prepare(lab, connections, work, held).await?;
    let contenders = arena.contenders();
    let mut all: Vec<(Contender, Turns)> =
        contenders.into_iter().map(|contender| (contender, Turns::new())).collect();
    all[0].1.tally.faults = faults;
    let mut probes = Probes::new();
    for round in 0..lab.args.rounds as usize {
        probes.probe(scratch.path())?;
        for turn in order(round, all.len()) {
            let (contender, turns) = &mut all[turn];
            arena.take(*contender, turns).await.with_context(|| contender.column())?;
        }
    }
    Ok(outcome(&arena, all, probes.summary()))
}

/// What all turns showed.
fn outcome(arena: &Arena<'_>, all: Vec<(Contender, Turns)>, disk: Option<Disk>) -> Outcome {
    let (name, work, unit) = arena.work.names();
    let mut outcome = Outcome::new(name, arena.connections, &arena.server.version);
    (outcome.rounds, outcome.seconds) = (arena.lab.args.rounds, arena.lab.args.seconds);
    outcome.disk = disk;
    outcome.figure("leases", arena.held as f64);
    outcome.figure("keys", arena.all_keys() as f64);
    let mut cells = Vec::new();
    for (contender, turns) in &all {
        let name = contender.column().to_lowercase().replace(' ', "_");
        let (rate, cpu) = (median(&turns.units_per_s), median(&turns.server_cpu_us));
        outcome.figure(format!("{name}_per_s"), rate);
        outcome.figure(format!("{name}_server_cpu_us"), cpu);
        outcome.figure(format!("{name}_tool_cpu_us"), median(&turns.tool_cpu_us));
        let share = contender.share(&all[0].1, turns);
        if let Some(share) = share {
            outcome.ratio(&format!("share_of_{name}"), share);
        }
        let tally = &turns.tally;
        let latencies = tally.cycles.summary().or_else(|| tally.latencies.summary());
        outcome.latency(format!("latency_{name}"), latencies);
        cells.push(Cell {
            column: contender.column(),
            text: compared::rate(rate, cpu, latencies.map(|it| it.p50_us)),
            share: share.map(|[of_medians, ..]| of_medians),
        });
    }
    let turns_of = |wanted| all.iter().find(|(one, _)| *one == wanted).map(|(_, turns)| turns);
    let stream = turns_of(Contender::Stream).zip(turns_of(Contender::Redis));
    let stream = stream.map(|(stream, redis)| ratios(&stream.units_per_s, &redis.units_per_s));
    if let Some(share) = stream {
        outcome.ratio("stream_share_of_redis", share);
    }
    let beside = match arena.held {
        0 => String::new(),
        held => format!(", {} leases held", number(held as f64)),
    };
    outcome.compared = Some(Compared {
        work: format!("{work}{beside}, {unit}"),
        connections: arena.connections,
        redis_version: arena.redis.as_ref().map(|redis| redis.version.clone()),
        cells,
        stream_of_redis: stream.map(|[of_medians, ..]| of_medians),
    });
    for (_, turns) in all {
        outcome.faults.merge(turns.tally.faults);
    }
    outcome
}

impl Work {
    /// What the workload, the work and its unit are called.
    fn names(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Cycles => ("acquire-release-peers", "acquire + release", "cycles"),
            Self::Heartbeats => ("heartbeat-peers", "heartbeats", "heartbeats"),
            Self::HandOffs => ("contended-peers", "hand-offs of few keys", "hand-offs"),
        }
    }
}

impl Contender {
    /// Its column in the table.
    fn column(self) -> &'static str {
        match self {
            Self::Tenure => "tenure",
            Self::Stream => "tenure by stream",
            Self::Redis => "Redis",
            Self::Echo(Echo::Plain) => "echo",
            Self::Echo(Echo::Durable) => "durable echo",
        }
    }

    /// The share that tenure reaches of its rate: in units of work, or in requests where it counts these.
    fn share(self, tenure: &Turns, turns: &Turns) -> Option<[f64; 3]> {
        match self {
            Self::Tenure => None,
            Self::Stream | Self::Redis => Some(ratios(&tenure.units_per_s, &turns.units_per_s)),
            Self::Echo(_) => Some(ratios(&tenure.requests_per_s, &turns.requests_per_s)),
        }
    }
}

/// The name of the held key of this number, in every store: as `hold` names it.
fn held_key(prefix: &str, n: u64) -> String {
    format!("{prefix}/held/{n:08}")
}

/// Which of so many leases comes in this turn: each once, until all have come.
fn scattered(turn: u64, total: u64) -> u64 {
    turn * STEP % total
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::compared::COLUMNS;
    use crate::workload::acquire_batch;

    #[test]
    fn each_lease_is_kept_once_before_one_is_kept_again() {
        for total in [1, 100, 1_000, 1_000_000] {
            let seen: BTreeSet<u64> = (0..total).map(|turn| scattered(turn, total)).collect();
            assert_eq!(seen.len() as u64, total);
        }
    }

    #[test]
    fn all_stores_hold_the_same_keys() {
        let body = acquire_batch("p/held", 2, 3, 60);
        let keys: Vec<String> = (6..9).map(|n| held_key("p", n)).collect();
        assert_eq!(body.keys, keys);
    }

    #[test]
    fn each_contender_has_its_column() {
        let echoes = [Contender::Echo(Echo::Plain), Contender::Echo(Echo::Durable)];
        let all = [Contender::Tenure, Contender::Stream, Contender::Redis, echoes[0], echoes[1]];
        assert_eq!(all.map(Contender::column), COLUMNS);
    }

    #[test]
    fn a_share_is_of_units_beside_redis_and_of_requests_beside_an_echo() {
        let (mut tenure, mut other) = (Turns::new(), Turns::new());
        (tenure.units_per_s, tenure.requests_per_s) = (vec![50.0], vec![100.0]);
        (other.units_per_s, other.requests_per_s) = (vec![200.0], vec![200.0]);
        let share = |contender: Contender| contender.share(&tenure, &other).map(|it| it[0]);
        assert_eq!(share(Contender::Tenure), None);
        assert_eq!(share(Contender::Redis), Some(0.25));
        assert_eq!(share(Contender::Echo(Echo::Durable)), Some(0.5));
    }
}
