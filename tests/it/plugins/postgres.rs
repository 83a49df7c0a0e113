//! PostgreSQL, with a real server, and with the SQL of `docs/fencing.md`.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tenure::{actor::FenceOutcome, plugin::FencePlugin};
use tokio_postgres::Client;

use crate::plugins::kit::*;

use crate::support::postgres_server::Server;

/// The statement of the documentation that begins with this word.
fn documented(word: &str) -> String {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/fencing.md");
    let text = std::fs::read_to_string(path).expect("docs/fencing.md");
    let blocks = text.split("```sql\n").skip(1);
    let mut blocks = blocks.filter_map(|block| block.split("```").next());
    blocks.find(|block| block.starts_with(word)).expect("a block of SQL").to_owned()
}

async fn plugin(server: &Server) -> Arc<dyn FencePlugin> {
    let client = server.client().await;
    let table = documented("CREATE TABLE tenure_fence");
    client.batch_execute(&table).await.expect("the table");
    let accounts = "CREATE TABLE accounts (id bigint PRIMARY KEY, balance bigint); \
                    INSERT INTO accounts VALUES (1, 0)";
    client.batch_execute(accounts).await.expect("accounts");
    built(&format!("kind = \"postgres\"\nurl = \"{}\"\ntimeout = \"2s\"\n", server.url()))
}

/// A tenure begins.
async fn begin(client: &Client, key: &str, token: i64) {
    client.execute(&documented("INSERT"), &[&key, &token]).await.expect("begun");
}

/// Whether a guarded write was done.
async fn write(client: &Client, key: &str, token: i64, balance: i64) -> bool {
    let rows = client.execute(&documented("WITH"), &[&key, &token, &1i64, &balance]).await;
    rows.expect("a statement") == 1
}

async fn balance(client: &Client) -> i64 {
    let row = client.query_one("SELECT balance FROM accounts WHERE id = 1", &[]).await;
    row.expect("a row").get(0)
}

#[tokio::test]
async fn an_owner_that_was_fenced_writes_nothing_more() {
    let server = Server::start().await;
    let plugin = plugin(&server).await;
    let (old, new) = (server.client().await, server.client().await);
    assert!(!write(&old, "a", 5, 1).await, "who did not begin does not write");
    begin(&old, "a", 5).await;
    assert!(write(&old, "a", 5, 10).await);

    for _ in 0..2 {
        assert_eq!(plugin.fence(order("a", 5)).await, Ok(()), "also a second time");
        assert!(!write(&old, "a", 5, 11).await);
    }
    begin(&old, "a", 5).await;
    assert!(!write(&old, "a", 5, 12).await, "nor by beginning anew");
    assert_eq!(balance(&old).await, 10);

    begin(&new, "a", 9).await;
    assert!(write(&new, "a", 9, 20).await);
    assert_eq!(plugin.fence(order("a", 5)).await, Ok(()), "an order that comes late");
    assert!(write(&new, "a", 9, 21).await, "harms no later tenure");
    assert!(!write(&old, "a", 5, 13).await);
    assert!(!write(&old, "a", 7, 14).await, "nor lets in one between");
    begin(&old, "b", 5).await;
    assert!(write(&old, "b", 5, 30).await, "another key is another matter");
}

#[tokio::test]
async fn the_beginning_of_a_tenure_shuts_out_those_before_it_without_any_plugin() {
    let server = Server::start().await;
    let _plugin = plugin(&server).await;
    let (old, new) = (server.client().await, server.client().await);
    begin(&old, "a", 5).await;
    begin(&new, "a", 9).await;
    assert!(!write(&old, "a", 5, 1).await);
    assert!(write(&new, "a", 9, 2).await);
}

