//! Broken variants of the rules (docs/protocol.md), each with the test that notices it. `nodes` stands for
//! `nodes::mutants`; and of `tests/model`: `model` for `model::broken_rules_of_the_core_are_found`, where no other
//! test is named, and for `model::broken_rules_of_fences_and_lock_delays_are_found`, `duo` for
//! `duo::broken_rules_of_sessions_are_found`, `pair` for `pair::broken_rules_of_several_nodes_are_found`, and
//! `whole` for `pair::whole::broken_rules_of_sessions_and_fences_on_two_nodes_are_found`.
//!
//! | broken rule | noticed by |
//! | --- | --- |
//! | restart with empty S | `restart_with_empty_promises_is_noticed`, `model` |
//! | a rebuilt actor promises before its predecessor's write is settled | `promise_unconfirmed_is_noticed` |
//! | grant to a caller that left | `grant_to_a_caller_that_left_is_noticed`, `model` |
//! | reply before the write is durable | `reply_before_durable_is_noticed`, `model`, `pair` |
//! | heartbeat absorbed while the ending write is in flight | `heartbeat_absorbed_while_ending_is_noticed`, `model` |
//! | a step reads S and leaves the promise cell open | `a_cell_that_a_step_leaves_open_is_noticed`, `model` |
//! | the promise cell opened again beside the ending write | `a_cell_that_is_open_beside_the_end_is_noticed`, `model` |
//! | the promise cell of another incarnation | `nodes::beside`: `a_cell_of_another_incarnation_is_noticed` |
//! | the promise cell of a dead actor | `a_cell_that_outlives_its_actor_is_noticed` |
//! | floor kept in memory only | `floor_in_memory_only_is_noticed` |
//! | a longer ttl promised before it is written | `promise_before_longer_ttl_is_noticed` |
//! | expiry at the inherited floor alone | `expiry_that_ignores_own_promises_is_noticed`, `model`, `pair` |
//! | revival without regard to the end | `revival_of_any_end_is_noticed` |
//! | a registration on several keys granted on each | `claim_ignored_is_noticed` |
//! | a repeated call is the last in the queue | `place_forgotten_is_noticed` |
//! | who does not hand over loses its lease before its last promise ran out | `handover_that_cuts_promises_is_noticed` |
//! | a token withdraws the offer that followed its tenure | `ending`: `a_token_that_withdraws_an_offer_is_noticed` |
//! | a late give-back of a lease that a repeated call was told of | `nodes::adoption`: `a_late_give_back_ends_no_lease_that_a_repeated_call_was_told_of` |
//! | token of the tenure before | `token_reused_is_noticed`, `model`, `pair` |
//! | rival counts from before its read | `nodes`: `a_rival_that_counts_from_before_its_read_is_noticed` |
//! | node promises after D | `nodes`: `a_promise_after_the_end_of_the_nodes_record_is_noticed`, `pair`, `whole` |
//! | take-over without tombstone | `nodes`: `a_take_over_without_a_tombstone_is_noticed`, `whole` |
//! | adoption without F | `nodes`: `an_adoption_without_floor_is_noticed`, `a_drained_node_that_goes_on_answering_is_covered_by_the_floor_alone`, `pair` |
//! | floor kept in memory only, over two adoptions | `nodes`: `a_floor_kept_in_memory_only_is_noticed` |
//! | repeated request id answered by another node | `nodes`: `a_repeated_request_answered_by_another_node_is_noticed`, `pair` |
//! | heartbeat answered by another node | `nodes`: `a_heartbeat_answered_by_another_node_is_noticed`, `pair` |
//! | tombstone with its author's U | `nodes`: `a_tombstone_with_its_authors_instants_is_noticed`, `pair`: `broken_readings_of_the_nodes_are_found` |
//! | D of the home from an older copy | `nodes`: `the_end_of_a_dead_node_from_an_older_copy_is_noticed`, `pair`: `the_end_of_a_dead_node_from_an_older_copy_is_found` |
//! | conditional write retried blindly | `nodes`: `a_conditional_write_that_is_retried_blindly_is_noticed` |
//! | heartbeat absorbed beside the write that shortens | `nodes`: `a_heartbeat_absorbed_beside_the_write_that_shortens_is_noticed` |
//! | token restarts after deletion | `token_that_restarts_after_deletion_is_noticed` |
//! | event published before commit | `event_published_before_commit_is_noticed` |
//! | a session rises after its end | `sessions::mutants`: `a_session_that_rises_is_noticed`, `duo`, `whole` |
//! | a tenure, or a session, goes on after its store went backwards | `heartbeat`: `a_tenure_that_outlives_its_epoch_is_noticed`, `sessions::mutants`: `a_session_that_outlives_its_epoch_is_noticed` |
//! | a session's lease freed on observed expiry | `sessions::mutants`: `a_lease_that_is_freed_on_observed_expiry_is_noticed`, `duo`, `whole` |
//! | grant under a session whose end is in flight | `sessions::mutants`: `a_grant_under_a_session_whose_end_is_in_flight_is_noticed`, `duo` |
//! | fence lost between two writes | `fence_lost_is_noticed`, `model`, `whole` |
//! | grant while a fence is not confirmed | `grant_while_fencing_is_noticed`, `model`, `whole` |
//! | revival after a fence | `revival_after_fence_is_noticed`, `model` |
//! | lock-delay skipped on expiry | `lock_delay_skipped_is_noticed`, `model` |
//! | minimum hold that ends with its tenure | `minimum_hold_cut_is_noticed`, `model` |
//! | minimum hold of a grant that no answer named | `min_hold`: `a_grant_that_no_answer_named_begins_none` |
//! | a key granted by the policy that was in force when its caller began to wait | `policy_change`: `a_waiter_is_not_granted_a_key_that_is_no_longer_a_lease_of_its_name` |
//! | client counts from the reply | `model`: `a_client_that_counts_from_the_reply_is_found` |
//! | window left open after sending release | `model`: `a_client_whose_window_stays_open_after_its_release_is_found` |

