//! What each kind of plugin does with a notification.

use std::time::Duration;

use async_nats::jetstream;
use serde_json::{Value, json};
use tenure::{
    actor::Plugins,
    lease::{Change, ChangeKind, Key, Nonce, Owner, Revision, Token},
    plugin::{FailureKind, FenceError, Notification},
    store::{Committed, Position},
};

use crate::{
    plugins::{
        kit::{Scripted, built, confirm, limits, plugins, system},
        webhook::{Arrived, receiver, section},
    },
    support::{nats_server, postgres_server},
};

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const SPAN: Duration = Duration::from_secs(10);

fn granted(revision: u64) -> Notification {
    let change = Change {
        kind: ChangeKind::Granted,
        seq: revision,
        owner: Some(Owner::new("w").expect("an owner")),
        token: Token(revision),
        previous: None,
        reason: None,
        actor: None,
        session: None,
    };
    let position = Position { revision: Revision(revision), index: 0 };
    let key = Key::new("a/\"1\"").expect("a key");
    let committed = Committed { position, key, node: Nonce(0), change, at_ms: 0 };
    let event = json!({ "specversion": "1.0", "id": format!("aa-{revision}-0") }).to_string();
    let id = format!("aa-{revision}-0").into();
    Notification { id, change: Some(committed), event: event.into(), attempt: 1 }
}

fn reset() -> Notification {
    let event = json!({ "type": "io.tenure.reset" }).to_string();
    Notification { id: "aa-9-0".into(), change: None, event: event.into(), attempt: 1 }
}

async fn notify(plugins: &Plugins, notification: Notification) -> Result<(), FenceError> {
    plugins.notify("p", notification, SPAN).await
}

#[test]
fn a_webhook_is_posted_the_event_under_its_id() {
    system(async {
        let (url, requests) = receiver(&[500, 200]);
        let plugin = built(&section(&url, &[SECRET]));
        let (plugins, _) = plugins(vec![("p".into(), plugin, limits(SPAN, 0, 1))]);
        let failed = notify(&plugins, granted(5)).await.expect_err("a 500");
        assert_eq!(failed.kind, FailureKind::Status(500));
        assert_eq!(notify(&plugins, granted(5)).await, Ok(()));
        let seen: Vec<Arrived> = requests.lock().expect("a list").clone();
        for request in &seen {
            assert_eq!(request.header("webhook-id"), "aa-5-0");
            let body: Value = serde_json::from_slice(request.body()).expect("JSON");
            assert_eq!(body["id"], "aa-5-0");
        }
        assert_eq!(seen.len(), 2);
    });
}

#[test]
fn a_stream_keeps_a_notification_once() {
    system(async {
        let server = nats_server::Server::start();
        let client = async_nats::connect(server.url()).await.expect("connected");
        let context = jetstream::new(client);
        let stream = jetstream::stream::Config {
            name: "EVENTS".into(),
            subjects: vec!["events.>".into()],
            ..Default::default()
        };
        context.create_stream(stream).await.expect("a stream");
        let settings = format!(
            "kind = \"nats\"\nurl = \"{}\"\nsubject = \"events.tenure\"\nmode = \"publish\"\n",
            server.url()
        );
        let plugin = built(&settings);
        let (plugins, _) = plugins(vec![("p".into(), plugin, limits(SPAN, 0, 1))]);
        for notification in [granted(5), granted(5), reset(), granted(6)] {
            assert_eq!(notify(&plugins, notification).await, Ok(()));
        }
        let mut stream = context.get_stream("EVENTS").await.expect("the stream");
        assert_eq!(stream.info().await.expect("its state").state.messages, 3);
    });
}

#[test]
fn a_table_has_each_notification_once() {
    system(async {
        let server = postgres_server::Server::start().await;
        let client = server.client().await;
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/notifications.md");
        let manual = std::fs::read_to_string(path).expect("docs/notifications.md");
        let table = manual.split("```sql\n").nth(1).and_then(|block| block.split("```").next());
        client.batch_execute(table.expect("a block of SQL")).await.expect("the table");
        let plugin = built(&format!("kind = \"postgres\"\nurl = \"{}\"\n", server.url()));
        let (plugins, _) = plugins(vec![("p".into(), plugin, limits(SPAN, 0, 1))]);
        for notification in [granted(5), granted(5), reset()] {
            assert_eq!(notify(&plugins, notification).await, Ok(()));
        }
        let rows = client
            .query("SELECT id, kind, key, token, event->>'id' FROM tenure_event ORDER BY id", &[])
            .await
            .expect("rows");
        assert_eq!(rows.len(), 2);
        let (kind, key, token): (String, Option<String>, Option<i64>) =
            (rows[0].get(1), rows[0].get(2), rows[0].get(3));
        assert_eq!((kind.as_str(), key.as_deref(), token), ("granted", Some("a/\"1\""), Some(5)));
        assert_eq!(rows[0].get::<_, Option<String>>(4).as_deref(), Some("aa-5-0"));
        let (kind, key): (String, Option<String>) = (rows[1].get(1), rows[1].get(2));
        assert_eq!((kind.as_str(), key), ("reset", None));
    });
}

#[test]
fn the_log_takes_everything_and_a_plugin_of_ones_own_may_take_nothing() {
    system(async {
        let list = vec![
            ("p".into(), built("kind = \"log\"\n"), limits(SPAN, 0, 1)),
            ("q".into(), Scripted::plugin(|_, _| confirm()), limits(SPAN, 0, 1)),
            ("r".into(), built("kind = \"panic\"\n"), limits(SPAN, 0, 1)),
        ];
        let (plugins, _) = plugins(list);
        assert_eq!(notify(&plugins, granted(5)).await, Ok(()));
        assert_eq!(notify(&plugins, reset()).await, Ok(()));
        let failed = plugins.notify("q", granted(5), SPAN).await.expect_err("it takes none");
        assert!(failed.permanent, "{failed}");
        let failed = plugins.notify("r", granted(5), SPAN).await.expect_err("it panics");
        assert_eq!(failed.kind, FailureKind::Panicked);
        assert!(plugins.notify("nobody", granted(5), SPAN).await.is_err());
        // A call whose caller is gone is dropped, and the plugin goes on.
        let _ = tokio::time::timeout(Duration::ZERO, notify(&plugins, granted(6))).await;
        assert_eq!(notify(&plugins, granted(7)).await, Ok(()));
    });
}
