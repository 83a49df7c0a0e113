//! The rules, broken one at a time, so that the tests can show that they would notice.

/// A broken variant of one rule of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mutant {
    /// R10: a rebuilt lease forgets that its predecessor may have promised.
    RestartWithEmptyPromises,
    /// R2: a rebuilt actor promises before it knows that no write of its predecessor is on its way.
    PromiseUnconfirmed,
    /// R9: a parked caller is granted without asking whether it is still there.
    GrantToACallerThatLeft,
    /// R1: the grant is answered when its write is sent, not when it is durable.
    ReplyBeforeDurable,
    /// R2: a heartbeat is absorbed while the write that ends its tenure is in flight.
    HeartbeatAbsorbedWhileEnding,
    /// R2: a heartbeat is absorbed under the old ttl while the write that shortens it is in flight.
    HeartbeatAbsorbedWhileShortening,
    /// R2, R5: a floor is kept in memory only.
    FloorInMemoryOnly,
    /// R2: the longer ttl is promised before it is written.
    PromiseBeforeLongerTtl,
    /// R2: the home ends a tenure at its inherited floor alone.
    ExpiryIgnoresOwnPromises,
    /// R11: revival without regard to how the tenure ended.
    RevivalOfAnyEnd,
    /// A registration on several keys is granted on each.
    ClaimIgnored,
    /// R1: the node promises after its own record ran out.
    PromiseAfterUntil,
    /// R3: a lease is taken over when its home's record ran out, not when it is terminal.
    TakeOverWithoutTombstone,
    /// R5: the adopter forgets what the dead home may have promised.
    AdoptionWithoutFloor,
    /// R5: a repeated request is answered by a node that is not the home.
    RepeatAnsweredElsewhere,
    /// R5: a heartbeat is answered by a node that is not the home.
    HeartbeatAnsweredElsewhere,
    /// R6: a session's key is granted, or its tenure revived, after its end.
    SessionRises,
    /// R8: the write that ends a tenure does not name its fences.
    FenceLost,
    /// R8: a key is granted while a fence before the grant is not confirmed.
    GrantWhileFencing,
    /// R11: a tenure whose fence has begun is revived.
    RevivalAfterFence,
    /// The lock-delay after an expiry or the end of a session is left out.
    LockDelaySkipped,
    /// R2: who was asked to hand over, and is ordered to end, loses the lease before its last promise ran out.
    HandoverCutsPromises,
    /// R7: a tenure is granted under the token of the tenure before.
    TokenReused,
}

impl Mutant {
    /// Every one.
    pub const ALL: [Self; 23] = [
        Self::RestartWithEmptyPromises,
        Self::PromiseUnconfirmed,
        Self::GrantToACallerThatLeft,
        Self::ReplyBeforeDurable,
        Self::HeartbeatAbsorbedWhileEnding,
        Self::HeartbeatAbsorbedWhileShortening,
        Self::FloorInMemoryOnly,
        Self::PromiseBeforeLongerTtl,
        Self::ExpiryIgnoresOwnPromises,
        Self::RevivalOfAnyEnd,
        Self::ClaimIgnored,
        Self::PromiseAfterUntil,
        Self::TakeOverWithoutTombstone,
        Self::AdoptionWithoutFloor,
        Self::RepeatAnsweredElsewhere,
        Self::HeartbeatAnsweredElsewhere,
        Self::SessionRises,
        Self::FenceLost,
        Self::GrantWhileFencing,
        Self::RevivalAfterFence,
        Self::LockDelaySkipped,
        Self::HandoverCutsPromises,
        Self::TokenReused,
    ];
}
