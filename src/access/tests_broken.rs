//! Each rule of the files, of the revocation list, of new keys and of the audit log broken in turn: a unit test fails.

use std::process::Command;

/// Runs a test in a process of its own, with this rule broken. Returns whether it passed.
fn passes(test: &str, broken: &str) -> bool {
    let program = std::env::current_exe().expect("the program of the tests");
    let ran = Command::new(program)
        .args(["--exact", test])
        .env("TENURE_TEST_BROKEN_ACCESS", broken)
        .output()
        .expect("it runs");
    let said = String::from_utf8_lossy(&ran.stdout).into_owned();
    assert!(said.contains("running 1 test"), "{test}: {said}");
    ran.status.success()
}

#[test]
fn a_broken_rule_is_noticed() {
    for (broken, test) in [
        ("HalfAFileIsRead", "access::followed::tests::a_file_that_is_being_written_is_not_read"),
        (
            "RevokedServed",
            "access::revoked::tests::who_is_revoked_is_so_until_that_ends_and_others_are_not",
        ),
        ("LastOneRevoked", "access::revoked::tests::a_principal_is_left_that_can_undo_it"),
        (
            "BackwardsListBelieved",
            "access::revoked::tests::as_many_new_orders_as_were_lost_end_no_revocation",
        ),
        ("NewKeysWithoutBound", "manager::new_keys::tests::no_hour_has_more_than_the_limit"),
        (
            "RefusalsWithoutBound",
            "telemetry::audit::tests::neither_strangers_nor_principals_push_the_lines_of_others_out",
        ),
        (
            "CutEndBelieved",
            "telemetry::audit::tests::an_end_that_was_cut_off_shows_at_the_next_start_and_no_number_is_used_twice",
        ),
    ] {
        assert!(passes(test, "None"), "{test} fails by itself");
        assert!(!passes(test, broken), "{test} does not notice {broken}");
    }
}
