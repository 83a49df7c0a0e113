//! The revocation list: who is on it is refused everywhere, at once.

use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};
use tenure::lease::Moment;

use super::cast::{Guarded, all_of, call_at, digest, principal, write};
use crate::{
    nodes::pair::Pair,
    support::{
        clock::{eventually, now, soon},
        harness::{Connection, Grant, Reply, Server},
    },
};

/// A second, in which an order reaches every node.
const SECOND: Duration = Duration::from_secs(1);

fn revoke(what: &Value) -> Value {
    order("revoke", what)
}

fn order(action: &str, what: &Value) -> Value {
    let mut order = json!({ "action": action, "reason": "it leaked" });
    for (field, value) in what.as_object().expect("fields") {
        order[field] = value.clone();
    }
    order
}

impl Guarded {
    async fn orders(&self, body: &Value) -> Value {
        self.post("admin", "/v1/admin/access", body).await.ok()
    }

    async fn status_with(&self, token: &str) -> u16 {
        self.get(token, "/v1/leases").await.status
    }
}

fn cast() -> [String; 3] {
    let two = format!("token = [\"{}\", \"{}\"]", digest("leaver"), digest("leaver-2"));
    let leaver = principal("leaver", &all_of(""));
    let leaver = leaver.replace(&format!("token = \"{}\"", digest("leaver")), &two);
    [principal("admin", &all_of("")), principal("stayer", &all_of("")), leaver]
}

#[tokio::test]
async fn who_is_revoked_gets_401_and_its_waits_streams_and_cookies_end() {
    let guarded = Guarded::start(&cast(), &[]);
    let acquire = |key: &str, wait_ms: u64| json!({ "key": key, "owner": "w", "ttl_ms": 3_000, "wait_ms": wait_ms });
    let held = Grant::of(&guarded.post("leaver", "/v1/acquire", &acquire("mine", 0)).await.ok());
    let busy = json!({ "key": "busy", "owner": "x", "ttl_ms": 600_000 });
    guarded.post("stayer", "/v1/acquire", &busy).await.ok();
    let cookie = guarded.post("", "/sign-in", &json!({ "token": "leaver" })).await;
    let cookie =
        cookie.header("set-cookie").expect("a cookie").split(';').next().expect("it").to_owned();
    let with_cookie = async || {
        let mut connection = Connection::open(guarded.server.addr).await;
        connection.call("GET", "/v1/leases", &[("Cookie", &cookie)], b"").await.status
    };
    assert_eq!(with_cookie().await, 200);
    let open = async |token: &str, method: &str, path: &str, body: String| {
        let mut connection = Connection::open(guarded.server.addr).await;
        let shown = format!("Bearer {token}");
        connection.send(method, path, &[("Authorization", &shown)], body.as_bytes()).await;
        connection
    };
    let mut wait = open("leaver", "POST", "/v1/acquire", acquire("busy", 60_000).to_string()).await;
    let mut stream = open("leaver", "GET", "/v1/events", String::new()).await;
    let mut other =
        open("stayer", "GET", "/v1/events?format=json&wait_ms=3000", String::new()).await;
    assert_eq!(stream.head().await.expect("a head").0, 200);
    // A connection that was judged before is judged again.
    let mut kept = open("leaver", "GET", "/v1/leases", String::new()).await;
    assert_eq!(kept.receive().await.status, 200);
    eventually("the call waits", async || {
        guarded.get("stayer", "/v1/leases/busy").await.ok()["waiters"] == 1
    })
    .await;
    let list = guarded.orders(&revoke(&json!({ "principal": "leaver" }))).await;
    assert_eq!(list["revoked"][0]["principal"], "leaver", "{list}");
    assert!(
        list["revoked"][0]["by"].as_str().is_some_and(|by| by.starts_with("admin at ")),
        "{list}"
    );
    soon("an answer", wait.receive()).await.problem(401, "unauthenticated");
    while let Ok(Some(_)) = soon("the end of the stream", stream.chunk()).await {}
    let shown = [("Authorization", "Bearer leaver")];
    kept.call("GET", "/v1/leases", &shown, b"").await.problem(401, "unauthenticated");
    for token in ["leaver", "leaver-2"] {
        guarded.get(token, "/v1/leases").await.problem(401, "unauthenticated");
        let beat = guarded.post(token, "/v1/heartbeat", &held.proof()).await;
        beat.problem(401, "unauthenticated");
        guarded
            .post("", "/sign-in", &json!({ "token": token }))
            .await
            .problem(401, "unauthenticated");
    }
    assert_eq!(with_cookie().await, 401);
    assert_eq!(soon("an answer", other.receive()).await.status, 200, "others go on");
    assert_eq!(guarded.status_with("stayer").await, 200);
    eventually("the lease has run out, and is not ended before", async || {
        guarded.get("stayer", "/v1/leases/mine").await.ok()["state"] == "free"
    })
    .await;
    let list = guarded.orders(&order("unrevoke", &json!({ "principal": "leaver" }))).await;
    assert_eq!(list["revoked"], json!([]));
    assert_eq!((guarded.status_with("leaver").await, with_cookie().await), (200, 200));
}

