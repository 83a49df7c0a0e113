//! Variants of the rights that break one of them each, so that tests can show that they notice.

#[cfg(feature = "testing")]
#[path = "../../tests/doors/broken_access.rs"]
mod door;

/// A variant that breaks one right. Never active outside of tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    /// A prefix counts wherever it is in the key.
    PrefixAnywhere,
    /// A right to one key counts as one to all keys that begin with its name.
    KeyAsPrefix,
    /// Of several URIs of a certificate, the first one counts.
    SeveralUris,
    /// New names may have characters that are not seen.
    NewNamesUnchecked,
    /// Whoever names an owner acts for it.
    OwnerUnchecked,
    /// A list leaves out what the caller may not read after it was cut into pages.
    FilterAfterPaging,
    /// A request id is that of any principal.
    MarkWithoutPrincipal,
    /// The proof on a forwarded call names no receiver.
    SealWithoutReceiver,
    /// The proof on a forwarded call is good for any run of its receiver.
    SealOfAnyRun,
    /// A certificate counts for as long as its session is resumed or its connection is open.
    CertificateWithoutEnd,
    /// A JWT that is for somebody else is good here too.
    JwtOfAnyAudience,
    /// A stranger's JWTs are verified however many there are.
    VerificationsWithoutBound,
    /// Messages of a stream are not charged.
    FreeMessages,
    /// A call that waits counts as one place, however many keys it waits at.
    WaitsCountCalls,
    /// A list is charged by what comes out of it.
    LooksAreFree,
    /// A principal may take any number of new keys.
    NewKeysWithoutBound,
    /// Every refused call has a line of its own in the audit log.
    RefusalsWithoutBound,
    /// The end of the audit log is the last line that is there.
    CutEndBelieved,
    /// The revocation list has no effect.
    RevokedServed,
    /// An order may revoke the last principal that could undo it.
    LastOneRevoked,
    /// The list of a store that lost its tail replaces the list in force.
    BackwardsListBelieved,
    /// A file is read as soon as it changed, although it may be half of what is being written.
    HalfAFileIsRead,
}

impl Broken {
    /// Whether this variant is active.
    #[must_use]
    pub fn is_active(self) -> bool {
        #[cfg(feature = "testing")]
        return door::is_active(&format!("{self:?}"));
        #[cfg(not(feature = "testing"))]
        false
    }
}
