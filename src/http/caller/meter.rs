//! Charges calls to the rates of their callers.
//!
//! Guarantees: the node at which a call enters the cluster charges it; the node to which it forwards the call does not. The
//! node that makes a search charges the records, keys and changes that the search looks at. A probe costs nothing.

use std::{
    net::{IpAddr, Ipv4Addr},
    num::NonZeroU32,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use actix_web::HttpRequest;

use super::{
    address_rates::AddressRates,
    needs::{Pace, pace},
    rate::{Cell, Charged},
    usage::Usage,
};
use crate::{
    access::Principal,
    clock::{Chance, Clock, Entropy as _, SystemEntropy},
    http::{
        answer::Problem,
        peer::{PART, was_forwarded},
        percent::path_of,
    },
    telemetry::{LimitKind, Metrics},
};

/// The longest pause beyond twice the necessary one. Callers that were refused together come back at different times.
const SPREAD: Duration = Duration::from_millis(100);

/// How many JWTs with wrong signatures per second are verified for one address.
const FORGERIES: NonZeroU32 = NonZeroU32::new(20).unwrap();
/// How many more if each is the first one of its connection: a holder whose JWT is new opens a connection for it. A
/// stranger pays as much for each of its connections.
const FIRST_FORGERIES: NonZeroU32 = NonZeroU32::new(100).unwrap();

/// How many per second on a connection that is already a principal's, whatever others at its address do: its JWT was
/// renewed.
const OWN_FORGERIES: NonZeroU32 = NonZeroU32::new(2).unwrap();

/// How many messages per second, or KiB of them, the streams of one caller refuse or parse beyond its rate: about 1 % of
/// a core.
const REFUSALS: NonZeroU32 = NonZeroU32::new(2_000).unwrap();
/// The longest pause of a stream: its client must hear of its end, or that its principal is gone.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Charges calls, and counts those that are refused.
pub struct Meter {
    clock: Arc<dyn Clock>,
    metrics: Arc<Metrics>,
    /// The rates of those without a principal, if they have one.
    addresses: Option<AddressRates>,
    /// How much of their messages beyond these rates is looked at.
    refusals: AddressRates,
    /// How many JWTs with wrong signatures callers of an address may show.
    forgeries: AddressRates,
    /// The same for the first one of each of their connections.
    first_forgeries: AddressRates,
    chance: Mutex<Chance>,
}

impl Meter {
    /// `per_address`: the calls per second of an address; 0: any number.
    pub fn new(clock: Arc<dyn Clock>, metrics: Arc<Metrics>, per_address: u32) -> Self {
        let rate = NonZeroU32::new(per_address);
        let addresses = rate.map(|rate| AddressRates::new(rate, clock.clone()));
        let refusals = AddressRates::new(REFUSALS, clock.clone());
        let chance = Mutex::new(SystemEntropy::new().chance());
        let forgeries = AddressRates::new(FORGERIES, clock.clone());
        let first_forgeries = AddressRates::new(FIRST_FORGERIES, clock.clone());
        Self { clock, metrics, addresses, refusals, forgeries, first_forgeries, chance }
    }

    /// Charges a call of a principal. A call that another node forwards was charged there. Here it waits only until
    /// what this node looked at for earlier calls of the principal is paid.
    ///
    /// # Errors
    /// The principal calls more often than it may.
    pub fn charge(
        &self,
        request: &HttpRequest,
        principal: &Principal,
        usage: &Usage,
    ) -> Result<Charged, Problem> {
        let Some(pace) = pace(request.method(), path_of(request)) else { return Ok(None) };
        if !was_forwarded(request) {
            return self.charge_at(pace, principal, usage);
        }
        // A question of another node for a part of an answer is small, and no answer would be whole without it.
        let searches = pace == Pace::Other && !request.headers().contains_key(PART);
        if let Some(cell) = self.cell(pace, principal, usage).filter(|_| searches) {
            cell.settled().map_err(|wait| self.too_often(principal, &cell, wait))?;
        }
        Ok(None)
    }

    /// The cell to which this node charges the calls of a principal at this pace, if the principal has a rate.
    pub fn cell(&self, pace: Pace, principal: &Principal, usage: &Usage) -> Charged {
        let rate = principal.limit().rate.and_then(NonZeroU32::new)?;
        Some(usage.cells().of(pace, rate, &self.clock))
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
    ) -> Result<Charged, Problem> {
        let Some(cell) = self.cell(pace, principal, usage) else { return Ok(None) };
        cell.pay().map_err(|wait| self.too_often(principal, &cell, wait))?;
        Ok(Some(cell))
    }

    /// The refusal of a principal that calls more often than it may.
    fn too_often(&self, principal: &Principal, cell: &Cell, wait: Duration) -> Problem {
        self.refused(LimitKind::Rate);
        Problem::over_rate(&principal.name, cell.rate(), self.pause(wait))
    }

    /// Charges a call of somebody without a principal to its address. The Unix socket has none.
    ///
    /// # Errors
    /// The callers at the address call more often than they may.
    pub fn charge_address(&self, request: &HttpRequest) -> Result<Charged, Problem> {
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
    pub fn charge_peer(&self, peer: Option<IpAddr>) -> Result<Charged, Problem> {
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

    /// Counts a message that a stream of a principal refuses or parses beyond the principal's rate. Returns for how long
    /// the stream must pause.
    pub fn pause_of(&self, principal: &Principal, usage: &Usage, bytes: usize) -> Option<Duration> {
        principal.limit().rate?;
        pause(&usage.refusals(REFUSALS, &self.clock), bytes)
    }

    /// The same for a stream without a principal.
    pub fn pause_of_peer(&self, peer: Option<IpAddr>, bytes: usize) -> Option<Duration> {
        self.addresses.as_ref()?;
        pause(&self.refusals.of(peer?), bytes)
    }

    /// The cells of failed verifications of callers at this address, or by the Unix socket: those of all connections, and
    /// those of the first JWT of a connection.
    pub fn forgeries(&self, peer: Option<IpAddr>) -> [Arc<Cell>; 2] {
        let peer = peer.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
        [self.forgeries.of(peer), self.first_forgeries.of(peer)]
    }

    /// A cell for the failed verifications of one connection of a principal.
    pub fn own_forgeries(&self) -> Arc<Cell> {
        Arc::new(Cell::new(OWN_FORGERIES, &self.clock))
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

/// The pause after a message of this length.
fn pause(cell: &Cell, bytes: usize) -> Option<Duration> {
    cell.owe((bytes / 1024) as u64);
    // The unpaid rest is owed, so the pauses grow with the number of streams.
    cell.pay().inspect_err(|_| cell.owe(1)).err().map(|wait| wait.min(LONGEST_PAUSE))
}