#[tokio::test]
async fn one_token_is_revoked_and_the_other_one_of_the_principal_is_not() {
    let guarded = Guarded::start(&cast(), &[]);
    guarded.orders(&revoke(&json!({ "token": digest("leaver"), "for_ms": 3_000 }))).await;
    assert_eq!(guarded.status_with("leaver").await, 401);
    assert_eq!(guarded.status_with("leaver-2").await, 200);
    eventually("it ends by itself", async || guarded.status_with("leaver").await == 200).await;
    assert_eq!(guarded.get("admin", "/v1/revocations").await.ok()["revoked"], json!([]));
}

#[tokio::test]
async fn the_last_administrator_cannot_be_revoked_and_faulty_orders_are_refused() {
    let only = |name: &str, may: &str| principal(name, may);
    let cast = [
        principal("admin", &all_of("")),
        only("second", r#"{ verb = "access" }"#),
        only(
            "reader",
            r#"{ verb = ["admin", "break", "read"], prefix = "" }, { verb = "observe" }"#,
        ),
    ];
    let guarded = Guarded::start(&cast, &[]);
    for field in ["principal", "token", "certificate", "for_ms"] {
        let bad = match field {
            "principal" => json!({ "principal": "x".repeat(129) }),
            "token" => json!({ "token": "sha256:12" }),
            "certificate" => json!({ "certificate": "*" }),
            _ => json!({ "principal": "x", "for_ms": 1 }),
        };
        let refused = guarded.post("admin", "/v1/admin/access", &revoke(&bad)).await;
        let problem = refused.problem(400, "invalid-field");
        assert_eq!(problem["field"], field, "{problem}");
    }
    for bad in [json!({}), json!({ "principal": "x", "token": digest("x") })] {
        let refused = guarded.post("admin", "/v1/admin/access", &revoke(&bad)).await;
        refused.problem(400, "invalid-field");
    }
    let x = revoke(&json!({ "principal": "x" }));
    guarded.post("reader", "/v1/admin/access", &x).await.problem(403, "forbidden");
    guarded.get("reader", "/v1/revocations").await.problem(403, "forbidden");
    guarded
        .post("second", "/v1/admin/access", &revoke(&json!({ "principal": "admin" })))
        .await
        .ok();
    for last in [json!({ "principal": "second" }), json!({ "token": digest("second") })] {
        let refused = guarded.post("second", "/v1/admin/access", &revoke(&last)).await;
        refused.problem(409, "locks-out");
    }
    // The access file is the way back that no list can shut.
    let third = only("third", r#"{ verb = ["access", "observe"] }"#);
    guarded.reload(&[cast.to_vec(), vec![third]].concat()).await;
    guarded
        .post("second", "/v1/admin/access", &revoke(&json!({ "principal": "second" })))
        .await
        .ok();
    assert_eq!(guarded.get("second", "/v1/revocations").await.status, 401);
    let back = order("unrevoke", &json!({ "principal": "admin" }));
    guarded.post("third", "/v1/admin/access", &back).await.ok();
    guarded.get("admin", "/v1/revocations").await.ok();
}

#[tokio::test]
async fn the_list_has_a_bound_that_refuses_and_cuts_nothing() {
    let guarded = Guarded::start(&cast(), &[]);
    let long = |n: usize| json!({ "certificate": format!("spiffe://prod/{n:0>400}") });
    let mut written = 0;
    let refused = loop {
        let reply = guarded.post("admin", "/v1/admin/access", &revoke(&long(written))).await;
        if reply.status != 200 {
            break reply;
        }
        written += 1;
        assert!(written < 100, "there is no bound");
    };
    let problem = refused.problem(400, "invalid-field");
    assert!(problem["detail"].as_str().is_some_and(|it| it.contains("finds no room")), "{problem}");
    let list = guarded.get("admin", "/v1/revocations").await.ok();
    assert_eq!(list["revoked"].as_array().map(Vec::len), Some(written));
    guarded.orders(&order("unrevoke", &long(0))).await;
    guarded.orders(&revoke(&long(written))).await;
}

#[tokio::test]
async fn a_list_survives_a_restart_and_a_coordinator_without_an_access_file_refuses_orders() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("access.toml");
    write(&file, &cast());
    let data = dir.path().join("data");
    let set = format!("auth.file={}", file.display());
    let status = async |server: &Server| {
        let url = format!("http://{}", server.addr);
        call_at(&url, "leaver", "GET", "/v1/leases", &Value::Null).await.status
    };
    let server = Server::at(&data, &[&set]);
    let url = format!("http://{}", server.addr);
    let body = revoke(&json!({ "principal": "leaver" }));
    call_at(&url, "admin", "POST", "/v1/admin/access", &body).await.ok();
    assert_eq!(status(&server).await, 401);
    drop(server.kill());
    let server = Server::at(&data, &[&set]);
    assert_eq!(status(&server).await, 401, "from its first moment on");
    drop(server.kill());
    let server = Server::at(&data, &[]);
    let url = format!("http://{}", server.addr);
    let refused = call_at(&url, "", "POST", "/v1/admin/access", &body).await;
    refused.problem(409, "no-access-file");
    let list = call_at(&url, "", "GET", "/v1/revocations", &Value::Null).await.ok();
    assert_eq!(list["revoked"][0]["principal"], "leaver", "{list}");
}

/// Two nodes on NATS. The list reaches the other one within a second, without a signal.
#[tokio::test]
async fn an_order_holds_at_every_node_within_a_second() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("access.toml");
    write(&file, &cast());
    let sets = [format!("auth.file={}", file.display())];
    let pair = Pair::nats_with(&sets, &sets, "admin", &[]).await;
    let (a, b) = (pair.a.url.clone(), pair.b.url.clone());
    let call = async |url: &str, token: &str, method: &str, path: &str, body: &Value| -> Reply {
        call_at(url, token, method, path, body).await
    };
    let acquire = |key: &str, wait_ms: u64| json!({ "key": key, "owner": "w", "ttl_ms": 60_000, "wait_ms": wait_ms });
    let held = call(&a, "leaver", "POST", "/v1/acquire", &acquire("k", 0)).await.ok();
    let held = Grant::of(&held);
    for (from, to) in [(&a, &b), (&b, &a)] {
        // A call that waits at one node, and one that it forwards to the other.
        let address = to.trim_start_matches("http://").parse().expect("an address");
        let mut wait = Connection::open(address).await;
        let shown = [("Authorization", "Bearer leaver")];
        let body = acquire("k", 60_000).to_string().replace("\"w\"", "\"other\"");
        wait.send("POST", "/v1/acquire", &shown, body.as_bytes()).await;
        eventually("the call waits", async || {
            let path = "/v1/leases/k";
            call(from, "stayer", "GET", path, &Value::Null).await.ok()["waiters"] == 1
        })
        .await;
        let asked: Moment = now();
        let body = revoke(&json!({ "principal": "leaver" }));
        let list = call(from, "admin", "POST", "/v1/admin/access", &body).await.ok();
        assert_eq!(list["unconfirmed"], json!([]), "{list}");
        soon("an answer", wait.receive()).await.problem(401, "unauthenticated");
        for url in [from, to] {
            let refused = call(url, "leaver", "POST", "/v1/heartbeat", &held.proof()).await;
            refused.problem(401, "unauthenticated");
        }
        let took = now().since(asked);
        assert!(took < SECOND, "it took {took:?}");
        let body = order("unrevoke", &json!({ "principal": "leaver" }));
        call(to, "admin", "POST", "/v1/admin/access", &body).await.ok();
        let told = now();
        eventually("it ends at both", async || {
            call(from, "leaver", "POST", "/v1/heartbeat", &held.proof()).await.status == 200
        })
        .await;
        assert!(now().since(told) < SECOND);
    }
}

