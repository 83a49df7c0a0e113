//! NATS, with a real server.

use std::time::Duration;

use async_nats::jetstream;
use futures_util::StreamExt;
use tenure::actor::FenceOutcome;

use crate::plugins::{kit::*, webhook};

use crate::support::{nats_server::Server, postgres_server};

fn section(server: &Server, mode: &str) -> String {
    format!(
        "kind = \"nats\"\nurl = \"{}\"\nsubject = \"fence.disk\"\nmode = \"{mode}\"\n",
        server.url()
    )
}

#[test]
fn an_answer_confirms_when_it_begins_with_ok() {
    system(async {
        let server = Server::start();
        let plugin = built(&section(&server, "request"));
        let limits = limits(Duration::from_secs(2), 3, 4);
        let (plugins, _) = plugins(vec![("p".into(), plugin, limits)]);
        let FenceOutcome::Failed(why) = ask(&plugins, "p", Duration::from_secs(3)).await else {
            panic!("nobody listens")
        };
        assert!(why.ends_with(": not confirmed"), "{why}");

        let client = async_nats::connect(server.url()).await.expect("connected");
        let mut orders = client.subscribe("fence.disk").await.expect("subscribed");
        client.flush().await.expect("known to the server");
        let answering = async {
            let mut seen = Vec::new();
            for answer in ["-ERR the switch is away", "+OK"] {
                let message = orders.next().await.expect("an order");
                let event: serde_json::Value =
                    serde_json::from_slice(&message.payload).expect("JSON");
                let headers = message.headers.expect("headers");
                assert_eq!(event["id"], headers.get("Nats-Msg-Id").expect("an id").as_str());
                seen.push((event["id"].clone(), event["data"]["attempt"].clone()));
                let reply = message.reply.expect("where to answer");
                client.publish(reply, answer.into()).await.expect("answered");
            }
            seen
        };
        let (outcome, seen) = tokio::join!(ask(&plugins, "p", PATIENCE), answering);
        assert_eq!(outcome, FenceOutcome::Confirmed);
        assert_eq!(seen[0].0, seen[1].0);
        assert_eq!([&seen[0].1, &seen[1].1], [&1, &2]);
    });
}

#[test]
fn a_server_that_was_away_is_found_again() {
    system(async {
        let mut server = Server::start();
        let client = async_nats::connect(server.url()).await.expect("connected");
        let context = jetstream::new(client);
        let stream = jetstream::stream::Config {
            name: "FENCES".into(),
            subjects: vec!["fence.>".into()],
            ..Default::default()
        };
        context.create_stream(stream).await.expect("a stream");
        let plugin = built(&section(&server, "publish"));
        let (plugins, _) =
            plugins(vec![("p".into(), plugin, limits(Duration::from_secs(2), 20, 4))]);
        for _ in 0..3 {
            assert_eq!(ask(&plugins, "p", PATIENCE).await, FenceOutcome::Confirmed);
        }
        server.kill();
        let (outcome, ()) = tokio::join!(ask_for(&plugins, "p", order("k", 8), PATIENCE), async {
            tokio::time::sleep(Duration::from_millis(300)).await;
            server.run();
        });
        assert_eq!(outcome, FenceOutcome::Confirmed);
        let mut stream = context.get_stream("FENCES").await.expect("the stream");
        let stored = stream.info().await.expect("its state").state.messages;
        assert_eq!(stored, 2, "one for each order, however often it was told");
    });
}

/// Connections end with the thread that they were made on.
#[test]
fn connections_are_made_anew_after_the_death_of_the_actor() {
    system(async {
        let server = Server::start();
        let client = async_nats::connect(server.url()).await.expect("connected");
        let mut orders = client.subscribe("fence.disk").await.expect("subscribed");
        client.flush().await.expect("known to the server");
        tokio::spawn(async move {
            while let Some(order) = orders.next().await {
                let reply = order.reply.expect("where to answer");
                client.publish(reply, "ok".into()).await.expect("answered");
            }
        });
        let database = postgres_server::Server::start().await;
        let table = "CREATE TABLE tenure_fence (key text PRIMARY KEY, token bigint NOT NULL)";
        database.client().await.batch_execute(table).await.expect("a table");
        let (url, _) = webhook::receiver(&[200]);
        let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
        let limits = limits(Duration::from_secs(2), 2, 4);
        let named = |name: &str, section: &str| (name.to_owned(), built(section), limits);
        let (plugins, recorder) = plugins(vec![
            named("nats", &section(&server, "request")),
            named("pg", &format!("kind = \"postgres\"\nurl = \"{}\"\n", database.url())),
            named("hook", &webhook::section(&url, &[secret])),
        ]);
        let names = ["nats", "pg", "hook"];
        for round in 0..3 {
            for name in names {
                assert_eq!(ask(&plugins, name, PATIENCE).await, FenceOutcome::Confirmed, "{name}");
                plugins.kill(name);
            }
            let restarts = "tenure_actor_restarts_total{kind=\"plugin\",reason=\"panic\"}";
            eventually("successors", async || {
                sample(&recorder, restarts) as u64 == 3 * (round + 1)
            })
            .await;
        }
    });
}
