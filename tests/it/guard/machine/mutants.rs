//! Broken variants of the guard's rules, each with the rule that the judge names.

use tenure::worker::guard::Mutant;

use super::walk::first_objection;

#[track_caller]
fn noticed(mutant: Mutant, rules: &[&str]) {
    let objection = first_objection(mutant).expect_err("no walk noticed it");
    let named = rules.iter().any(|rule| objection.starts_with(rule));
    assert!(named, "noticed for another reason: {objection}");
}

macro_rules! noticed {
    ($($name:ident: $mutant:ident by $($rule:literal)|+;)*) => {
        $(#[test]
        fn $name() {
            noticed(Mutant::$mutant, &[$($rule),+]);
        })*
    };
}

noticed! {
    start_without_deactivation_is_noticed: StartWithoutDeactivation by "G6";
    a_campaign_while_unhealthy_is_noticed: CampaignUnhealthy by "G6";
    a_confirmation_by_an_old_check_is_noticed: ConfirmByOldCheck by "G4";
    a_confirmation_less_is_noticed: ConfirmOnceLess by "G4";
    an_activation_despite_its_fence_is_noticed: ActivateDespiteFence by "G4";
    an_activation_without_room_is_noticed: ActivateWithoutRoom by "G4";
    a_will_after_the_activation_is_noticed: WillAfterActivation by "G7";
    a_will_that_is_not_renewed_is_noticed: WillNotRenewed by "G7";
    a_deactivation_at_the_deadline_is_noticed: DeactivateAtDeadline by "G1" | "G2";
    a_release_before_the_deactivation_is_noticed: ReleaseBeforeDeactivation by "G5";
    a_release_after_a_failed_deactivation_is_noticed: ReleaseAfterFailedDeactivation by "G5";
    a_failed_deactivation_that_is_believed_is_noticed: DeactivateOnce by "G5" | "G6" | "G7";
    a_missing_alarm_is_noticed: NoAlarmInTime by "G2";
    a_loss_that_is_ignored_is_noticed: LossIgnored by "G1" | "G4" | "G5";
    failures_that_are_never_forgotten_are_noticed: FailuresNeverForgotten by "G9";
    a_missing_rest_is_noticed: NoRest by "G6";
    an_exit_without_deactivation_is_noticed: ExitWithoutDeactivation by "G10";
    an_exit_without_release_is_noticed: ExitWithoutRelease by "G10";
    a_will_that_ran_unnoticed_is_noticed: WillRanIgnored by "G11";
    an_unwanted_lease_that_is_kept_is_noticed: KeepUnwanted by "G4" | "G5";
}
