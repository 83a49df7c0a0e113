//! Where checks of sessions may connect. A caller that can make a session can make this node connect to an address.
//!
//! Guarantees: the addresses that [`Reach::addresses`] returns are permitted. A caller that connects to these
//! addresses, and looks up no name again, stays within what is permitted, whatever a name server answers later.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
};

use reqwest::Url;

use crate::{
    plugin::FailureKind,
    settings::{CheckTargets, Network, is_link_local},
};

/// The prefix of the IPv6 addresses that a NAT64 gateway translates to IPv4 (RFC 6052).
const NAT64: [u16; 6] = [0x64, 0xff9b, 0, 0, 0, 0];

/// What checks may connect to.
#[derive(Clone, Debug, Default)]
pub struct Reach {
    networks: Vec<Network>,
    /// The port of this coordinator. It is closed to checks at every address: which addresses lead here, for example
    /// through a gateway, is not known, and other coordinators often use the same port.
    own_port: Option<u16>,
}

/// The target of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    host: Host,
    port: u16,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Host {
    Address(IpAddr),
    Name(String),
}

/// A kind of failure, and details that are only for the log.
pub(in crate::actor) type Failed = (FailureKind, String);

impl Reach {
    /// Applies the settings. `own_port` is the coordinator's port, if it has one. `lets_in` says that clients on other
    /// machines reach the coordinator. Clients on this machine reach loopback anyway.
    #[must_use]
    pub fn new(targets: &CheckTargets, own_port: Option<u16>, lets_in: bool) -> Self {
        let networks = match targets {
            CheckTargets::Only(networks) => networks.clone(),
            CheckTargets::Auto if lets_in => Vec::new(),
            CheckTargets::Auto => {
                let loopback = ["127.0.0.0/8", "[::1]/128"];
                loopback.iter().filter_map(|text| text.parse().ok()).collect()
            }
        };
        Self { networks, own_port }
    }

    /// Whether a check may connect to this address.
    #[must_use]
    pub fn allows(&self, address: SocketAddr) -> bool {
        let (ip, port) = (meant(address.ip()), address.port());
        let never =
            is_link_local(ip) || is_link_local(behind_nat64(ip)) || self.own_port == Some(port);
        !never && self.networks.iter().any(|network| network.contains(ip, port))
    }

    /// The permitted addresses of a target. Calls `lookup` at most once.
    pub(in crate::actor) async fn addresses(
        &self,
        target: &Target,
        lookup: impl AsyncFn(&str, u16) -> io::Result<Vec<SocketAddr>>,
    ) -> Result<Vec<SocketAddr>, Failed> {
        let found = match &target.host {
            Host::Address(ip) => vec![SocketAddr::new(*ip, target.port)],
            Host::Name(name) => {
                let found = lookup(name, target.port).await;
                found.map_err(|error| (FailureKind::UnknownName, error.to_string()))?
            }
        };
        let (allowed, refused): (Vec<_>, Vec<_>) =
            found.into_iter().partition(|address| self.allows(*address));
        match (allowed.is_empty(), refused.is_empty()) {
            (false, _) => Ok(allowed),
            (true, true) => Err((FailureKind::UnknownName, "the name has no address".to_owned())),
            (true, false) => {
                let why = format!("checks.allow permits none of {refused:?}");
                Err((FailureKind::NotAllowed, why))
            }
        }
    }
}

/// The address that the system connects to when it is given this one.
fn meant(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) if address.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(address) if address.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        address => address,
    }
}

/// The IPv4 address that a NAT64 gateway would connect to.
fn behind_nat64(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V6(v6) if v6.segments().starts_with(&NAT64) => {
            let [.., a, b, c, d] = v6.octets();
            Ipv4Addr::new(a, b, c, d).into()
        }
        address => address,
    }
}

impl Target {
    /// The target of a URL, or `None` if it has no host and port.
    #[must_use]
    pub fn of_url(url: &Url) -> Option<Self> {
        let (host, port) = (url.host_str()?, url.port_or_known_default()?);
        // The parser has normalized every spelling: decimal, octal, hexadecimal, other scripts.
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let host = match bare.parse() {
            Ok(address) => Host::Address(address),
            Err(_) => Host::Name(host.to_owned()),
        };
        Some(Self { host, port })
    }

    /// The target named by `host:port`, or `None` for other text.
    #[must_use]
    pub fn of_address(text: &str) -> Option<Self> {
        let (host, port) = text.rsplit_once(':')?;
        let digits = port.bytes().all(|byte| byte.is_ascii_digit());
        let port = digits.then(|| port.parse().ok()).flatten().filter(|&port| port > 0)?;
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        // A zone only matters for link-local addresses, to which no check connects.
        let address = bare.split_once('%').map_or(bare, |(address, _)| address);
        if let Ok(address) = address.parse::<Ipv6Addr>() {
            return Some(Self { host: Host::Address(address.into()), port });
        }
        let url = Url::parse(&format!("http://{host}/")).ok()?;
        let only_host = url.username().is_empty()
            && url.password().is_none()
            && url.port().is_none()
            && url.path() == "/"
            && url.query().is_none()
            && url.fragment().is_none();
        only_host.then(|| Self::of_url(&url)).flatten().map(|target| Self { port, ..target })
    }