#[tokio::test]
async fn a_fence_waits_for_a_write_that_is_under_way() {
    let server = Server::start().await;
    let plugin = plugin(&server).await;
    let (mut old, other) = (server.client().await, server.client().await);
    begin(&old, "a", 5).await;
    let write = old.transaction().await.expect("a transaction");
    let guarded = documented("WITH");
    let rows = write.execute(&guarded, &[&"a", &5i64, &1i64, &10i64]).await;
    assert_eq!(rows.expect("a write"), 1);
    let mut fence = plugin.fence(order("a", 5));
    let early = tokio::time::timeout(Duration::from_millis(300), &mut fence).await;
    assert!(early.is_err(), "it must not confirm yet: {early:?}");
    assert_eq!(plugin.fence(order("b", 5)).await, Ok(()), "other keys do not wait");
    assert_eq!(balance(&other).await, 0);
    write.commit().await.expect("committed");
    assert_eq!(fence.await, Ok(()));
    assert_eq!(balance(&other).await, 10, "what was confirmed after it is after it");

    // A write that stays under way fails the fence.
    begin(&old, "a", 9).await;
    let stuck = old.transaction().await.expect("a transaction");
    let rows = stuck.execute(&guarded, &[&"a", &9i64, &1i64, &20i64]).await;
    assert_eq!(rows.expect("a write"), 1);
    let error = plugin.fence(order("a", 9)).await.unwrap_err();
    assert!(error.detail.contains("statement timeout") && !error.permanent, "{error}");
    stuck.rollback().await.expect("rolled back");
    assert_eq!(plugin.fence(order("a", 9)).await, Ok(()));
}

#[tokio::test]
async fn no_writer_writes_after_its_fence_was_confirmed() {
    let server = Server::start().await;
    let plugin = plugin(&server).await;
    let client = Arc::new(server.client().await);
    begin(&client, "a", 1).await;
    for token in 1..=20i64 {
        begin(&client, "a", token).await;
        let fenced = Arc::new(AtomicBool::new(false));
        let writers: Vec<_> = (0..4)
            .map(|_| {
                let (server, fenced) = (server.url(), fenced.clone());
                tokio::spawn(async move {
                    let connected = tokio_postgres::connect(&server, tokio_postgres::NoTls).await;
                    let (client, connection) = connected.expect("connected");
                    tokio::spawn(connection);
                    loop {
                        let late = fenced.load(Ordering::SeqCst);
                        if !write(&client, "a", token, token).await {
                            return;
                        }
                        assert!(!late, "a write was begun after the fence and done");
                    }
                })
            })
            .collect();
        tokio::time::sleep(Duration::from_millis(10)).await;
        let ended = order("a", u64::try_from(token).expect("above 0"));
        assert_eq!(plugin.fence(ended).await, Ok(()));
        fenced.store(true, Ordering::SeqCst);
        client.execute("UPDATE accounts SET balance = -1", &[]).await.expect("a mark");
        for writer in writers {
            writer.await.expect("it was refused");
        }
        assert_eq!(balance(&client).await, -1, "nobody wrote after the fence of {token}");
    }
}

#[test]
fn a_server_that_was_away_is_found_again_and_its_password_stays_unsaid() {
    system(async {
        let mut server = Server::start().await;
        let plugin = plugin(&server).await;
        let limits = limits(Duration::from_secs(5), 20, 4);
        let file = server.dir().join("url");
        std::fs::write(&file, format!("{}\n", server.url())).expect("written");
        let section = format!("kind = \"postgres\"\nurl_file = {:?}\n", file);
        let elsewhere = built(&format!("{section}table = \"public.nowhere\"\n"));
        let wrong = server.url().replace("hunter2", "hunter3");
        let wrong = built(&format!("kind = \"postgres\"\nurl = \"{wrong}\"\n"));
        let tls = format!("{}?sslmode=require", server.url());
        let tls = built(&format!("kind = \"postgres\"\nurl = \"{tls}\"\n"));
        for (plugin, expected) in [
            (elsewhere, "relation \"public.nowhere\" does not exist"),
            (wrong, "password authentication failed"),
            (tls, "server does not support TLS"),
        ] {
            let why = plugin.fence(order("a", 5)).await.unwrap_err().detail;
            assert!(why.contains(expected) && !why.contains("hunter"), "{why}");
        }
        let (plugins, _) = plugins(vec![("p".into(), plugin, limits)]);
        for _ in 0..3 {
            assert_eq!(ask(&plugins, "p", PATIENCE).await, FenceOutcome::Confirmed);
        }
        server.stop();
        let (outcome, ()) = tokio::join!(ask(&plugins, "p", PATIENCE), async {
            tokio::time::sleep(Duration::from_millis(200)).await;
            server.run().await;
        });
        assert_eq!(outcome, FenceOutcome::Confirmed);
    });
}
