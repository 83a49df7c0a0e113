//! `[checks]`: health checks of sessions.

use std::path::PathBuf;

use super::super::{content::Content, networks::CheckTargets, table::section};

section! {
    /// The section `[checks]`: where the health checks of sessions may connect.
    pub struct Checks {
        /// Addresses to which the http and tcp checks of sessions may connect: networks with optional ports, such as
        /// ["10.0.0.0/8:8080", "192.168.7.4", "[fd00::]/8:9000-9100"]. IPv6 needs brackets; without ports, all ports
        /// are allowed. In the environment and in flags, separate them with commas. []: none. "auto": loopback, if
        /// server.listen is loopback and neither server.hosts nor node.advertise_url names another address (as behind a
        /// proxy); otherwise none. Link-local addresses and the port of server.listen are never allowed. At most 256
        /// networks.
        allow: CheckTargets = CheckTargets::Auto;
        /// PEM file with authorities for https checks of sessions, in addition to those of the operating system. Empty:
        /// none.
        ca: PathBuf = PathBuf::new(), file Content::Pem("CERTIFICATE");
        /// Whether the log has an excerpt of what failed checks found, such as the output of a program. It may hold
        /// secrets. If false, the log has the kind of failure alone. These lines have the level debug.
        log_detail: bool = true;
    }
}