use tenure::lease::Mutant;

use crate::core::{harness::*, walk::first_objection};

/// The invariant that a walk under the mutant was the first to break.
#[track_caller]
fn noticed(mutant: Mutant, invariants: &[&str]) {
    let objection = first_objection(mutant).expect_err("no walk noticed it");
    let named = invariants.iter().any(|invariant| objection.starts_with(invariant));
    assert!(named, "noticed for another reason: {objection}");
}

#[test]
fn restart_with_empty_promises_is_noticed() {
    noticed(Mutant::RestartWithEmptyPromises, &["I1", "R2"]);
}

#[test]
fn promise_unconfirmed_is_noticed() {
    noticed(Mutant::PromiseUnconfirmed, &["I1", "I3"]);
}

#[test]
fn grant_to_a_caller_that_left_is_noticed() {
    noticed(Mutant::GrantToACallerThatLeft, &["R9"]);
}

#[test]
fn reply_before_durable_is_noticed() {
    noticed(Mutant::ReplyBeforeDurable, &["I3"]);
}

#[test]
fn heartbeat_absorbed_while_ending_is_noticed() {
    noticed(Mutant::HeartbeatAbsorbedWhileEnding, &["I1", "I3", "R2"]);
}

#[test]
fn a_cell_that_a_step_leaves_open_is_noticed() {
    noticed(Mutant::CellOpenInAStep, &["I1", "I3", "R2"]);
}

#[test]
fn a_cell_that_is_open_beside_the_end_is_noticed() {
    noticed(Mutant::CellOpenWhileEnding, &["I1", "I3", "R2"]);
}

#[test]
fn a_cell_that_outlives_its_actor_is_noticed() {
    noticed(Mutant::CellOutlivesItsActor, &["I1", "I3", "R2"]);
}

#[test]
fn floor_in_memory_only_is_noticed() {
    noticed(Mutant::FloorInMemoryOnly, &["I1", "R2"]);
}

#[test]
fn promise_before_longer_ttl_is_noticed() {
    noticed(Mutant::PromiseBeforeLongerTtl, &["I1", "R2"]);
}

#[test]
fn expiry_that_ignores_own_promises_is_noticed() {
    noticed(Mutant::ExpiryIgnoresOwnPromises, &["I1", "R2"]);
}

#[test]
fn handover_that_cuts_promises_is_noticed() {
    noticed(Mutant::HandoverCutsPromises, &["I1", "R2"]);
}

#[test]
fn revival_of_any_end_is_noticed() {
    noticed(Mutant::RevivalOfAnyEnd, &["R11"]);
}

#[test]
fn token_reused_is_noticed() {
    noticed(Mutant::TokenReused, &["I2"]);
}

#[test]
fn fence_lost_is_noticed() {
    noticed(Mutant::FenceLost, &["I5", "R8"]);
}

