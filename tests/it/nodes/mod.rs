//! Several nodes on one store, seen through their doors: any node answers for any key, a dead one costs
//! seconds, what subscribers are told is the same everywhere. Each test runs on NATS and on DynamoDB.

mod addresses;
mod adoption;
mod any;
pub mod events;
mod forget;
mod frozen;
mod gate;
mod handover;
mod home;
mod loads;
mod overload;
pub mod pair;
mod permits;
mod places;
mod policy_keys;
mod pool_orders;
mod pools;
mod routers;
mod rules;
mod scale;
mod sessions;
mod short_ttl;
mod status;
mod waiting;
mod warming;
mod windows;

/// One test for each store.
macro_rules! on_both_stores {
    ($($test:ident),* $(,)?) => {$(
        mod $test {
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn nats() {
                super::$test(crate::nodes::pair::Pair::nats().await).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn dynamodb() {
                super::$test(crate::nodes::pair::Pair::dynamodb().await).await;
            }
        }
    )*};
}
pub(crate) use on_both_stores;
