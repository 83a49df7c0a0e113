//! The rates of callers without a principal, by their addresses.
//!
//! Guarantees: the table has a bound, and an address costs memory only while it calls. While the table is full, all
//! addresses that are not in it share one rate.
//!
//! Does not guarantee: a rate for each of several callers behind one address, such as that of a proxy.

use std::{
    net::IpAddr,
    num::NonZeroU32,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use super::{network::network, rate::Cell};
use crate::{
    clock::{Clock, DashMap, dash_map},
    lease::Moment,
};

/// The most addresses with a rate of their own, of about 200 bytes each.
const MOST: usize = 65_536;
/// While the table is full, it is searched this often for addresses that no longer call.
const SEARCH: Duration = Duration::from_secs(1);

/// The rates of all addresses.
pub struct AddressRates {
    rate: NonZeroU32,
    most: usize,
    clock: Arc<dyn Clock>,
    known: DashMap<IpAddr, Known>,
    /// How many are known.
    count: AtomicUsize,
    /// The rate of all the others.
    common: Arc<Cell>,
    /// When the table may be searched again, on the clock.
    search_at: AtomicU64,
}

struct Known {
    cell: Arc<Cell>,
    /// When it called last, on the clock.
    called: AtomicU64,
}

impl AddressRates {
    /// So many calls per second for each address.
    pub fn new(rate: NonZeroU32, clock: Arc<dyn Clock>) -> Self {
        Self::with_most(rate, clock, MOST)
    }

    fn with_most(rate: NonZeroU32, clock: Arc<dyn Clock>, most: usize) -> Self {
        Self {
            rate,
            most,
            common: Arc::new(Cell::new(rate, &clock)),
            clock,
            known: dash_map(),
            count: AtomicUsize::new(0),
            search_at: AtomicU64::new(0),
        }
    }

    /// The cell for a call from this address.
    pub fn of(&self, address: IpAddr) -> Arc<Cell> {
        let (address, now) = (network(address), self.clock.now());
        if let Some(known) = self.known.get(&address) {
            known.called.store(now.0, Relaxed);
            return known.cell.clone();
        }
        if self.count.load(Relaxed) >= self.most && !self.make_room(now) {
            return self.common.clone();
        }
        let known = self.known.entry(address).or_insert_with(|| {
            self.count.fetch_add(1, Relaxed);
            let cell = Arc::new(Cell::new(self.rate, &self.clock));
            Known { cell, called: AtomicU64::new(now.0) }
        });
        known.cell.clone()
    }

    /// Forgets the addresses whose cells are as good as new. Returns whether there is room now.
    fn make_room(&self, now: Moment) -> bool {
        let due = self.search_at.load(Relaxed);
        let next = (now + SEARCH).0;
        if now.0 < due || self.search_at.compare_exchange(due, next, Relaxed, Relaxed).is_err() {
            return false;
        }
        self.known.retain(|_, known| {
            now.since(Moment(known.called.load(Relaxed))) < known.cell.recovery()
        });
        let left = self.known.len();
        self.count.store(left, Relaxed);
        left < self.most
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::ManualClock;

    fn rates(most: usize) -> (Arc<ManualClock>, AddressRates) {
        let clock = Arc::new(ManualClock::new());
        let rate = NonZeroU32::new(2).expect("a rate");
        (clock.clone(), AddressRates::with_most(rate, clock, most))
    }

    fn pays(rates: &AddressRates, address: &str) -> bool {
        rates.of(address.parse().expect("an address")).pay().is_ok()
    }

    #[test]
    fn each_address_and_each_network_has_a_rate() {
        let (clock, rates) = rates(MOST);
        let calls = |address: &str| [(); 3].map(|()| pays(&rates, address));
        assert_eq!(calls("10.0.0.1"), [true, true, false]);
        assert_eq!(calls("::ffff:10.0.0.1"), [false; 3]);
        assert_eq!(calls("10.0.0.2"), [true, true, false]);
        assert_eq!(calls("2001:db8::1"), [true, true, false]);
        assert_eq!(calls("2001:db8::2"), [false; 3]);
        assert_eq!(calls("2001:db8:0:1::2"), [true, true, false]);
        clock.advance(SEARCH);
        assert_eq!(calls("10.0.0.1"), [true, true, false]);
    }

    #[test]
    fn when_the_table_is_full_new_addresses_share_one_rate_until_others_call_no_more() {
        let (clock, rates) = rates(2);
        assert!(pays(&rates, "10.0.0.1") && pays(&rates, "10.0.0.2"));
        // The first of these searches the table, and finds nobody to forget.
        assert!(pays(&rates, "10.0.0.3") && pays(&rates, "10.0.0.4"));
        assert!(!pays(&rates, "10.0.0.5"));
        assert!(pays(&rates, "10.0.0.1"), "who is known keeps its rate");
        assert_eq!(rates.known.len(), 2);
        clock.advance(SEARCH / 2);
        assert!(pays(&rates, "10.0.0.1"));
        clock.advance(SEARCH / 2);
        assert!(pays(&rates, "10.0.0.5") && pays(&rates, "10.0.0.5"), "in the place of the second");
        assert!(!pays(&rates, "10.0.0.5"), "it has a rate of its own");
        assert_eq!((rates.known.len(), rates.count.load(Relaxed)), (2, 2));
    }

    #[test]
    fn who_owes_is_not_forgotten_before_it_would_have_paid() {
        let (clock, rates) = rates(1);
        assert!(pays(&rates, "10.0.0.1"));
        rates.of([10, 0, 0, 1].into()).owe(6);
        clock.advance(3 * SEARCH);
        assert!(pays(&rates, "10.0.0.2"), "by the common rate");
        assert!(rates.known.contains_key(&IpAddr::from([10, 0, 0, 1])));
        clock.advance(SEARCH);
        assert!(pays(&rates, "10.0.0.2"));
        assert!(!rates.known.contains_key(&IpAddr::from([10, 0, 0, 1])));
    }
}
