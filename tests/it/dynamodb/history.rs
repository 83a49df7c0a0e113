//! What is past.

use std::time::Duration;

use tenure::{
    lease::Revision,
    store::{History, LeaseStore, Position, dynamodb::Options},
};

use crate::dynamodb::kit::*;
use crate::support::proxy::{Fate, HttpProxy};

use crate::support::dynamo_endpoint::Endpoint;

#[tokio::test]
async fn who_resumes_from_memory_costs_no_reads_and_others_get_the_same_from_the_table() {
    let endpoint = Endpoint::start();
    let proxy = HttpProxy::to(endpoint.addr()).await;
    let a = open(&proxy.url()).await;
    let mut feed = a.feed();
    for n in 0..100 {
        commit(&a, grant(&key(&format!("k{n}")), Revision::ABSENT, "w1", 1)).await;
    }
    let heard = listen(&mut feed, 100).await;
    let b = open(&endpoint.url()).await;
    let queries = proxy.count("Query");
    for (at, position) in heard.positions.iter().enumerate() {
        let resumed = all_history(&a, *position, 30).await;
        assert_eq!(resumed.positions, heard.positions[at + 1..]);
    }
    // Only the reader of the log itself asked meanwhile.
    assert!(proxy.count("Query") < queries + 50, "{}", proxy.count("Query") - queries);
    for at in [0, 1, 50, 98, 99] {
        let resumed = all_history(&b, heard.positions[at], 7).await;
        assert_eq!(resumed.positions, heard.positions[at + 1..]);
    }
    // Nothing is told twice, and nobody resumes in the future.
    let beyond = Position { revision: Revision(1 << 40), index: 0 };
    let gap = b.history(beyond, 10).await.unwrap();
    assert!(matches!(gap, History::Gap { resume } if resume == b.latest()), "{gap:?}");
    let end = b.history(b.latest(), 10).await.unwrap();
    assert!(matches!(end, History::Changes(changes) if changes.is_empty()));
}

#[tokio::test]
async fn old_entries_are_thrown_away_and_who_asks_for_them_hears_of_a_gap() {
    let endpoint = Endpoint::start();
    let proxy = HttpProxy::to(endpoint.addr()).await;
    // The table does not throw anything away by itself.
    proxy.rule(|operation, _| match operation {
        "UpdateTimeToLive" => Fate::Answer(400, "ValidationException"),
        _ => Fate::Pass,
    });
    let history = Duration::from_secs(1);
    let options = Options { history, ..options(&proxy.url()) };
    let a = open_with(options, None).await.unwrap();
    let began = a.earliest();
    for n in 0..5 {
        commit(&a, grant(&key(&format!("k{n}")), Revision::ABSENT, "w1", 1)).await;
        eventually("logged", async || a.stats().unlogged == 0).await;
    }
    eventually("thrown away", async || proxy.count("BatchWriteItem") > 0 && a.earliest() > began)
        .await;
    let later = Options {
        history: Duration::from_secs(3600),
        ..crate::dynamodb::kit::options(&proxy.url())
    };
    let b = open_with(later, None).await.unwrap();
    for store in [&a, &b] {
        eventually("known", async || {
            let history = store.history(began, 10).await.unwrap();
            matches!(history, History::Gap { resume } if resume == store.latest())
        })
        .await;
    }
    // Everything goes on from there.
    let mut feed = b.feed();
    commit(&a, grant(&key("k9"), Revision::ABSENT, "w1", 1)).await;
    assert_eq!(listen(&mut feed, 1).await.seqs[&key("k9")], [1]);
}

#[tokio::test]
async fn a_log_entry_that_rotted_is_a_gap_and_not_the_end() {
    let endpoint = Endpoint::start();
    let url = endpoint.url();
    let a = open(&url).await;
    let before = a.latest();
    let first = commit(&a, grant(&key("k"), Revision::ABSENT, "w1", 1)).await;
    eventually("logged", async || a.stats().unlogged == 0 && a.latest() > before).await;
    let number = a.latest().revision.0;
    let rot = aws_sdk_dynamodb::primitives::Blob::new(vec![1, 2, 3, 4, 5, 6]);
    let update = client(&url).update_item().table_name(TABLE);
    let update = update.key("pk", text("log")).key("sk", text(&format!("{number:020}")));
    let update = update.update_expression("SET #e = :v").expression_attribute_names("#e", "entry");
    let value = aws_sdk_dynamodb::types::AttributeValue::B(rot);
    update.expression_attribute_values(":v", value).send().await.unwrap();
    let b = open(&url).await;
    let mut feed = b.feed();
    commit(&b, grant(&key("k"), first, "w2", 2)).await;
    assert_eq!(listen(&mut feed, 1).await.seqs[&key("k")], [2]);
    let history = all_history(&b, before, 10).await;
    assert_eq!((history.gaps, history.total()), (1, 1));
}
