//! Timed rounds, each next to one of the yardstick: echo, workload, echo, workload.
//!
//! Machines and disks change within minutes, so a ratio is taken within a round, and the median
//! over the rounds is what is reported.

use std::future::Future;
use std::time::Duration;

use anyhow::Result;

use super::{Disk, Lane, Probes, Tally, drive, median, raw_nats};
use crate::endpoint::Endpoint;
use crate::lab::Lab;
use crate::server::Echo;
use crate::stopwatch::{own_cpu, tick};
use crate::workload::echo;

/// What is not counted at the start of a round: caches that fill.
const WARM_UP: Duration = Duration::from_millis(300);

/// The rounds of one workload.
#[derive(Debug)]
pub struct Rounds {
    /// How many.
    pub count: u32,
    /// How long each of them was, in seconds.
    pub seconds: f64,
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

/// The rates of a yardstick, and the workload's share of each.
#[derive(Default)]
struct Shares {
    rates: Vec<f64>,
    shares: Vec<f64>,
}

impl Shares {
    fn add(&mut self, yardstick: Option<f64>, rate: f64) {
        self.rates.extend(yardstick);
        self.shares.extend(yardstick.map(|it| rate / it.max(1.0)));
    }

    fn medians(&self) -> Option<(f64, f64)> {
        (!self.rates.is_empty()).then(|| (median(&self.rates), median(&self.shares)))
    }
}

/// Runs `--rounds` rounds of `work` on `connections` connections.
pub async fn interleaved<E: Endpoint, F: Future<Output = ()> + Send + 'static>(
    lab: &Lab,
    endpoint: &E,
    connections: usize,
    mut work: impl FnMut(usize, Lane<E>) -> F,
) -> Result<Rounds> {
    let count = lab.args.rounds;
    let scratch = lab.scratch()?;
    let (seconds, span) = (lab.args.seconds, (WARM_UP, lab.round()));
    let mut probes = Probes::new();
    let (mut requests, mut units, mut own_shares) = (vec![], vec![], vec![]);
    let (mut echoes, mut raws) = (Shares::default(), Shares::default());
    let mut tally = Tally::new();
    for _ in 0..count {
        let mut echo = None;
        if let Some(target) = lab.yardstick() {
            let ask = |index, lane| echo::ask(index, lane, Echo::Plain);
            let (_, echoed) = drive(target, connections, span, ask).await?;
            tally.faults.merge(echoed.faults);
            echo = Some(echoed.requests as f64 / seconds);
        }
        let mut raw = None;
        if let Some(url) = &lab.args.raw_nats {
            raw = Some(raw_nats::rate(url, connections, lab.round()).await?);
        }
        probes.probe(scratch.path())?;
        let (cpu, begun) = (own_cpu(), tick());
        let (_, measured) = drive(endpoint, connections, span, &mut work).await?;
        own_shares.push((own_cpu() - cpu).as_secs_f64() / (tick() - begun).as_secs_f64());
        let rate = measured.requests as f64 / seconds;
        requests.push(rate);
        units.push(measured.units as f64 / seconds);
        echoes.add(echo, rate);
        raws.add(raw, rate);
        tally.merge(measured);
    }
    Ok(Rounds {
        count,
        seconds,
        tally,
        requests_per_s: median(&requests),
        units_per_s: median(&units),
        echo: echoes.medians(),
        raw_nats: raws.medians(),
        disk: probes.summary(),
        own_cpu_share: median(&own_shares),
    })
}
