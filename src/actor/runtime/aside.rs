//! Work whose time grows with what a node knows. It does not run on the threads that serve leases.

use std::panic::resume_unwind;

use super::registry::Registry;

/// Does this work on a thread that serves no calls. It goes on if the caller goes away. Where all actors live in the
/// `LocalSet` of one task, as in simulations, it is done here.
pub(in crate::actor) async fn aside<T: Send + 'static>(
    registry: &Registry,
    work: impl FnOnce() -> T + Send + 'static,
) -> T {
    if registry.threads() == 0 {
        return work();
    }
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => resume_unwind(panic),
            // The runtime is shutting down.
            Err(_) => std::future::pending().await,
        },
    }
}