/// A node that answers late is asked to confirm an order after another order has come.
#[tokio::test]
async fn of_two_orders_the_later_one_stands_wherever_a_node_is_late() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("access.toml");
    write(&file, &cast());
    let sets = [format!("auth.file={}", file.display())];
    let pair = Pair::nats_with(&sets, &sets, "admin", &[]).await;
    let (a, b) = (pair.a.url.clone(), pair.b.url.clone());
    let leaver = json!({ "principal": "leaver" });
    let send = async |action: &str| {
        let body = order(action, &leaver);
        call_at(&a, "admin", "POST", "/v1/admin/access", &body).await.ok()
    };
    send("revoke").await;
    for _ in 0..2 {
        pair.b.signal(Signal::STOP);
        let late = async {
            tokio::time::sleep(Duration::from_millis(150)).await;
            send("revoke").await
        };
        let goes_on = async {
            tokio::time::sleep(Duration::from_millis(500)).await;
            pair.b.signal(Signal::CONT);
        };
        let (first, second, ()) = tokio::join!(send("unrevoke"), late, goes_on);
        assert_eq!([&first["unconfirmed"], &second["unconfirmed"]], [&json!([]); 2]);
        for _ in 0..10 {
            for url in [&a, &b] {
                let refused = call_at(url, "leaver", "GET", "/v1/leases", &Value::Null).await;
                refused.problem(401, "unauthenticated");
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

#[tokio::test]
async fn the_audit_log_says_who_was_revoked_and_why() {
    let dir = tempfile::tempdir().expect("a directory");
    let log = dir.path().join("audit.log");
    let guarded =
        Guarded::configured(&cast(), &format!("[audit]\nfile = \"{}\"\n", log.display()), &[]);
    guarded.orders(&revoke(&json!({ "principal": "leaver", "for_ms": 60_000 }))).await;
    guarded.orders(&order("unrevoke", &json!({ "principal": "leaver" }))).await;
    let mut lines = String::new();
    eventually("both lines are written", async || {
        lines = std::fs::read_to_string(dir.path().join("audit.log.changes")).expect("the log");
        lines.matches("\"event\":\"change\"").count() == 2
    })
    .await;
    for words in ["revoke principal leaver for 60000 ms", "unrevoke principal leaver", "it leaked"]
    {
        assert!(lines.contains(words), "{words}: {lines}");
    }
}

#[tokio::test]
async fn who_is_revoked_hears_401_whatever_the_rate_of_its_address() {
    let guarded = Guarded::start(&cast(), &["limits.rate_per_address=1"]);
    guarded.orders(&revoke(&json!({ "principal": "leaver" }))).await;
    for _ in 0..8 {
        assert_eq!(guarded.status_with("leaver").await, 401);
    }
}

/// A backup has the list of its moment. What was revoked later must be revoked again, and the restore says so.
#[tokio::test]
async fn a_restore_brings_the_list_of_its_backup_and_says_which_it_is() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("access.toml");
    write(&file, &cast());
    let (data, other) = (dir.path().join("data"), dir.path().join("other"));
    let set = format!("auth.file={}", file.display());
    let server = Server::at(&data, &[&set]);
    let url = format!("http://{}", server.addr);
    let body = revoke(&json!({ "principal": "leaver" }));
    call_at(&url, "admin", "POST", "/v1/admin/access", &body).await.ok();
    drop(server.kill());
    let backup = dir.path().join("backup");
    let run = |data: &std::path::Path, arguments: &[&str]| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_tenure"));
        let set = format!("store.embedded.data_dir={}", data.display());
        let ran = command.args(arguments).args(["--set", &set]).output().expect("it runs");
        let said = String::from_utf8_lossy(&ran.stderr).into_owned();
        assert!(ran.status.success(), "{arguments:?}: {said}");
        said
    };
    let path = backup.to_str().expect("UTF-8");
    run(&data, &["backup", "--file", path]);
    let said = run(&other, &["restore", "--raise-epoch", "--file", path]);
    assert!(said.contains("revocation list") && said.contains("1 entry"), "{said}");
    assert!(said.contains("Revoke again"), "{said}");
    let server = Server::at(&other, &[&set]);
    let url = format!("http://{}", server.addr);
    let leaver = call_at(&url, "leaver", "GET", "/v1/leases", &Value::Null).await;
    leaver.problem(401, "unauthenticated");
}
