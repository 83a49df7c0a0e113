//! How long a promise may be, given that clocks run at different rates (§2).

use std::time::Duration;

use super::moment::Moment;

/// The largest relative difference between the rates of two clocks, in parts per thousand (ρ).
///
/// κ = (1−ρ)/(1+ρ) is the least that one clock advances while another advances by 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drift {
    per_mille: u32,
}

/// ρ between a coordinator's clock and a client's: 1 %.
pub const CLIENT_DRIFT: Drift = Drift { per_mille: 10 };
/// ρ between the clocks of two coordinators: 0.2 %.
pub const NODE_DRIFT: Drift = Drift { per_mille: 2 };

impl Drift {
    /// `span · κ`, rounded down: how much of a promise of `span` on this clock is certain on the other clock.
    #[must_use]
    pub fn shrink(self, span: Duration) -> Duration {
        self.scale(span, 1000 - self.per_mille, 1000 + self.per_mille)
    }

    /// `span / κ`, rounded up: how long to wait on this clock until `span` has certainly passed on the other clock.
    #[must_use]
    pub fn stretch(self, span: Duration) -> Duration {
        self.scale(span, 1000 + self.per_mille, 1000 - self.per_mille) + Duration::from_nanos(1)
    }

    fn scale(self, span: Duration, by: u32, of: u32) -> Duration {
        let nanos = span.as_nanos() * u128::from(by) / u128::from(of);
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

/// R1: what a caller is told when its request arrived at `received` and the promise of `ttl` was decided at `decided`.
/// In milliseconds, which the caller counts on its own clock from before it sent the request.
#[must_use]
pub fn valid_for(received: Moment, decided: Moment, ttl: Duration) -> u64 {
    let span = CLIENT_DRIFT.shrink(decided.since(received).saturating_add(ttl));
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX).saturating_sub(1)
}

/// The span in whole milliseconds, rounded up.
pub(in crate::lease) fn ceil_ms(span: Duration) -> u64 {
    u64::try_from(span.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_holder_is_told_less_and_the_rival_waits_longer() {
        let ttl = Duration::from_secs(10);
        let told = valid_for(Moment::ZERO, Moment::ZERO, ttl);
        assert_eq!(told, 10_000 * 990 / 1010 - 1);
        assert!(CLIENT_DRIFT.stretch(ttl) > ttl * 1010 / 990);
    }

    #[test]
    fn waiting_in_the_queue_costs_the_holder_nothing() {
        let ttl = Duration::from_secs(1);
        let parked = valid_for(Moment::ZERO, Moment::ZERO + Duration::from_secs(60), ttl);
        assert!(parked > 59_000);
    }
}
