//! Why a JWT is nobody's.

/// The longest JWT, in bytes.
pub(super) const MAX_BYTES: usize = 8 * 1024;

/// Why a JWT does not show who calls. The caller is told none of it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JwtFault {
    /// It is longer than a JWT may be.
    #[error("is longer than {most} bytes", most = MAX_BYTES)]
    TooLong,
    /// It is not three parts in base64url.
    #[error("is not three parts in base64url")]
    Form,
    /// Its header cannot be read, or names another algorithm.
    #[error("has a header that cannot be read, or whose alg is none of RS256, ES256 and EdDSA")]
    Header,
    /// Its header demands what this version does not know.
    #[error("has a header with crit")]
    Critical,
    /// A claim is missing, or has a wrong type.
    #[error("has claims that cannot be read: {0}")]
    Claims(String),
    /// The file has no such issuer.
    #[error("is of an issuer (iss) that the access file does not name")]
    UnknownIssuer,
    /// The issuer has no key with its `kid` and `alg`.
    #[error("names a key (kid, alg) that the file of its issuer does not have")]
    UnknownKey,
    /// Its issuer has several keys, and it names none.
    #[error("names no key (kid), and its issuer has several")]
    NoKey,
    /// Too many JWTs with wrong signatures came from its address, and it was not verified.
    #[error("was not verified: too many JWTs with wrong signatures come from its address")]
    Crowded,
    /// No key of its issuer verifies its signature.
    #[error("has a signature that is not by a key of its issuer")]
    Signature,
    /// It is for somebody else.
    #[error("is for another audience (aud)")]
    Audience,
    /// Its time is over.
    #[error("has expired (exp)")]
    Expired,
    /// Its time has not begun.
    #[error("is not valid yet (nbf, iat)")]
    NotYet,
    /// It is valid for longer than the file allows.
    #[error("is valid for longer than max_age of its issuer")]
    TooLongValid,
    /// It is valid, and of nobody whom the file knows.
    #[error("is valid, and no principal has its subject (sub) {sub:?} of {issuer:?}")]
    UnknownSubject {
        /// Its issuer.
        issuer: Box<str>,
        /// Its subject.
        sub: Box<str>,
    },
}
