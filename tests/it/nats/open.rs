//! What is opened, and what is refused.

use async_nats::jetstream::{self, stream};
use futures_util::future::join_all;
use tenure::{
    lease::Revision,
    store::{
        LeaseStore, StoreError, WriteOutcome,
        nats::{NatsOpenError, Options},
    },
};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::TcpListener,
};

use crate::nats::harness::{
    BUCKET, STREAM, committed, context, fresh, grant, open, open_with, options, ready,
};

use crate::support::nats_server::{Server, Sync};

async fn refused(options: Options) -> NatsOpenError {
    open_with(options, fresh(3), None).await.expect_err("it must not be opened")
}

#[tokio::test]
async fn nodes_that_start_at_once_agree_on_one_store() {
    let server = Server::start();
    let opens = (1..=6).map(|n| open_with(options(&server.url()), fresh(n), None));
    let stores: Vec<_> = join_all(opens).await.into_iter().map(|s| s.unwrap()).collect();
    let identity = stores[0].meta().identity;
    assert!(stores.iter().all(|store| store.meta().identity == identity));
    for store in &stores {
        ready(store).await;
    }
    let info = context(&server.url()).await.get_stream(STREAM).await.unwrap().cached_info().clone();
    assert_eq!(info.config.max_messages_per_subject, 16);
    assert_eq!(info.config.storage, stream::StorageType::File);
    assert_eq!(info.config.discard, stream::DiscardPolicy::New);
}

#[tokio::test]
async fn a_stream_that_may_lose_writes_is_refused_unless_that_is_accepted() {
    let server = Server::start();
    let context = context(&server.url()).await;
    let fit = stream::Config {
        name: STREAM.into(),
        subjects: vec![format!("$KV.{BUCKET}.>")],
        discard: stream::DiscardPolicy::New,
        max_messages_per_subject: 4,
        allow_rollup: true,
        ..Default::default()
    };
    let second = std::time::Duration::from_secs(1);
    let unfit: [(&str, stream::Config); 6] = [
        ("memory", stream::Config { storage: stream::StorageType::Memory, ..fit.clone() }),
        ("discards old", stream::Config { discard: stream::DiscardPolicy::Old, ..fit.clone() }),
        ("by age", stream::Config { max_age: second, duplicate_window: second, ..fit.clone() }),
        ("bytes", stream::Config { max_bytes: 1 << 30, ..fit.clone() }),
        ("in messages", stream::Config { max_messages: 1 << 30, ..fit.clone() }),
        ("forever", stream::Config { max_messages_per_subject: -1, ..fit.clone() }),
    ];
    for (what, config) in unfit {
        context.create_stream(config).await.unwrap();
        let why = refused(options(&server.url())).await;
        assert!(matches!(why, NatsOpenError::Unfit { .. }), "{why:?}");
        assert!(why.to_string().contains(what), "{why}");
        let accepted = Options { accept_data_loss: true, ..options(&server.url()) };
        let store = open_with(accepted, fresh(3), None).await.unwrap();
        store.close().await;
        context.delete_stream(STREAM).await.unwrap();
    }
    let other = stream::Config { subjects: vec!["orders.>".into()], ..fit.clone() };
    context.create_stream(other).await.unwrap();
    let accepted = Options { accept_data_loss: true, ..options(&server.url()) };
    assert!(matches!(refused(accepted).await, NatsOpenError::Foreign { .. }));
    context.delete_stream(STREAM).await.unwrap();
    context.create_stream(fit).await.unwrap();
    let three = Options { replicas: 3, ..options(&server.url()) };
    assert!(matches!(refused(three).await, NatsOpenError::Unfit { .. }));
    open(&server.url()).await;
}

#[tokio::test]
async fn a_bucket_of_the_usual_tools_is_as_good() {
    let server = Server::start();
    let config = jetstream::kv::Config { bucket: BUCKET.into(), history: 5, ..Default::default() };
    context(&server.url()).await.create_key_value(config).await.unwrap();
    ready(&*open(&server.url()).await).await;
}

#[tokio::test]
async fn what_cannot_work_is_said() {
    let server = Server::start();
    let url = server.url();
    let none = Options { create_bucket: false, ..options(&url) };
    assert!(matches!(refused(none).await, NatsOpenError::NoBucket { .. }));
    for wrong in [
        Options { bucket: "a.b".into(), ..options(&url) },
        Options { history: 0, ..options(&url) },
        Options { history: 65, ..options(&url) },
        Options { replicas: 0, ..options(&url) },
        Options { user: Some("u".into()), ..options(&url) },
        Options { url: " , ".into(), ..options(&url) },
    ] {
        assert!(matches!(refused(wrong).await, NatsOpenError::Setting { .. }));
    }
    let missing = Options { credentials: Some("/nowhere.creds".into()), ..options(&url) };
    assert!(matches!(refused(missing).await, NatsOpenError::File { .. }));
    let three = Options { replicas: 3, ..options(&url) };
    assert!(matches!(refused(three).await, NatsOpenError::Create { .. }));
    drop(server);
    assert!(matches!(refused(options(&url)).await, NatsOpenError::Connect { .. }));
}

#[tokio::test]
async fn users_and_tokens_are_let_in() {
    let server =
        Server::start_with(Sync::Default, "authorization { users = [ { user: u, password: p } ] }");
    assert!(matches!(refused(options(&server.url())).await, NatsOpenError::Connect { .. }));
    let user =
        Options { user: Some("u".into()), password: Some("p".into()), ..options(&server.url()) };
    open_with(user, fresh(3), None).await.unwrap();
    let server = Server::start_with(Sync::Default, "authorization { token: t }");
    let token = Options { token: Some("t".into()), ..options(&server.url()) };
    open_with(token, fresh(3), None).await.unwrap();
}

#[tokio::test]
async fn a_server_without_jetstream_is_refused() {
    // Of two definitions the later one counts.
    let server = Server::start_with(Sync::Default, "jetstream: disabled");
    assert!(matches!(refused(options(&server.url())).await, NatsOpenError::JetStream { .. }));
}

#[tokio::test]
async fn an_old_server_is_refused() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("nats://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        let (read, mut write) = stream.into_split();
        let info =
            r#"INFO {"server_id":"x","version":"2.10.22","max_payload":1048576,"headers":true}"#;
        write.write_all(format!("{info}\r\n").as_bytes()).await.unwrap();
        let mut lines = BufReader::new(read).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            if line.starts_with("PING") {
                write.write_all(b"PONG\r\n").await.unwrap();
            }
        }
    });
    let why = refused(options(&url)).await;
    assert!(matches!(&why, NatsOpenError::OldServer { found } if found == "2.10.22"), "{why:?}");
}

#[tokio::test]
async fn the_number_of_keys_is_bounded() {
    let server = Server::start();
    let options = Options { max_keys: 2, ..options(&server.url()) };
    let store = open_with(options, fresh(3), None).await.expect("a store");
    ready(&store).await;
    let a = committed(store.compare_and_set(grant("a", Revision::ABSENT, "w", 1)).await);
    committed(store.compare_and_set(grant("b", Revision::ABSENT, "w", 1)).await);
    let third = store.compare_and_set(grant("c", Revision::ABSENT, "w", 1)).await;
    assert!(matches!(third, WriteOutcome::Refused(StoreError::TooManyKeys(2))), "{third:?}");
    committed(store.compare_and_set(grant("a", a, "w2", 2)).await);
}
