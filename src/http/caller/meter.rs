//! Charges calls to the rates of their callers.
//!
//! Guarantees: a call is charged where it enters: one that another node forwards was charged there. A probe costs
//! nothing.

use std::{
    net::IpAddr,
    num::NonZeroU32,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use actix_web::HttpRequest;

use super::{
    address_rates::AddressRates,
    needs::{Pace, pace},
    rate::Cell,
    usage::Usage,
};
use crate::{
    access::Principal,
    clock::{Chance, Clock, Entropy as _, SystemEntropy},
    http::{answer::Problem, peer::was_forwarded, percent::path_of},
    telemetry::{LimitKind, Metrics},
};

/// The longest pause beyond twice the necessary one. Callers that were refused together come back at different times.
const SPREAD: Duration = Duration::from_millis(100);

/// Charges calls, and counts those that are refused.
pub struct Meter {
    clock: Arc<dyn Clock>,
    metrics: Arc<Metrics>,
    /// The rates of those without a principal, if they have one.
    addresses: Option<AddressRates>,
    chance: Mutex<Chance>,
}

impl Meter {
    /// `per_address`: the calls per second of an address; 0: any number.
    pub fn new(clock: Arc<dyn Clock>, metrics: Arc<Metrics>, per_address: u32) -> Self {
        let rate = NonZeroU32::new(per_address);
        let addresses = rate.map(|rate| AddressRates::new(rate, clock.clone()));
        let chance = Mutex::new(SystemEntropy::new().chance());
        Self { clock, metrics, addresses, chance }
    }

    /// Charges a call of a principal.
    ///
    /// # Errors
    /// The principal calls more often than it may.
    pub fn charge(
        &self,
        request: &HttpRequest,
        principal: &Principal,
        usage: &Usage,
    ) -> Result<Option<Arc<Cell>>, Problem> {
        let pace = pace(request.method(), path_of(request)).filter(|_| !was_forwarded(request));
        pace.map_or(Ok(None), |pace| self.charge_at(pace, principal, usage))
    }

    /// Charges a call of a principal at this pace.
    ///
    /// # Errors
    /// The principal calls more often than it may.
    pub fn charge_at(
        &self,
        pace: Pace,
        principal: &Principal,
        usage: &Usage,
    ) -> Result<Option<Arc<Cell>>, Problem> {
        let rate = principal.limit().rate.and_then(NonZeroU32::new);
        let Some(rate) = rate else { return Ok(None) };
        let cell = usage.cells().of(pace, rate, &self.clock);
        match cell.pay() {
            Ok(()) => Ok(Some(cell)),
            Err(wait) => {
                self.refused(LimitKind::Rate);
                Err(Problem::over_rate(&principal.name, cell.rate(), self.pause(wait)))
            }
        }
    }

    /// Charges a call of somebody without a principal to its address. The Unix socket has none.
    ///
    /// # Errors
    /// The callers at the address call more often than they may.
    pub fn charge_address(&self, request: &HttpRequest) -> Result<Option<Arc<Cell>>, Problem> {
        if self.addresses.is_none()
            || was_forwarded(request)
            || pace(request.method(), path_of(request)).is_none()
        {
            return Ok(None);
        }
        self.charge_peer(request.peer_addr().map(|peer| peer.ip()))
    }

    /// Charges a call of somebody without a principal who calls from this address.
    ///
    /// # Errors
    /// The callers at the address call more often than they may.
    pub fn charge_peer(&self, peer: Option<IpAddr>) -> Result<Option<Arc<Cell>>, Problem> {
        let (Some(addresses), Some(peer)) = (&self.addresses, peer) else { return Ok(None) };
        let cell = addresses.of(peer);
        match cell.pay() {
            Ok(()) => Ok(Some(cell)),
            Err(wait) => {
                self.refused(LimitKind::RatePerAddress);
                Err(Problem::over_rate_per_address(cell.rate(), self.pause(wait)))
            }
        }
    }

    /// Counts a call that is refused for a limit.
    pub fn refused(&self, limit: LimitKind) {
        self.metrics.limited(limit);
    }

    fn pause(&self, wait: Duration) -> Duration {
        let mut chance = self.chance.lock().unwrap_or_else(PoisonError::into_inner);
        wait + chance.jitter(wait + SPREAD)
    }
}
