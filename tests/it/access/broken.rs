//! Each right broken in turn: a test notices.

use super::{property::run, replay};

/// Runs seeds until one shows a difference from the model.
async fn noticed(broken: &str, seeds: u64) {
    for seed in 1..=seeds {
        let env = [("TENURE_TEST_BROKEN_ACCESS", broken)];
        if let Err(how) = run(seed, 1_500, &env).await {
            println!("{broken}: {how}");
            return;
        }
    }
    panic!("{seeds} seeds did not notice {broken}");
}

#[tokio::test]
async fn a_prefix_that_counts_anywhere_is_noticed() {
    noticed("PrefixAnywhere", 5).await;
}

#[tokio::test]
async fn a_right_to_one_key_that_counts_as_a_prefix_is_noticed() {
    noticed("KeyAsPrefix", 5).await;
}

#[tokio::test]
async fn an_owner_for_whom_anybody_acts_is_noticed() {
    noticed("OwnerUnchecked", 5).await;
}

#[tokio::test]
async fn a_list_that_is_filtered_after_paging_is_noticed() {
    noticed("FilterAfterPaging", 5).await;
}

#[tokio::test]
async fn a_request_id_of_any_principal_is_noticed() {
    noticed("MarkWithoutPrincipal", 5).await;
}

#[tokio::test]
async fn a_jwt_for_another_audience_that_is_let_in_is_noticed() {
    let env = [("TENURE_TEST_BROKEN_ACCESS", "JwtOfAnyAudience")];
    assert_ne!(super::jwt::status_for_another_audience(&env).await, 401);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_proof_that_names_no_receiver_is_noticed() {
    let env = [("TENURE_TEST_BROKEN_ACCESS", "SealWithoutReceiver")];
    let how = replay::run(&env).await.expect_err("the sender believes its own call");
    assert!(how.starts_with("the sender believes it"), "{how}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_proof_that_is_good_for_any_run_is_noticed() {
    let env = [("TENURE_TEST_BROKEN_ACCESS", "SealOfAnyRun")];
    let how = replay::restarted(&env).await.expect_err("a later run believes it");
    assert!(how.starts_with("it is believed after restart"), "{how}");
}
