//! A connection that several principals use, as behind a proxy: each call is judged by what it shows itself.

use serde_json::{Value, json};

use super::cast::{Guarded, all_of, call, principal};
use crate::support::harness::{Connection, Reply};

const BASIC: &[(&str, &str)] = &[("Authorization", "Basic one")];
const SMALL: &[(&str, &str)] = &[("authorization", "bearer one")];

async fn read(connection: &mut Connection, token: &str, key: &str) -> Reply {
    call(connection, token, "GET", &format!("/v1/leases/{key}"), &Value::Null).await
}

/// Nobody has held the key.
#[track_caller]
fn admitted(reply: &Reply) {
    reply.problem(404, "unknown-key");
}

#[tokio::test]
async fn each_call_of_a_connection_is_judged_by_what_it_shows() {
    let (one, two) = (principal("one", &all_of("a/")), principal("two", &all_of("b/")));
    let guarded = Guarded::start(&[one.clone(), two], &[]);
    let connection = &mut Connection::open(guarded.server.addr).await;
    for _ in 0..3 {
        for _ in 0..2 {
            admitted(&read(connection, "one", "a/1").await);
            read(connection, "one", "b/1").await.problem(403, "forbidden");
        }
        read(connection, "", "a/1").await.problem(401, "unauthenticated");
        admitted(&read(connection, "one", "a/1").await);
        connection.call("GET", "/v1/leases/a/1", BASIC, b"").await.problem(401, "unauthenticated");
        admitted(&connection.call("GET", "/v1/leases/a/1", SMALL, b"").await);
        for token in ["on", "one1", "onf", "three"] {
            admitted(&read(connection, "one", "a/1").await);
            read(connection, token, "a/1").await.problem(401, "unauthenticated");
        }
        for _ in 0..2 {
            admitted(&read(connection, "two", "b/1").await);
            read(connection, "two", "a/1").await.problem(403, "forbidden");
        }
    }
    let acquire = json!({ "key": "a/1", "owner": "w", "ttl_ms": 60_000 });
    call(connection, "two", "POST", "/v1/acquire", &acquire).await.problem(403, "forbidden");
    call(connection, "one", "POST", "/v1/acquire", &acquire).await.ok();
}

#[tokio::test]
async fn a_reload_counts_for_the_next_call_of_an_open_connection() {
    let (one, two) = (principal("one", &all_of("a/")), principal("two", &all_of("b/")));
    let guarded = Guarded::start(&[one.clone(), two.clone()], &[]);
    let connection = &mut Connection::open(guarded.server.addr).await;
    admitted(&read(connection, "one", "a/1").await);
    guarded.reload(&[principal("one", &all_of("b/")), two.clone()]).await;
    read(connection, "one", "a/1").await.problem(403, "forbidden");
    admitted(&read(connection, "one", "b/1").await);
    guarded.reload(std::slice::from_ref(&two)).await;
    read(connection, "one", "b/1").await.problem(401, "unauthenticated");
    guarded.reload(&[one, two]).await;
    admitted(&read(connection, "one", "a/1").await);
}