#[test]
fn grant_while_fencing_is_noticed() {
    noticed(Mutant::GrantWhileFencing, &["I5"]);
}

#[test]
fn revival_after_fence_is_noticed() {
    noticed(Mutant::RevivalAfterFence, &["R11"]);
}

#[test]
fn lock_delay_skipped_is_noticed() {
    noticed(Mutant::LockDelaySkipped, &["lock-delay"]);
}

#[test]
fn minimum_hold_cut_is_noticed() {
    noticed(Mutant::MinimumHoldCut, &["minimum hold"]);
}

/// How many of two keys one registration on both is granted.
fn grants_to_one_registration(mutant: Option<Mutant>) -> usize {
    let (mut one, mut two) = (Bench::breaking(mutant), Bench::breaking(mutant));
    let (a, b) = (one.done(acquire("a")), two.done(acquire("b")));
    let request = one.named(acquire("any").waiting_until(START + ms(60_000)).into());
    let any = Who::new(START, request);
    one.ask_as(&any);
    two.ask_as(&any);
    one.ask(release(a.proof()));
    two.ask(release(b.proof()));
    one.settle();
    two.settle();
    // The judge of each key counts the answers too.
    (one.verdict, two.verdict) = (Ok(()), Ok(()));
    [&one, &two].iter().filter(|bench| bench.owner().as_deref() == Some("any")).count()
}

/// Who is granted a key for which a caller waited that went away and repeated its call after another one came.
fn owner_after_a_repeated_call(mutant: Option<Mutant>) -> Option<String> {
    let mut bench = Bench::breaking(mutant);
    let waiting = |name| acquire(name).waiting_until(START + ms(60_000));
    let a = bench.done(acquire("a"));
    let first = bench.ask(waiting("first"));
    bench.run(100);
    bench.ask(waiting("second"));
    bench.run(100);
    first.leaves();
    bench.ask(waiting("first").since(START));
    bench.done(release(a.proof()));
    bench.settle();
    bench.owner()
}

#[test]
fn place_forgotten_is_noticed() {
    assert_eq!(owner_after_a_repeated_call(None).as_deref(), Some("first"));
    let broken = owner_after_a_repeated_call(Some(Mutant::PlaceForgotten));
    assert_eq!(broken.as_deref(), Some("second"));
}

#[test]
fn claim_ignored_is_noticed() {
    assert_eq!(grants_to_one_registration(None), 1);
    assert_eq!(grants_to_one_registration(Some(Mutant::ClaimIgnored)), 2);
}

/// Who has each of two keys, on both of which one registration waited, when the write that grants it the first one
/// is in doubt for a while, and did happen.
fn owners_after_a_doubt(mutant: Option<Mutant>) -> [Option<String>; 2] {
    let (mut one, mut two) = (Bench::breaking(mutant), Bench::breaking(mutant));
    let (a, b) = (one.done(acquire("a")), two.done(acquire("b")));
    let request = one.named(acquire("any").waiting_until(START + ms(60_000)).into());
    let any = Who::registration(START, request);
    one.ask_as(&any);
    two.ask_as(&any);
    one.ask(release(a.proof()));
    one.lose_reply(true);
    one.run(1_000);
    two.ask(release(b.proof()));
    two.settle();
    (one.verdict, two.verdict) = (Ok(()), Ok(()));
    [one.owner(), two.owner()]
}

#[test]
fn claim_kept_in_doubt_is_noticed() {
    assert_eq!(owners_after_a_doubt(None), [Some("any".to_owned()), None]);
    assert_eq!(owners_after_a_doubt(Some(Mutant::ClaimKeptAfterUnknown)), [None, None]);
}

#[test]
fn token_that_restarts_after_deletion_is_noticed() {
    let (mut bench, a) = held_by("a");
    bench.faults.deletes_free_keys = true;
    bench.done(release(a.proof()));
    bench.restart(true, 0);
    bench.done(acquire("b"));
    let objection = std::mem::replace(&mut bench.verdict, Ok(())).unwrap_err();
    assert!(objection.starts_with("I2"), "{objection}");
}

#[test]
fn event_published_before_commit_is_noticed() {
    for broken in [false, true] {
        let mut bench = Bench::new();
        bench.faults.publishes_early = broken;
        bench.ask(acquire("a"));
        bench.refuse();
        bench.judge_events();
        let verdict = std::mem::replace(&mut bench.verdict, Ok(()));
        assert_eq!(verdict.is_err(), broken, "{verdict:?}");
    }
}
