//! Networks with ports: `10.0.0.0/8:8080`, `127.0.0.1`, `[fd00::]/8:9000-9100`.

use std::{
    fmt,
    net::{IpAddr, Ipv6Addr},
    ops::RangeInclusive,
    str::FromStr,
};

use config::{ConfigError, Value};
use ipnet::IpNet;
use serde::de::{self, Deserializer as _};

use super::value::{Format, Shown};

/// The most networks in one list. Each address is compared with all of them.
const MAX_NETWORKS: usize = 256;
const AUTO: &str = "auto";

/// A network and a range of ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Network {
    net: IpNet,
    ports: RangeInclusive<u16>,
}

/// The targets that `http` and `tcp` checks of sessions may connect to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CheckTargets {
    /// Loopback, if the coordinator listens on loopback and advertises no other address; otherwise nothing.
    Auto,
    /// These networks, and no other targets.
    Only(Vec<Network>),
}

impl Network {
    /// All ports of a network.
    #[must_use]
    pub fn all_ports(net: IpNet) -> Self {
        Self { net, ports: 1..=u16::MAX }
    }

    /// Whether it contains this address and port.
    #[must_use]
    pub fn contains(&self, address: IpAddr, port: u16) -> bool {
        self.net.contains(&address) && self.ports.contains(&port)
    }
}

/// Whether an address is link-local. At such addresses, clouds give their secrets to any caller.
#[must_use]
pub fn is_link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    }
}

impl FromStr for Network {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const NONE: &str =
            "is no network such as 10.0.0.0/8, 10.1.2.3:8080 or [fd00::]/8:9000-9100";
        let (host, rest) = match text.strip_prefix('[') {
            Some(inner) => inner.split_once(']').ok_or(NONE)?,
            None => text.split_at(text.find(['/', ':']).unwrap_or(text.len())),
        };
        let address: IpAddr = host.parse().map_err(|_| NONE)?;
        if address.is_ipv6() != text.starts_with('[') {
            return Err(NONE);
        }
        if address.to_canonical() != address {
            return Err("is an IPv4 network that is written as IPv6; write it as IPv4");
        }
        let (length, ports) = match rest.strip_prefix('/') {
            Some(rest) => {
                let (length, ports) = rest.split_at(rest.find(':').unwrap_or(rest.len()));
                (Some(whole(length).ok_or(NONE)?), ports)
            }
            None => (None, rest),
        };
        let net = match length {
            Some(length) => u8::try_from(length).ok().and_then(|l| IpNet::new(address, l).ok()),
            None => Some(IpNet::from(address)),
        };
        let net = net.ok_or("has a prefix length that is too long for the address")?;
        if net.network() != address {
            return Err(
                "names an address inside of a network; set the bits beyond its length to 0",
            );
        }
        if is_link_local(address) {
            return Err("is link-local, where checks must never connect to");
        }
        Ok(Self { net, ports: ports_of(ports)? })
    }
}

/// Reads the ports: `""` for all of them, `":8080"` or `":9000-9100"`.
fn ports_of(text: &str) -> Result<RangeInclusive<u16>, &'static str> {
    const NONE: &str = "must have ports such as 8080 or 9000-9100, the lower one first";
    if text.is_empty() {
        return Ok(1..=u16::MAX);
    }
    let text = text.strip_prefix(':').ok_or(NONE)?;
    let (from, to) = text.split_once('-').unwrap_or((text, text));
    match (whole(from), whole(to)) {
        (Some(from @ 1..), Some(to)) if from <= to => Ok(from..=to),
        _ => Err(NONE),
    }
}

/// Reads a number of digits only. The library would also accept a sign.
fn whole(text: &str) -> Option<u16> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.net {
            IpNet::V4(net) => write!(f, "{net}")?,
            IpNet::V6(net) => {
                let address: Ipv6Addr = net.addr();
                write!(f, "[{address}]/{}", net.prefix_len())?;
            }
        }
        match (*self.ports.start(), *self.ports.end()) {
            (1, u16::MAX) => Ok(()),
            (one, to) if one == to => write!(f, ":{one}"),
            (from, to) => write!(f, ":{from}-{to}"),
        }
    }
}

