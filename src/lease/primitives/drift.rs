//! The difference between the rates of two clocks (§2).

use std::time::Duration;

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

/// The span in whole milliseconds, rounded up.
pub(in crate::lease) fn ceil_ms(span: Duration) -> u64 {
    u64::try_from(span.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}
