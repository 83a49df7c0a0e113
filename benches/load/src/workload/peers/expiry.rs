//! `expiry-peers`: many leases end at one instant, in turns with as many keys of Redis.
//!
//! Redis tells of an expired key by a keyspace notification, which it sends when it deletes the key. How late that is
//! lies between two figures, as in `expiry`: from sending plus ttl, and from the arrival of the answer plus ttl.

use std::collections::HashMap;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use tokio::time::timeout_at;

use super::Contender;
use super::arena::redis;
use crate::compared::{Cell, Compared};
use crate::endpoint::Endpoint as _;
use crate::lab::Lab;
use crate::load::{Faults, Latencies, Summary, median, order};
use crate::redis::{EXPIRED, Redis, Reply, Subscriber, command};
use crate::report::Outcome;
use crate::stopwatch::{key_prefix, tick};
use crate::units::span;
use crate::workload::expiry::{self, AT_ONCE, Ends, LEAD, PATIENCE};

/// What the runs of a contender showed.
struct Runs {
    contender: Contender,
    /// The 99th percentile of each run, in microseconds: from sending plus ttl, and from the answer plus ttl.
    p99_us: [Vec<f64>; 2],
    /// The median of each run, from sending plus ttl.
    p50_us: Vec<f64>,
}

impl Runs {
    fn new(contender: Contender) -> Self {
        Self { contender, p99_us: Default::default(), p50_us: Vec::new() }
    }

    fn add(&mut self, [from_sending, from_answer]: [Summary; 2]) {
        self.p50_us.push(from_sending.p50_us as f64);
        self.p99_us[0].push(from_sending.p99_us as f64);
        self.p99_us[1].push(from_answer.p99_us as f64);
    }
}

/// Runs the workload.
pub async fn measure(lab: &Lab, connections: usize) -> Result<Outcome> {
    ensure!(lab.args.server.is_none(), "peers need servers that the tool itself starts");
    let redis = redis(lab).await?;
    let mut all = vec![Runs::new(Contender::Tenure)];
    all.extend(redis.as_ref().map(|_| Runs::new(Contender::Redis)));
    let (mut version, mut faults) = (String::new(), Faults::default());
    for round in 0..lab.args.rounds as usize {
        for turn in order(round, all.len()) {
            let late = match (all[turn].contender, &redis) {
                (Contender::Redis, Some(redis)) => ends_of_redis(lab, redis).await?,
                _ => {
                    let run = expiry::measure(lab, connections, Ends::AtOnce).await?;
                    version.clone_from(&run.server_version);
                    let late = [lateness(&run, "lateness")?, lateness(&run, "lateness_at_least")?];
                    faults.merge(run.faults);
                    late
                }
            };
            all[turn].add(late);
        }
    }
    let mut outcome = Outcome::new("expiry-peers", connections, &version);
    (outcome.rounds, outcome.faults) = (lab.args.rounds, faults);
    let leases = lab.args.count.unwrap_or(AT_ONCE);
    outcome.figure("leases", leases as f64);
    let mut cells = Vec::new();
    for runs in &all {
        let column = runs.contender.column();
        let name = column.to_lowercase();
        let p50 = median(&runs.p50_us);
        let [most, least] = [median(&runs.p99_us[0]), median(&runs.p99_us[1])];
        outcome.figure(format!("{name}_lateness_p50_us"), p50);
        outcome.figure(format!("{name}_lateness_p99_us"), most);
        outcome.figure(format!("{name}_lateness_at_least_p99_us"), least);
        let text = format!("p50 {}, p99 {} late", span(p50 as u64), span(most as u64));
        cells.push(Cell { column, text, share: None });
    }
    outcome.compared = Some(Compared {
        work: format!("{leases} leases end at one instant"),
        connections,
        redis_version: redis.as_ref().map(|redis| redis.version.clone()),
        cells,
        stream_of_redis: None,
    });
    Ok(outcome)
}

fn lateness(run: &Outcome, name: &str) -> Result<Summary> {
    let found = run.latencies.iter().find(|(known, _)| known == name);
    Ok(found.context("no lease has expired")?.1)
}

/// How late the notifications of keys come that end at one instant.
async fn ends_of_redis(lab: &Lab, redis: &Redis) -> Result<[Summary; 2]> {
    let (prefix, size) = (key_prefix(), u64::from(lab.args.batch));
    let total = lab.args.count.unwrap_or(AT_ONCE);
    let mut subscriber = Subscriber::open(redis.target, EXPIRED).await?;
    let mut connection = redis.target.open().await?;
    let end = tick() + LEAD;
    let mut ends = HashMap::new();
    for first in (0..total).step_by(size as usize) {
        let keys: Vec<String> =
            (first..total.min(first + size)).map(|n| format!("{prefix}/{n:08}")).collect();
        let sent = tick();
        let ttl_ms = end.saturating_duration_since(sent).as_millis() as u64;
        ensure!(ttl_ms > 0, "Redis is too slow for this --count");
        let ttl = ttl_ms.to_string();
        let set = |key: &String| command(&["SET", key, "bench", "PX", &ttl]);
        let commands: Vec<u8> = keys.iter().flat_map(set).collect();
        connection.send(&commands).await?;
        for _ in &keys {
            let reply = connection.reply().await?;
            ensure!(reply == Reply::Text("OK".to_owned()), "SET: {reply:?}");
        }
        let (arrived, ttl) = (tick(), Duration::from_millis(ttl_ms));
        ends.extend(keys.into_iter().map(|key| (key, (sent + ttl, arrived + ttl))));
    }
    let (mut from_sending, mut from_answer) = (Latencies::new(), Latencies::new());
    while !ends.is_empty() {
        let message = timeout_at((end + PATIENCE).into(), subscriber.message()).await;
        let key = message.with_context(|| format!("{} keys have not expired", ends.len()))??;
        let at = tick();
        if let Some((earliest, latest)) = ends.remove(&key) {
            from_sending.record(at.saturating_duration_since(earliest));
            from_answer.record(at.saturating_duration_since(latest));
        }
    }
    let summaries = from_sending.summary().zip(from_answer.summary());
    let (from_sending, from_answer) = summaries.context("no key has expired")?;
    Ok([from_sending, from_answer])
}
