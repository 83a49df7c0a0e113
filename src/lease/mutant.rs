//! The rules, broken one at a time, so that the tests can show that they would notice.

/// The enumeration, and the list of all that is in it.
macro_rules! mutants {
    ($(#[$about:meta])* pub enum $name:ident { $($(#[$rule:meta])* $mutant:ident,)* }) => {
        $(#[$about])*
        pub enum $name {
            $($(#[$rule])* $mutant,)*
        }

        impl $name {
            /// Every one.
            pub const ALL: [Self; [$(Self::$mutant),*].len()] = [$(Self::$mutant),*];
        }
    };
}

mutants! {
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
        /// A registration on several keys is forgotten with its claim when the write of its grant is in doubt.
        ClaimKeptInDoubt,
        /// An acquire-any goes on to the next key while the write of a grant is in doubt.
        AnyGoesOnInDoubt,
        /// Whose write takes long waits for its outcome, however long.
        LateWriteAwaited,
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
        /// R8: a fence that failed opens a key that it is to keep shut.
        FailedFenceOpens,
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
        /// R1: the holder is told the whole ttl, as if its clock ran like the node's.
        DriftIgnored,
        /// R1: D is that of a record that was sent, whether or not it was committed.
        PromiseBySentRecord,
        /// §2: a stop of the clock that it did not count is not noticed.
        ClockStopIgnored,
        /// §2: others may promise by the clock that stood still, until the promises are void.
        PromisesVoidedAfterTheJump,
        /// R2: an administrator's order cuts the promises that still run.
        RevokeCutsPromises,
        /// §2: a reading of another's clock is paired with one of ours from before it was asked for.
        RivalCountsFromBeforeItsRead,
        /// R3: who finds a node dead writes its own instants into the record.
        TombstoneWithAuthorsInstants,
        /// R3: D of a dead home is taken from an older copy of its record.
        EndOfHomeFromOlderCopy,
        /// R6: the leases of a session are told of its end when its tombstone is sent, not when it is durable.
        SessionFreedBeforeTombstone,
        /// R6: a grant under a session is no heartbeat of it.
        GrantUnderEndingSession,
        /// R6: a node knows the leases that sessions keep by its own writes alone.
        BondsOfOthersUnheard,
        /// R6: leases of sessions whose grants a feed's gap hid are not looked for.
        BondsNotReadAnew,
        /// R6: sessions and members of pools whose end a feed's gap hid are not looked for.
        GhostsAfterGap,
        /// R7: a node promises before the store's own record counts it, so that a raise of the epoch does not see it.
        PromiseUnregistered,
        /// R7: a tenure, and so a session, goes on after its store went backwards.
        TenureOutlivesEpoch,
        /// R8: a fence that was being run when its node died is run by nobody else.
        FenceNotSucceeded,
        /// R10: after a restart every lease gets half of its ttl.
        RestartGraceHalved,
        /// §1: a write whose outcome is not known is sent again over whatever is there.
        RetriedBlindly,
        /// I4: a gap in the store's feed is not told.
        GapUnsaid,
        /// R7: numbers of a key begin anew after it was deleted. Of the simulator's store.
        TokenRestarts,
        /// I4: a change is published when its write is begun. Of the simulator's store.
        PublishedBeforeCommit,
        /// R1: a holder counts from the reply. Of the simulator's workers.
        ClientCountsFromReply,
        /// R1: a holder believes on after it sent a release. Of the simulator's workers.
        WindowOpenAfterRelease,
    }
}