    /// The address that the target gives, or `None` if it gives a name.
    #[must_use]
    pub fn literal(&self) -> Option<SocketAddr> {
        match self.host {
            Host::Address(ip) => Some(SocketAddr::new(ip, self.port)),
            Host::Name(_) => None,
        }
    }
}

/// Resolves a name as the operating system does.
pub(in crate::actor) async fn look_up(name: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    Ok(tokio::net::lookup_host((name, port)).await?.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn only(networks: &[&str]) -> Reach {
        let networks = networks.iter().map(|text| text.parse().expect("a network")).collect();
        Reach::new(&CheckTargets::Only(networks), Some(7373), false)
    }

    /// Whether a session may name the target. `None`: that is only known once it is looked up.
    fn names(reach: &Reach, target: &Target) -> Option<bool> {
        target.literal().map(|address| reach.allows(address))
    }

    #[test]
    fn loopback_is_allowed_by_itself_where_nobody_else_is_let_in() {
        let allows = |lets_in, address: &str| {
            let reach = Reach::new(&CheckTargets::Auto, Some(7373), lets_in);
            reach.allows(address.parse().expect("an address"))
        };
        assert!(allows(false, "127.0.0.1:80") && allows(false, "[::1]:80"));
        assert!(!allows(false, "10.0.0.1:80") && !allows(false, "[fd00::1]:80"));
        assert!(!allows(true, "127.0.0.1:80") && !allows(true, "10.0.0.1:80"));
    }

    #[test]
    fn its_own_port_and_link_local_addresses_are_never_allowed() {
        let all = only(&["0.0.0.0/0", "[::]/0"]);
        let allows = |address: &str| all.allows(address.parse().expect(address));
        assert!(allows("10.1.2.3:80") && allows("[fd00::1]:80") && allows("169.253.0.1:80"));
        let never = [
            "127.0.0.1:7373",
            "0.0.0.0:7373",
            "10.0.0.1:7373",
            "[::1]:7373",
            "[::ffff:127.0.0.1]:7373",
            "169.254.169.254:80",
            "[::ffff:169.254.169.254]:80",
            "[64:ff9b::a9fe:a9fe]:80",
            "[fe80::1]:80",
            "[febf::1]:80",
        ];
        for address in never {
            assert!(!allows(address), "{address}");
        }
    }

    #[test]
    fn an_address_is_judged_as_what_it_means_however_it_is_spelt() {
        let reach = only(&["127.0.0.0/8:80", "[fd00::]/8:80"]);
        let spelt = [
            "127.0.0.1",
            "2130706433",
            "0177.0.0.1",
            "0x7f.1",
            "127.1",
            "[::ffff:127.0.0.1]",
            "0.0.0.0",
            "[::ffff:7f00:1]",
            "①27.0.0.1",
            "[fd00::7]",
        ];
        let elsewhere = [
            "10.0.0.1",
            "167772161",
            "012.0.0.1",
            "0xa9fea9fe",
            "2852039166",
            "[::ffff:10.0.0.1]",
            "[::1]",
            "[::]",
            "[fe80::1]",
        ];
        let both = |host: &str| {
            let url = Url::parse(&format!("http://{host}/")).expect(host);
            let target = Target::of_url(&url).expect(host);
            assert_eq!(Target::of_address(&format!("{host}:80")).as_ref(), Some(&target), "{host}");
            names(&reach, &target)
        };
        for host in spelt {
            assert_eq!(both(host), Some(true), "{host}");
        }
        for host in elsewhere {
            assert_eq!(both(host), Some(false), "{host}");
        }
        for zone in ["[fe80::1%eth0]:80", "fe80::1%eth0:80", "[fe80::1%25eth0]:80"] {
            assert_eq!(
                names(&reach, &Target::of_address(zone).expect(zone)),
                Some(false),
                "{zone}"
            );
        }
        assert_eq!(names(&reach, &Target::of_address("localhost:80").expect("a name")), None);
        for text in [
            "a", "a:", "a:0", "a:65536", "a:+1", ":80", "u@a:80", "a/b:80", "a?b:80", "a#b:80",
            "a:1:80",
        ] {
            assert_eq!(Target::of_address(text), None, "{text}");
        }
    }

    #[tokio::test]
    async fn of_a_name_only_what_is_allowed_is_connected_to() {
        let reach = only(&["127.0.0.0/8"]);
        let target = Target::of_address("service:80").expect("a name");
        let both = async |_: &str, port| {
            Ok(vec![([10, 0, 0, 1], port).into(), ([127, 0, 0, 1], port).into()])
        };
        assert_eq!(reach.addresses(&target, both).await, Ok(vec![([127, 0, 0, 1], 80).into()]));
        let foreign = async |_: &str, port| Ok(vec![([169, 254, 169, 254], port).into()]);
        let (kind, _) = reach.addresses(&target, foreign).await.expect_err("it is not allowed");
        assert_eq!(kind, FailureKind::NotAllowed);
        let nobody = async |_: &str, _| Ok(Vec::new());
        let (kind, _) = reach.addresses(&target, nobody).await.expect_err("there is none");
        assert_eq!(kind, FailureKind::UnknownName);
    }
}
