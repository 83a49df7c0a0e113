//! Timed rounds, each next to one of the yardstick: echo, workload, echo, workload.
//!
//! Machines and disks change within minutes, so a ratio is taken within a round, and the median
//! over the rounds is what is reported.

use std::time::Duration;

use anyhow::Result;

use super::disk::{Disk, Probes};
use super::drive::{Client, connect, drive_on};
use super::echo::EchoClient;
use super::lab::Lab;
use super::tally::{Tally, Window, median};
use super::tick::{own_cpu, tick};
use super::wire::Target;

/// What is not counted at the start of a round: caches that fill.
const WARM_UP: Duration = Duration::from_millis(300);

/// The rounds of one workload.
#[derive(Debug)]
pub struct Rounds {
    /// All rounds together.
    pub tally: Tally,
    /// Requests per second, the median of the rounds.
    pub requests_per_s: f64,
    /// Units of work per second, the median of the rounds.
    pub units_per_s: f64,
    /// The yardstick's requests per second and the workload's share of them, medians.
    pub echo: Option<(f64, f64)>,
    /// The rate of bare publishes to the NATS server, and the requests' share of it, medians.
    pub raw_nats: Option<(f64, f64)>,
    /// The disk, probed before each round.
    pub disk: Option<Disk>,
    /// This process's own share of one core while it measured: near 1 it is the bottleneck.
    pub own_cpu_share: f64,
}

/// Runs `--rounds` rounds with `connections` clients made by `make` (from round and index).
pub async fn interleaved<C: Client>(
    lab: &mut Lab,
    target: &Target,
    connections: usize,
    what: &str,
    mut make: impl FnMut(u32, usize) -> C,
) -> Result<Rounds> {
    let rounds = lab.args.rounds;
    let progress = lab.show(what, u64::from(rounds));
    let scratch = lab.scratch()?;
    let mut probes = Probes::new();
    let (mut requests, mut units, mut echoes, mut shares) = (vec![], vec![], vec![], vec![]);
    let (mut raws, mut raw_shares) = (vec![], vec![]);
    let mut tally = Tally::new();
    let mut own_shares = vec![];
    for round in 0..rounds {
        let echo = match lab.yardstick() {
            Some(target) => {
                let clients = (0..connections).map(|it| EchoClient::new(target, it)).collect();
                let echoed = slice(target, clients, lab.round()).await?;
                tally.faults.merge(echoed.faults);
                Some(echoed.requests as f64 / lab.args.seconds)
            }
            None => None,
        };
        let raw = match &lab.args.raw_nats {
            Some(url) => Some(super::raw_nats::rate(url, connections, lab.round()).await?),
            None => None,
        };
        probes.probe(scratch.path())?;
        let clients = (0..connections).map(|it| make(round, it)).collect();
        let (cpu, begun) = (own_cpu(), tick());
        let measured = slice(target, clients, lab.round()).await?;
        own_shares.push((own_cpu() - cpu).as_secs_f64() / (tick() - begun).as_secs_f64());
        let rate = measured.requests as f64 / lab.args.seconds;
        requests.push(rate);
        units.push(measured.units as f64 / lab.args.seconds);
        if let Some(echo) = echo {
            echoes.push(echo);
            shares.push(rate / echo.max(1.0));
        }
        if let Some(raw) = raw {
            raws.push(raw);
            raw_shares.push(rate / raw.max(1.0));
        }
        tally.merge(measured);
        progress.inc(1);
    }
    Ok(Rounds {
        tally,
        requests_per_s: median(&requests),
        units_per_s: median(&units),
        echo: (!echoes.is_empty()).then(|| (median(&echoes), median(&shares))),
        raw_nats: (!raws.is_empty()).then(|| (median(&raws), median(&raw_shares))),
        disk: probes.summary(),
        own_cpu_share: median(&own_shares),
    })
}

async fn slice<C: Client>(target: &Target, clients: Vec<C>, span: Duration) -> Result<Tally> {
    let connections = connect(target, clients.len()).await?;
    let window = Window::after_warm_up(tick(), WARM_UP, span);
    Ok(drive_on(target, connections, clients, window).await?.tally)
}
