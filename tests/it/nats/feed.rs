//! Changes as they happen, by whichever node; and what was lost is said.

use std::{collections::HashMap, sync::Arc, time::Duration};

use tenure::{
    lease::{Key, Nonce, Revision},
    store::{
        Committed, Feed, FeedBatch, History, LeaseStore, Position,
        nats::{NatsStore, Options},
    },
};
use tokio::{sync::broadcast::error::RecvError, time::timeout};

use crate::nats::harness::{
    committed, context, eventually, fresh, key, open, open_with, options, overwrite, ready,
};
use crate::support::proxy::{Proxy, Way};

use crate::support::nats_server::Server;

/// Takes in a store's feed.
#[derive(Debug)]
pub(crate) struct Listener {
    feed: Feed,
    pub(crate) changes: Vec<Committed>,
    pub(crate) gaps: u32,
    pub(crate) resume: Position,
}

impl Listener {
    pub(crate) fn new(store: &NatsStore) -> Self {
        Self { feed: store.feed(), changes: Vec::new(), gaps: 0, resume: Position::default() }
    }

    /// Waits for the next news.
    async fn hear(&mut self) {
        let news = timeout(Duration::from_secs(10), self.feed.recv()).await.expect("news");
        match news {
            Ok(FeedBatch::Changes(changes)) => {
                for change in changes.iter() {
                    let last = self.changes.last().map(|c| c.position);
                    assert!(last.is_none_or(|last| last < change.position), "in order, once");
                    assert!(change.position > self.resume);
                    self.changes.push(change.clone());
                }
            }
            Ok(FeedBatch::Gap { resume }) => {
                self.gaps += 1;
                self.resume = resume;
            }
            Err(RecvError::Lagged(_) | RecvError::Closed) => panic!("the listener lagged"),
        }
    }

    /// The numbers of a key's changes, once the one of `last` was heard or the listener was told of its loss.
    pub(crate) async fn until(&mut self, name: &str, last: Revision) -> Vec<u64> {
        let heard = |listener: &Self| listener.changes.last().map(|c| c.position.revision);
        while heard(self).max(Some(self.resume.revision)) < Some(last) {
            self.hear().await;
        }
        let mine = self.changes.iter().filter(|c| c.key.as_str() == name);
        mine.map(|c| c.change.seq).collect()
    }

    /// A key's changes, once the one that is numbered `last` is there.
    pub(crate) async fn seqs(&mut self, name: &str, last: u64) -> Vec<u64> {
        loop {
            let mine = self.changes.iter().filter(|c| c.key.as_str() == name);
            let seqs: Vec<u64> = mine.map(|c| c.change.seq).collect();
            if seqs.last() == Some(&last) {
                return seqs;
            }
            self.hear().await;
        }
    }
}

#[tokio::test]
async fn changes_of_all_nodes_come_in_the_same_order_everywhere_tokens_resolved() {
    let server = Server::start();
    let (a, b) = (open(&server.url()).await, open(&server.url()).await);
    let (mut at_a, mut at_b) = (Listener::new(&a), Listener::new(&b));
    tokio::join!(
        overwrite(&a, "x", Revision::ABSENT, 1..=50),
        overwrite(&b, "y", Revision::ABSENT, 1..=50),
    );
    for listener in [&mut at_a, &mut at_b] {
        assert_eq!(listener.seqs("x", 50).await, (1..=50).collect::<Vec<_>>());
        assert_eq!(listener.seqs("y", 50).await, (1..=50).collect::<Vec<_>>());
        assert_eq!(listener.gaps, 0);
    }
    let order =
        |l: &Listener| l.changes.iter().map(|c| (c.position, c.key.clone())).collect::<Vec<_>>();
    assert_eq!(order(&at_a), order(&at_b));
    for change in &at_a.changes {
        assert_eq!(change.change.token.0, change.position.revision.0);
        assert_eq!(change.node.0, 1);
    }
    assert_eq!(a.latest(), at_a.changes.last().unwrap().position);
}

