//! A principal at all its limits, and the heartbeats of another one, at the size that is claimed.

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_principal_at_all_its_limits_at_most_doubles_the_tail_of_others_heartbeats() {
    crate::access::isolation::show().await;
}
