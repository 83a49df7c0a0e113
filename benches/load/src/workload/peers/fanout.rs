//! `fanout-peers`: ownership changes to many subscribers, in turns with Redis.
//!
//! A change in Redis is a script that acquires or releases a key and publishes its name. Each burst is the one of
//! `fanout`: as many connections that make changes, and as many subscribers.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use tokio::task::JoinSet;
use tokio::time::timeout_at;

use super::Contender;
use super::arena::redis;
use crate::compared::{self, Cell, Compared};
use crate::lab::Lab;
use crate::load::{Faults, Lane, Probes, drive, median, order, ratios};
use crate::redis::{Redis, Reply, Scripts, Subscriber, Target};
use crate::report::Outcome;
use crate::stopwatch::{key_prefix, tick};
use crate::workload::fanout::{CHANGES, Load, PATIENCE, TTL_MS};

/// What the bursts of a contender showed, one after the other.
struct Bursts {
    contender: Contender,
    deliveries_per_s: Vec<f64>,
    /// The server's processor time per delivery, in microseconds.
    server_cpu_us: Vec<f64>,
}

/// Runs the workload; `subscribers` is the number of subscribers.
pub async fn measure(lab: &Lab, subscribers: usize) -> Result<Outcome> {
    ensure!(lab.args.server.is_none(), "peers need servers that the tool itself starts");
    let (server, redis) = (lab.server().await?, redis(lab).await?);
    let load = Load::new(lab.args.count.unwrap_or(CHANGES), subscribers as u64, None);
    let deliveries = (load.changers * load.each * load.subscribers) as f64;
    let scratch = lab.scratch()?;
    let (mut probes, mut faults) = (Probes::new(), Faults::default());
    let contenders = [Some(Contender::Tenure), redis.as_ref().map(|_| Contender::Redis)];
    let new =
        |contender| Bursts { contender, deliveries_per_s: Vec::new(), server_cpu_us: Vec::new() };
    let mut all: Vec<Bursts> = contenders.into_iter().flatten().map(new).collect();
    for round in 0..lab.args.rounds as usize {
        probes.probe(scratch.path())?;
        for turn in order(round, all.len()) {
            let cpu = || match (all[turn].contender, &redis) {
                (Contender::Redis, Some(redis)) => redis.cpu(),
                _ => server.cpu(),
            };
            let before = cpu()?;
            let (rate, found) = match (all[turn].contender, &redis) {
                (Contender::Redis, Some(redis)) => burst(redis, load, lab.time_limit()).await?,
                _ => {
                    let seen = load.run(&server, lab.time_limit()).await?;
                    (seen.deliveries_per_s(), seen.faults)
                }
            };
            let used = cpu()? - before;
            faults.merge(found);
            all[turn].deliveries_per_s.push(rate);
            all[turn].server_cpu_us.push(used.as_secs_f64() * 1e6 / deliveries);
        }
    }
    let mut outcome = Outcome::new("fanout-peers", subscribers, &server.version);
    outcome.rounds = lab.args.rounds;
    (outcome.disk, outcome.faults) = (probes.summary(), faults);
    outcome.figure("changes", (load.changers * load.each) as f64);
    let mut cells = Vec::new();
    for bursts in &all {
        let column = bursts.contender.column();
        let name = column.to_lowercase();
        let (rate, cpu) = (median(&bursts.deliveries_per_s), median(&bursts.server_cpu_us));
        outcome.figure(format!("{name}_deliveries_per_s"), rate);
        outcome.figure(format!("{name}_server_cpu_us"), cpu);
        let share = (bursts.contender == Contender::Redis)
            .then(|| ratios(&all[0].deliveries_per_s, &bursts.deliveries_per_s));
        if let Some(share) = share {
            outcome.ratio(&format!("share_of_{name}"), share);
        }
        let share = share.map(|[of_medians, ..]| of_medians);
        cells.push(Cell { column, text: compared::rate(rate, cpu, None), share });
    }
    outcome.compared = Some(Compared {
        work: format!("{} changes to subscribers, deliveries", load.changers * load.each),
        connections: subscribers,
        redis_version: redis.as_ref().map(|redis| redis.version.clone()),
        cells,
        stream_of_redis: None,
    });
    Ok(outcome)
}

/// One burst of changes in Redis: deliveries per second from the first request to the last delivery.
async fn burst(redis: &Redis, load: Load, limit: Duration) -> Result<(f64, Faults)> {
    let channel = key_prefix();
    let give_up = tick() + limit;
    let changes = load.changers * load.each;
    let mut watching = JoinSet::new();
    for _ in 0..load.subscribers {
        let mut subscriber = Subscriber::open(redis.target, &channel).await?;
        let watch = async move {
            for _ in 0..changes {
                subscriber.message().await?;
            }
            anyhow::Ok(tick())
        };
        watching.spawn(timeout_at(give_up.into(), watch));
    }
    let work = |index: usize, lane| {
        let key = format!("{channel}/{index}");
        change(lane, Arc::clone(&redis.scripts), key, channel.clone(), load.each)
    };
    let span = (Duration::ZERO, limit);
    let (begun, tally) = drive(&redis.target, load.changers as usize, span, work).await?;
    let deadline = (tick() + PATIENCE).min(give_up);
    let mut last: Option<Instant> = None;
    while let Some(ended) = timeout_at(deadline.into(), watching.join_next())
        .await
        .context("some subscribers of Redis have not seen every change")?
    {
        last = last.max(Some(ended???));
    }
    let first = begun.into_iter().flatten().min();
    let took = first.zip(last).map_or(Duration::ZERO, |(first, last)| last - first);
    Ok(((changes * load.subscribers) as f64 / took.as_secs_f64(), tally.faults))
}

/// Makes the changes of one key: acquire, release, acquire, … Gives the moment of the first request.
async fn change(
    mut lane: Lane<Target>,
    scripts: Arc<Scripts>,
    key: String,
    channel: String,
    changes: u64,
) -> Option<Instant> {
    let mut begun = None;
    for turn in 0..changes {
        if !lane.is_open() {
            break;
        }
        let command = match turn % 2 {
            0 => scripts.acquire_and_tell(&key, "bench", TTL_MS, &channel),
            _ => scripts.release_and_tell(&key, "bench", &channel),
        };
        let reply = lane.exchange(Ok(command)).await;
        begun = begun.or(Some(lane.last().0));
        let done = matches!(reply, Some(Reply::Integer(number)) if number > 0);
        lane.judge(done, 1, "Redis did not make a change");
    }
    begun
}
