//! Mutants: variants of the rules that break one of them each, so that the tests can show that they notice.

/// The rules as they apply: all of them, or all but the one that a test breaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    #[cfg(any(test, feature = "testing"))]
    broken: Option<Mutant>,
}

impl Rules {
    /// The rules, one of which is broken on purpose.
    #[cfg(any(test, feature = "testing"))]
    #[must_use]
    pub const fn breaking(broken: Option<Mutant>) -> Self {
        Self { broken }
    }

    /// Whether this mutant is active. Never outside of tests.
    #[cfg(any(test, feature = "testing"))]
    pub(super) fn breaks(self, mutant: Mutant) -> bool {
        self.broken == Some(mutant)
    }

    /// Whether this mutant is active. Never outside of tests.
    #[cfg(not(any(test, feature = "testing")))]
    #[inline]
    pub(super) const fn breaks(self, _: Mutant) -> bool {
        false
    }
}

/// Defines the enumeration and the list of its members.
macro_rules! mutants {
    ($(#[$about:meta])* pub enum $name:ident { $($(#[$rule:meta])* $mutant:ident,)* }) => {
        $(#[$about])*
        pub enum $name {
            $($(#[$rule])* $mutant,)*
        }

        impl $name {
            /// Every mutant, in the order of their declaration.
            pub const ALL: [Self; [$(Self::$mutant),*].len()] = [$(Self::$mutant),*];
        }
    };
}

mutants! {
    /// A variant of the code that breaks one rule of the protocol.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum Mutant {
        /// R10: a rebuilt lease forgets that its predecessor may have promised.
        RestartWithEmptyPromises,
        /// R10: a rebuilt actor promises before it knows that no write of its predecessor is in flight.
        PromiseUnconfirmed,
        /// R10: an actor does not hear of a write that an earlier actor of its key left, and that landed late.
        LeftWriteUnheard,
        /// R9: a waiting caller is granted the key without a check that it is still there.
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
        /// R2: the home node ends a tenure at its inherited floor alone.
        ExpiryIgnoresOwnPromises,
        /// R11: a tenure is revived regardless of how it ended.
        RevivalOfAnyEnd,
        /// R9: a registration on several keys is granted each of them.
        ClaimIgnored,
        /// R9: a registration on several keys is forgotten with its claim while the write of its grant has an unknown
        /// outcome.
        ClaimKeptAfterUnknown,
        /// R9: a call that is repeated under its request id is the last in the queue.
        PlaceForgotten,
        /// R5: an acquire-any goes on to the next key while the write of a grant has an unknown outcome.
        AnyGoesOnAfterUnknown,
        /// §1: a caller whose write takes long waits for its outcome without a bound.
        LateWriteAwaited,
        /// R1: the node promises after its own record ran out.
        PromiseAfterUntil,
        /// R3, R4: a lease is taken over when its home node's record ran out, not when that record is terminal.
        TakeOverWithoutTombstone,
        /// R5: the adopter forgets what the dead home node may have promised.
        AdoptionWithoutFloor,
        /// R5: a repeated request is answered by a node that is not the home node.
        RepeatAnsweredElsewhere,
        /// R5: a heartbeat is answered by a node that is not the home node.
        HeartbeatAnsweredElsewhere,
        /// R6: a session's key is granted, or its tenure revived, after its end.
        SessionGrantedAgain,
        /// R8: the write that ends a tenure does not name its fences.
        FenceLost,
        /// R8: a fence that failed opens a key that it must keep shut.
        FailedFenceOpens,
        /// R8: a key is granted while a fence before the grant is not confirmed.
        GrantWhileFencing,
        /// R11: a tenure whose fence has begun is revived.
        RevivalAfterFence,
        /// The lock-delay after an expiry or after the end of a session is left out.
        LockDelaySkipped,
        /// The minimum hold ends with its tenure.
        MinimumHoldCut,
        /// The minimum hold of a grant that no answer named keeps the key shut.
        UnheardHoldKept,
        /// R2: a holder that was asked to hand over and is then revoked loses the lease before its last promise ran
        /// out.
        HandoverCutsPromises,
        /// R7: a tenure is granted under the token of the previous tenure.
        TokenReused,
        /// R2: a step of the actor reads S in the promise cell and leaves the cell open.
        CellOpenInAStep,
        /// R2: the promise cell is opened again beside the write that ends its tenure.
        CellOpenWhileEnding,
        /// R1: a promise cell promises in the name of another incarnation than the one that opened it.
        CellOfAnotherIncarnation,
        /// R10: the promise cell of an actor that died stays open.
        CellOutlivesItsActor,
        /// R1: the holder is told the whole ttl, as if its clock ran at the same rate as the node's.
        DriftIgnored,
        /// R1: D is taken from a record that was sent, whether or not it was committed.
        PromiseBySentRecord,
        /// §2: a hidden stop of the node's clock goes unnoticed.
        ClockStopIgnored,
        /// §2: after a hidden stop, other calls may still promise by the clock that stood still until the stop is
        /// handled.
        JumpHandledAfterTheReading,
        /// R2: a revocation cuts the promises that still run.
        RevokeCutsPromises,
        /// R11: a revocation that names a tenure by its token withdraws the offer that followed the tenure.
        TokenWithdrawsOffer,
        /// §2: a reading of another clock is paired with a reading of this node's clock from before the record was
        /// asked for.
        RivalCountsFromBeforeItsRead,
        /// §3: a node that finds another one dead writes its own instants into that node's record.
        TombstoneWithAuthorsInstants,
        /// R4: D of a dead home node is taken from an older copy of its record.
        EndOfHomeFromOlderCopy,
        /// R6: the leases of a session are told of its end when its tombstone is sent, not when it is durable.
        SessionFreedBeforeTombstone,
        /// R6: a grant under a session absorbs no heartbeat of the session.
        GrantUnderEndingSession,
        /// R6: a call names a lease that was revoked, and ended, after the call was granted it.
        EndDuringACallUnseen,
        /// R6: a node knows only from its own writes which leases a session keeps.
        OthersSessionLeasesNotIndexed,
        /// R6: leases of sessions whose grants were hidden by a gap in the feed are not searched for.
        SessionLeasesNotReread,
        /// R6: sessions and pool members whose end was hidden by a gap in the feed are not searched for.
        EndsNotSearchedAfterGap,
        /// An order for a pool is acknowledged once the pool's record is leased for it, not when it is stored.
        OrderUnstored,
        /// A call that needs several permits of a key waits for any of them, whichever it has.
        AnyPermitAwaited,
        /// A key is granted by the policy that was in force when its caller began to wait.
        FormerPolicyObeyed,
        /// A call keeps each of its permits when their number changes.
        AnyPermitKept,
        /// A call for all permits of a key is answered with their former number.
        FormerNumberAnswered,
        /// A call for a list of keys that is refused keeps those that it had taken.
        PartOfAListKept,
        /// A repeated call that is refused gives back what its caller holds by the first call.
        RepeatGivenBack,
        /// A repeated call is told of what the refused call for a list before it has yet to release.
        RefusedListRepeated,
        /// A node releases what a call that it refused had, although another node told a repeated call of it.
        GivenBackElsewhere,
        /// A member is granted a key of its pool whose policy requires labels that it does not have.
        RequireIgnored,
        /// A frozen pool is balanced, and its free keys go to any member.
        FreezeIgnored,
        /// A pool is balanced while an upgrade is in progress.
        UpgradeIgnored,
        /// After a mass failure, the other members get more than their former shares.
        GuardIgnored,
        /// A member that is not ready has a share.
        UnreadyCounted,
        /// A cordoned member gets further keys.
        CordonIgnored,
        /// A paused key goes to a member.
        PauseIgnored,
        /// The keys of a member that is gone are granted to others before its rejoin window is over.
        RejoinWindowSkipped,
        /// A holder is asked for a key before the next one is prepared for it.
        PreparationSkipped,
        /// More keys are prepared for at a time than the policy allows.
        PreparationsUnbounded,
        /// By load, a lease moves although that makes nothing more even.
        MovesWithoutGain,
        /// R7: a node promises before it has registered in the store's own record, so a raise of the epoch does not see
        /// it.
        PromiseUnregistered,
        /// R7: a tenure, and so a session, goes on after the store went backwards.
        TenureOutlivesEpoch,
        /// R7: a pool keeps a higher token in memory after the store forgot it.
        PoolRemembersLostTokens,
        /// R7: the count of a principal keeps a higher token in memory after the store forgot it.
        QuotaRemembersLostTokens,
        /// R8: when a node dies while it runs a fence, no other node runs that fence.
        FenceNotTakenOver,
        /// R10: after a restart, every lease gets half of its ttl.
        RestartGraceHalved,
        /// §1: a write of unknown outcome is sent again over whatever the store then holds.
        RetriedBlindly,
        /// I4: a gap in the store's feed is not reported.
        GapNotReported,
        /// R7: the numbers of a key begin again after it was deleted. This mutant is in the simulator's store.
        TokenRestarts,
        /// R12: whoever knows the name of an owner, or a lease id, acts for the tenure of another principal.
        AnyPrincipalActs,
        /// I4: a change is published when its write begins. This mutant is in the simulator's store.
        PublishedBeforeCommit,
        /// R1: a holder counts from the reply. This mutant is in the simulator's workers.
        ClientCountsFromReply,
        /// R1: a holder keeps its window open after it sent a release. This mutant is in the simulator's workers.
        WindowOpenAfterRelease,
    }
}
