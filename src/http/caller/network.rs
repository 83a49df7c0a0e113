//! What an address says of a caller.

use std::net::{IpAddr, Ipv6Addr};

/// The caller that an address stands for. An IPv6 /64 network counts as one caller: whoever has one of its addresses
/// has them all.
pub fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
        }
        address => address,
    }
}