impl Format for CheckTargets {
    /// Reads `"auto"`, a list, or (in the environment and in flags) networks that are separated by commas.
    fn read(value: Value) -> Result<Self, ConfigError> {
        value.deserialize_any(Targets)
    }

    fn show(&self) -> Shown {
        match self {
            Self::Auto => Shown::Text(AUTO.to_owned()),
            Self::Only(networks) => {
                networks.iter().map(Network::to_string).collect::<Vec<String>>().show()
            }
        }
    }
}

struct Targets;

impl Targets {
    fn read<'a, E: de::Error>(texts: impl Iterator<Item = &'a str>) -> Result<CheckTargets, E> {
        let network = |text: &str| text.parse().map_err(|why| E::custom(format!("{text:?} {why}")));
        let networks: Vec<Network> = texts.map(network).collect::<Result<_, E>>()?;
        if networks.len() > MAX_NETWORKS {
            let problem =
                format!("has {} networks; at most {MAX_NETWORKS} are allowed", networks.len());
            return Err(E::custom(problem));
        }
        Ok(CheckTargets::Only(networks))
    }
}

impl<'de> de::Visitor<'de> for Targets {
    type Value = CheckTargets;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("\"auto\" or networks such as [\"10.0.0.0/8:8080\", \"[::1]/128\"]")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<CheckTargets, E> {
        match text.trim() {
            AUTO => Ok(CheckTargets::Auto),
            "" => Ok(CheckTargets::Only(Vec::new())),
            list => Self::read(list.split(',').map(str::trim)),
        }
    }

    fn visit_seq<A: de::SeqAccess<'de>>(self, mut items: A) -> Result<CheckTargets, A::Error> {
        let mut texts: Vec<String> = Vec::new();
        while let Some(text) = items.next_element()? {
            texts.push(text);
        }
        Self::read(texts.iter().map(String::as_str))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_reads_back_as_it_is_written() {
        for text in
            ["10.0.0.0/8", "127.0.0.1/32:8080", "[fd00::]/8:9000-9100", "[::1]/128", "0.0.0.0/0"]
        {
            assert_eq!(text.parse::<Network>().expect(text).to_string(), text);
        }
        let one = "10.1.2.3:80".parse::<Network>().expect("one address");
        assert_eq!(one.to_string(), "10.1.2.3/32:80");
        assert_eq!("[::1]:7".parse::<Network>().expect("one").to_string(), "[::1]/128:7");
    }

    #[test]
    fn an_address_and_its_port_are_in_it_or_not() {
        let network: Network = "10.0.0.0/8:8080-8090".parse().expect("a network");
        let inside = |address: &str, port| network.contains(address.parse().expect("one"), port);
        assert!(inside("10.255.0.1", 8080) && inside("10.0.0.0", 8090));
        assert!(!inside("10.0.0.1", 8079) && !inside("10.0.0.1", 8091));
        assert!(!inside("11.0.0.0", 8080) && !inside("::1", 8080));
    }

    #[test]
    fn what_is_no_network_is_refused_with_the_reason() {
        let wrong = [
            ("", "no network"),
            ("localhost", "no network"),
            ("10.0.0.0/", "no network"),
            ("10.0.0.0/+8", "no network"),
            ("::1", "no network"),
            ("[10.0.0.0]/8", "no network"),
            ("[::1", "no network"),
            ("[fe80::1%eth0]/128", "no network"),
            ("010.0.0.0/8", "no network"),
            ("10.0.0.0/33", "length"),
            ("10.0.0.1/8", "bits beyond"),
            ("[fd00::1]/8", "bits beyond"),
            ("[::ffff:10.0.0.0]/104", "write it as IPv4"),
            ("169.254.169.254", "link-local"),
            ("[fe80::]/10", "link-local"),
            ("10.0.0.0/8:", "ports"),
            ("10.0.0.0/8:0", "ports"),
            ("10.0.0.0/8:90-80", "ports"),
            ("10.0.0.0/8:70000", "ports"),
            ("[::1]8080", "ports"),
        ];
        for (text, why) in wrong {
            let said = text.parse::<Network>().expect_err(text);
            assert!(said.contains(why), "{text}: {said}");
        }
    }
}
