//! TLS: which certificate authorities verify a server, what a server shows of itself, and what to do when a handshake
//! fails.
//!
//! Guarantees: nothing is sent to a server whose certificate no trusted authority issued, or is for other names. A
//! connection that must use TLS never falls back to plain text. No proxy from the environment is used. Files are followed:
//! a server and a client that cannot use new files keep the old content.
//!
//! Does not guarantee: that a server's certificate was not revoked. Only a server reads revocation lists, for the
//! certificates of its clients.
//!
//! Assumes: a file that changes gets another time, size or inode.

mod client;
#[cfg(feature = "server")]
mod client_chain;
#[cfg(feature = "server")]
mod expiry;
mod followed;
mod known_servers;
mod pem;
#[cfg(feature = "server")]
mod served;
#[cfg(feature = "server")]
mod server;
mod stamp;
mod trust;

pub use client::{client, explain, fault, followed, http, none};
#[cfg(feature = "server")]
pub use client_chain::{Before, ClientChain};
#[cfg(feature = "server")]
pub use expiry::{Certificates, Expiry, NamedCertificates, is_authority, signed_part};
pub use followed::Followed;
#[cfg(feature = "server")]
pub use served::{Change, Served};
#[cfg(feature = "server")]
pub use server::{ServerFault, ServerFiles, check};
pub use trust::{Identity, Roots, TlsError};
