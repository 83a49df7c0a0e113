//! How many signatures of JWTs may be verified for callers who have not shown who they are.

/// The verifications that are left to callers that share an address or a connection.
pub trait Allowance {
    /// Whether one more signature may be verified.
    fn is_left(&self) -> bool;

    /// A signature was verified, and was wrong.
    fn failed(&self);
}

/// Nothing limits the verifications, as where no stranger calls.
pub struct Unlimited;

impl Allowance for Unlimited {
    fn is_left(&self) -> bool {
        true
    }

    fn failed(&self) {}
}
