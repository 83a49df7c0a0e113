//! Several nodes on one store, seen through their doors: any node answers for any key, a dead one costs
//! seconds, what subscribers are told is the same everywhere. Each test runs on NATS and on DynamoDB.

mod addresses;
mod adoption;
mod any;
#[path = "../cluster/clock.rs"]
#[allow(dead_code, reason = "shared with the cluster tests")]
mod clock;
#[path = "../common/dynamo_endpoint.rs"]
mod dynamo_endpoint;
mod events;
mod frozen;
mod gate;
#[cfg(feature = "testing")]
mod handover;
mod home;
#[path = "../common/nats_server.rs"]
mod nats_server;
#[path = "../cluster/node.rs"]
#[allow(dead_code, reason = "shared with the cluster tests")]
mod node;
mod pair;
#[path = "../common/pool_worker.rs"]
mod pool_worker;
mod pools;
#[path = "../common/ports.rs"]
mod ports;
#[path = "../cluster/process.rs"]
#[allow(dead_code, reason = "shared with the cluster tests")]
mod process;
mod sessions;
mod windows;

/// One test for each store.
macro_rules! on_both_stores {
    ($($test:ident),* $(,)?) => {$(
        mod $test {
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn nats() {
                super::$test(crate::pair::Pair::nats().await).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn dynamodb() {
                super::$test(crate::pair::Pair::dynamodb().await).await;
            }
        }
    )*};
}
pub(crate) use on_both_stores;
