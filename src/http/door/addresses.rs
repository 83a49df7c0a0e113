//! Counts the connections of each address. Without accounts, this is the only share that each caller can have.
//!
//! Guarantees: over all workers, an address never has more connections than the bound.
//!
//! Does not guarantee: a share for each of several callers behind one address, such as that of a proxy.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Arc, Mutex, PoisonError},
};

use crate::http::caller::network;

pub struct Addresses {
    /// The bound per address; 0: no bound, and nothing is counted.
    most: usize,
    open: Mutex<HashMap<IpAddr, usize>>,
}

/// A counted connection; dropping it ends the count.
pub struct Counted(Option<(Arc<Addresses>, IpAddr)>);

impl Addresses {
    /// At most `most` connections for each address; 0: no bound.
    pub fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { most, open: Mutex::default() })
    }

    /// Counts a connection; `None` when its address already has as many as the bound allows.
    pub fn count(self: &Arc<Self>, address: Option<IpAddr>) -> Option<Counted> {
        let Some(address) = address.filter(|_| self.most > 0).map(network) else {
            return Some(Counted(None));
        };
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let count = open.entry(address).or_default();
        if *count >= self.most {
            return None;
        }
        *count += 1;
        Some(Counted(Some((self.clone(), address))))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let Some((addresses, address)) = &self.0 else { return };
        let mut open = addresses.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = open.get_mut(address) {
            *count -= 1;
            if *count == 0 {
                open.remove(address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_as_many_as_it_may_and_no_more() {
        let addresses = Addresses::new(2);
        let count = |text: &str| addresses.count(Some(text.parse().unwrap()));
        let (first, second) = (count("10.0.0.1"), count("::ffff:10.0.0.1"));
        assert!(first.is_some() && second.is_some() && count("10.0.0.1").is_none());
        let others = ["10.0.0.2", "2001:db8::1", "2001:db8::2"].map(count);
        assert!(others.iter().all(Option::is_some));
        assert!(count("2001:db8::3").is_none() && count("2001:db8:0:1::3").is_some());
        drop(first);
        assert!(count("10.0.0.1").is_some());
        drop((second, others));
        assert!(addresses.open.lock().unwrap().is_empty());
        let unbounded = Addresses::new(0);
        assert!(unbounded.count(None).is_some() && unbounded.open.lock().unwrap().is_empty());
    }
}
