//! NATS, with a real server.

use std::time::Duration;

use async_nats::jetstream;
use futures_util::StreamExt;
use tenure::actor::FenceOutcome;

use crate::{kit::*, nats_server::Server};

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
        assert!(why.contains("no responders"), "{why}");

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
