//! TLS: which certificate authorities verify a server, what a server shows of itself, and what to do when a handshake
//! fails.
//!
//! Guarantees: nothing is sent to a server whose certificate no trusted authority issued, or is for other names. A
//! connection that must use TLS never falls back to plain text. No proxy from the environment is used. A server that
//! cannot read the new files of its certificate keeps the old one.
//!
//! Does not guarantee: that a server's certificate was not revoked. Only a server reads revocation lists, for the
//! certificates of its clients.
//!
//! Assumes: a client's files are read once, when a configuration is made.

mod client;
#[cfg(feature = "server")]
mod client_chain;
#[cfg(feature = "server")]
mod expiry;
mod known_servers;
mod pem;
#[cfg(feature = "server")]
mod served;
#[cfg(feature = "server")]
mod server;

pub use client::{Identity, Roots, TlsError, client, client_as, explain, fault, http, none};
#[cfg(feature = "server")]
pub use client_chain::{Before, ClientChain};
#[cfg(feature = "server")]
pub use expiry::{Certificates, Expiry, NamedCertificates, is_authority, signed_part};
#[cfg(feature = "server")]
pub use served::{Change, Served};
#[cfg(feature = "server")]
pub use server::{ServerFault, ServerFiles, check};
