//! JWTs (RFC 7519) that show who calls.
//!
//! Guarantees: a JWT counts only if a key that the file of its issuer (`iss`) holds now verifies its signature, its
//! audience is the issuer's, and it is valid at the time that the caller of [`Issuers::judge`] gives. The algorithm is
//! that of the key: RS256, ES256 or EdDSA. No other can be named. A claim of a wrong type is a fault, never an absent
//! claim. Nothing in a JWT makes this process read a file or an address.
//!
//! A JWT costs at most one verification of a signature: a set of several keys finds the key by `kid`. One that was
//! verified before costs none, and [`crate::access::Allowance`] decides about all others.
//!
//! Does not guarantee: that a JWT was not revoked by its issuer, or is shown by one caller alone.
//!
//! Signatures are verified by ring itself, which rustls brings. Libraries for JWTs have a crypto provider for the whole
//! process, which a program that embeds a coordinator may have set otherwise, and read the time themselves.

mod cache;
mod claims;
mod fault;
mod issuer;
mod issuers;
mod key;
mod parts;
mod refused;
mod set;
#[cfg(test)]
#[path = "../../../tests/doors/signer.rs"]
mod signer;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_faults;
#[cfg(test)]
mod tests_keys;

pub use fault::JwtFault;
pub(super) use issuer::Issuer;
pub(super) use issuers::Issuers;
pub use issuers::JwtProof;
pub(super) use set::Keys;
