//! Who may call a coordinator, and what each caller may do: the principals of one file.
//!
//! Guarantees: a file with any fault gives no [`Access`], and [`Access::read`] reports all its faults at once, each with
//! its line. Rights only add up: nothing takes a right away, and what no right allows is refused. A credential names
//! one principal or none. No plain token is kept, and none is in a message or in `Debug` output.
//!
//! Does not guarantee: that a principal has not expired ([`Principal::expired`] says so); that the file is the same on
//! all nodes.
//!
//! Assumes: the names that [`Access::by_certificate`] is given are those of a certificate that was verified.
//!
//! The Cargo feature `jwt` brings JWTs. `jwt_absent.rs` replaces them in a build without it, in which a file that names
//! an issuer has a fault.

mod allowance;
mod broken;
mod certificates;
mod current;
mod date;
mod followed;
#[cfg(feature = "jwt")]
mod jwt;
#[cfg(not(feature = "jwt"))]
mod jwt_absent;
mod limit;
mod pattern;
mod patterns;
mod principal;
mod principals;
mod quoted;
mod read;
mod revoked;
mod right;
mod subject;
mod target;
#[cfg(test)]
mod tests;
#[cfg(all(test, feature = "testing"))]
mod tests_broken;
#[cfg(test)]
mod tests_faults;
mod token;
mod verb;
mod warnings;

pub use allowance::{Allowance, Unlimited};
pub use broken::Broken;
pub use certificates::{CertPattern, CertificateNames};
pub use current::Current;
pub use date::Date;
pub use followed::{Followed, Look};
#[cfg(feature = "jwt")]
pub use jwt::{JwtFault, JwtProof};
#[cfg(not(feature = "jwt"))]
pub use jwt_absent::{JwtFault, JwtProof};
pub use limit::Limit;
pub use pattern::{OwnerPattern, Pattern};
pub use principal::{MAX_NAME_BYTES, Principal};
pub use principals::{Access, Shown};
pub use revoked::{Doors, NotCarriedOut, Revocation, Revoked, UnreadableRevocations};
pub use right::{Right, Scope};
pub use subject::Subject;
pub use target::{AccessOrder, Credential, MAX_CERTIFICATE_BYTES, Target};
pub use token::{NotAToken, Token, TokenDigest};
pub use verb::Verb;
