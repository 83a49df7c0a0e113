//! Each rule of the files and of the revocation list broken in turn: a test of this folder fails.

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
        ("HalfAFileIsRead", "followed::tests::a_file_that_is_being_written_is_not_read"),
        (
            "RevokedServed",
            "revoked::tests::who_is_revoked_is_so_until_that_ends_and_others_are_not",
        ),
        ("LastOneRevoked", "revoked::tests::a_principal_is_left_that_can_undo_it"),
        ("BackwardsListBelieved", "revoked::tests::a_store_that_lost_its_tail_ends_no_revocation"),
    ] {
        let test = format!("access::{test}");
        assert!(passes(&test, "None"), "{test} fails by itself");
        assert!(!passes(&test, broken), "{test} does not notice {broken}");
    }
}