/// What was removed while a node was cut off, and whose mark is gone, nothing in the stream tells of.
#[tokio::test]
async fn a_node_that_was_cut_off_for_long_forgets_what_was_removed() {
    let server = Server::start();
    let proxy = Proxy::to(server.addr()).await;
    let a = open(&server.url()).await;
    let b = open(&format!("nats://{}", proxy.addr)).await;
    let session = Key::of_session(Nonce(7));
    let made = grant_of(&a, &session).await;
    let kept = overwrite(&a, "kept", Revision::ABSENT, 1..=1).await;
    eventually("both know it", async || b.stats().keys == 2).await;
    let mut listener = Listener::new(&b);
    proxy.set(Way::Broken);
    assert_eq!(a.forget(&session, made).await, Ok(true));
    let stream = context(&server.url()).await.get_stream("KV_leases").await.unwrap();
    let mut subject = "$KV.leases.l.".to_owned();
    for byte in session.as_str().bytes() {
        match byte {
            b'0'..=b'9' | b'a'..=b'z' | b'-' | b'_' | b'/' => subject.push(char::from(byte)),
            other => subject += &format!("={other:02x}"),
        }
    }
    let purged = stream.purge().filter(&subject).await.unwrap().purged;
    assert_eq!(purged, 1, "the mark, as it goes after a while");
    tokio::time::sleep(Duration::from_secs(18)).await;
    assert_eq!(b.stats().keys, 2, "it cannot know better");
    proxy.set(Way::Open);
    eventually("it loads the bucket anew", async || b.stats().keys == 1).await;
    while listener.gaps == 0 {
        listener.hear().await;
    }
    ready(&b).await;
    let found = b.read(&key("kept")).await.unwrap().unwrap();
    assert_eq!(found.revision, kept);
    overwrite(&b, "kept", kept, 2..=2).await;
    assert_eq!(listener.seqs("kept", 2).await, [2]);
}

async fn grant_of(store: &NatsStore, key: &Key) -> Revision {
    let write = crate::support::records::grant(key, Revision::ABSENT, "w", 1);
    committed(store.compare_and_set(write).await)
}

#[tokio::test]
async fn a_consumer_that_was_removed_costs_nothing_that_the_stream_still_has() {
    let server = Server::start();
    let (a, b) = (open(&server.url()).await, open(&server.url()).await);
    let mut listener = Listener::new(&a);
    let stream = context(&server.url()).await.get_stream("KV_leases").await.unwrap();
    let mut last = Revision::ABSENT;
    for round in 0..5 {
        let mut names = stream.consumer_names();
        while let Some(Ok(name)) = futures_util::StreamExt::next(&mut names).await {
            stream.delete_consumer(&name).await.unwrap();
        }
        last = overwrite(&b, "k", last, (round * 10 + 1)..=(round * 10 + 10)).await;
        listener.seqs("k", round * 10 + 10).await;
    }
    assert_eq!(listener.seqs("k", 50).await, (1..=50).collect::<Vec<_>>());
    assert_eq!(listener.gaps, 0);
}

/// A node that is cut off while `writes` writes of a key are made.
async fn cut_off(server: &Server, writes: u64) -> (Arc<NatsStore>, Listener, Vec<u64>) {
    let proxy = Proxy::to(server.addr()).await;
    let small = Options { history: 4, ..options(&server.url()) };
    let b = open_with(small, fresh(3), None).await.unwrap();
    let a = open(&format!("nats://{}", proxy.addr)).await;
    let mut listener = Listener::new(&a);
    let first = overwrite(&b, "k", Revision::ABSENT, 1..=2).await;
    listener.seqs("k", 2).await;
    proxy.set(Way::Broken);
    overwrite(&b, "k", first, 3..=writes).await;
    overwrite(&b, "other", Revision::ABSENT, 1..=3).await;
    proxy.set(Way::Open);
    let seqs = listener.seqs("k", writes).await;
    listener.seqs("other", 3).await;
    ready(&a).await;
    (a, listener, seqs)
}

#[tokio::test]
async fn a_node_that_was_cut_off_misses_nothing_that_was_kept() {
    let server = Server::start();
    let (_a, listener, seqs) = cut_off(&server, 6).await;
    assert_eq!((listener.gaps, seqs), (0, (1..=6).collect::<Vec<_>>()));
}

#[tokio::test]
async fn what_was_overwritten_meanwhile_is_said_to_be_lost() {
    let server = Server::start();
    let (a, listener, seqs) = cut_off(&server, 30).await;
    assert_eq!(listener.gaps, 1, "for the one key");
    assert_eq!(seqs, [1, 2, 27, 28, 29, 30]);
    // And the history says the same.
    let before = listener.changes[1].position;
    assert!(matches!(a.history(before, 100).await.unwrap(), History::Gap { .. }));
    let History::Changes(after) = a.history(listener.resume, 100).await.unwrap() else {
        panic!("everything after it is kept");
    };
    let mut by_key: HashMap<&str, Vec<u64>> = HashMap::new();
    for change in &after {
        by_key.entry(change.key.as_str()).or_default().push(change.change.seq);
    }
    assert_eq!(by_key["k"], [27, 28, 29, 30]);
    assert_eq!(by_key["other"], [1, 2, 3]);
}
