//! Members that prepare for keys whose holders are at home at another node.

use crate::nodes::{on_both_stores, pair::Pair};
use crate::support::{
    clock::{ms, within},
    node::Node,
    pool_worker::{Worker, pool},
};

on_both_stores!(
    a_member_prepares_for_keys_of_another_node,
    a_member_that_dies_with_its_node_blocks_nothing,
);

const KEYS: usize = 8;
const SETTLE_MS: u64 = 60_000;

async fn join(node: &Node, owner: &str, takes_ms: Option<u64>) -> Worker {
    let mut worker = Worker::join(&node.url, "warm", owner, 1, 3_000).await;
    if let Some(takes) = takes_ms {
        worker.warms(ms(takes));
    }
    worker.work((0..KEYS).map(|at| format!("warm/{at}")).collect());
    worker
}

async fn has(worker: &Worker, keys: usize) {
    let has = within(ms(SETTLE_MS), async || worker.held() == keys);
    assert!(has.await, "{} of {keys} keys", worker.held());
}

async fn warmups(node: &Node, outcome: &str) -> f64 {
    let series = format!("tenure_pool_warmups_total{{pool=\"warm\",outcome=\"{outcome}\"}}");
    node.metric(&series).await
}

async fn a_member_prepares_for_keys_of_another_node(pair: Pair) {
    let a = join(&pair.a, "a", Some(200)).await;
    has(&a, KEYS).await;
    let b = join(&pair.b, "b", Some(200)).await;
    has(&b, KEYS / 2).await;
    let prepared = b.preparations();
    assert_eq!(prepared.len(), KEYS / 2, "{prepared:?}");
    assert!(prepared.iter().all(|(_, asked, done)| *done - *asked >= ms(200)));
    // The node asks that is the holder's home node.
    assert_eq!((warmups(&pair.a, "ready").await, warmups(&pair.b, "ready").await), (4.0, 0.0));
    assert_eq!(warmups(&pair.a, "timed-out").await, 0.0);
    b.drain().await;
    has(&a, KEYS).await;
    assert_eq!(warmups(&pair.b, "ready").await, 4.0);
    for node in [&pair.a, &pair.b] {
        let over = within(ms(SETTLE_MS), async || {
            pool(&node.url, "warm").await.0["warming"].as_array().is_some_and(Vec::is_empty)
        });
        assert!(over.await, "no preparation is left");
    }
}

async fn a_member_that_dies_with_its_node_blocks_nothing(mut pair: Pair) {
    let a = join(&pair.a, "a", Some(100)).await;
    has(&a, KEYS).await;
    // It never says that it is prepared.
    let b = join(&pair.b, "b", None).await;
    let begins = within(ms(SETTLE_MS), async || {
        pool(&pair.a.url, "warm").await.0["warming"].as_array().is_some_and(|all| !all.is_empty())
    });
    assert!(begins.await, "a preparation begins");
    let c = join(&pair.a, "c", Some(100)).await;
    pair.b.kill();
    drop(b);
    has(&c, KEYS / 2).await;
    assert_eq!(warmups(&pair.a, "timed-out").await, 0.0);
}
