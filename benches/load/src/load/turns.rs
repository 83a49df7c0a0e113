//! Contenders that take turns: A, B, C, then B, C, A, and so on.
//!
//! A machine that changes does it to all of them, because each round begins with another. The tool shares the cores
//! with the servers, so the processor time of each server per unit of work is measured beside its rate.

use std::future::Future;
use std::time::{Duration, Instant};

use anyhow::Result;
use tokio::time::sleep_until;

use super::{Lane, Tally, drive_beside, median};
use crate::endpoint::Endpoint;
use crate::lab::Lab;
use crate::stopwatch::own_cpu;

/// What is not counted at the start of a turn. Connections are made, and TLS sessions begun, before that.
const WARM_UP: Duration = Duration::from_millis(500);

/// The order in which so many contenders take their turns in this round.
pub fn order(round: usize, contenders: usize) -> impl Iterator<Item = usize> {
    (0..contenders).map(move |turn| (round + turn) % contenders)
}

/// What the turns of one contender showed: a figure of each turn, and all turns together.
#[derive(Debug)]
pub struct Turns {
    /// Requests per second.
    pub requests_per_s: Vec<f64>,
    /// Units of work per second.
    pub units_per_s: Vec<f64>,
    /// The server's processor time per unit, in microseconds.
    pub server_cpu_us: Vec<f64>,
    /// This tool's processor time per unit, in microseconds.
    pub tool_cpu_us: Vec<f64>,
    /// All turns together.
    pub tally: Tally,
}

impl Turns {
    /// No turn yet.
    pub fn new() -> Self {
        let (requests_per_s, units_per_s) = (Vec::new(), Vec::new());
        let (server_cpu_us, tool_cpu_us) = (Vec::new(), Vec::new());
        Self { requests_per_s, units_per_s, server_cpu_us, tool_cpu_us, tally: Tally::new() }
    }

    /// One more turn: `work` on so many connections to `endpoint`, whose server has used `server_cpu` so far.
    pub async fn take<E: Endpoint, F: Future<Output = ()> + Send + 'static>(
        &mut self,
        lab: &Lab,
        endpoint: &E,
        connections: usize,
        server_cpu: impl Fn() -> Result<Duration>,
        work: impl FnMut(usize, Lane<E>) -> F,
    ) -> Result<()> {
        let watch = |opens: Instant, closes: Instant| async move {
            sleep_until(opens.into()).await;
            let (theirs, ours) = (server_cpu()?, own_cpu());
            sleep_until(closes.into()).await;
            anyhow::Ok((server_cpu()? - theirs, own_cpu() - ours))
        };
        let span = (WARM_UP, lab.round());
        let (_, tally, used) = drive_beside(endpoint, connections, span, work, watch).await?;
        let (theirs, ours) = used?;
        let units = tally.units.max(1) as f64;
        let per_unit = |used: Duration| used.as_secs_f64() * 1e6 / units;
        self.requests_per_s.push(tally.requests as f64 / lab.args.seconds);
        self.units_per_s.push(tally.units as f64 / lab.args.seconds);
        self.server_cpu_us.push(per_unit(theirs));
        self.tool_cpu_us.push(per_unit(ours));
        self.tally.merge(tally);
        Ok(())
    }
}

/// The ratio of the medians, and the least and the largest ratio of two values of the same round.
pub fn ratios(of: &[f64], to: &[f64]) -> [f64; 3] {
    let mut each: Vec<f64> = of.iter().zip(to).map(|(of, to)| of / to).collect();
    each.sort_by(f64::total_cmp);
    let least = each.first().copied().unwrap_or(f64::NAN);
    let largest = each.last().copied().unwrap_or(f64::NAN);
    [median(of) / median(to), least, largest]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_round_has_all_contenders_and_begins_with_another() {
        let rounds: Vec<Vec<usize>> = (0..4).map(|round| order(round, 3).collect()).collect();
        assert_eq!(rounds, [[0, 1, 2], [1, 2, 0], [2, 0, 1], [0, 1, 2]]);
    }

    #[test]
    fn a_ratio_is_of_medians_and_its_spread_is_of_rounds() {
        let found = ratios(&[90.0, 110.0, 50.0], &[100.0, 100.0, 100.0]);
        assert_eq!(found, [0.9, 0.5, 1.1]);
    }
}
