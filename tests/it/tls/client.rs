//! The library by https.

use std::time::Duration;

use tenure::client::{Client, ClientError, EventFilter, Hold, StreamItem};

use crate::support::{
    harness::Server,
    tls::{Certificates, Front},
};

#[tokio::test]
async fn a_lease_is_held_and_watched_by_https() {
    let (server, certificates) = (Server::start(), Certificates::make());
    let front = Front::start(&certificates, "server", server.addr);
    let client = Client::builder(&front.url()).ca(certificates.path("ca.pem")).build();
    let client = client.expect("a client");
    let mut events = client.events(EventFilter { after: Some("0".into()), ..Default::default() });
    let hold = Hold::key("k").owner("w").ttl(Duration::from_millis(600));
    let lease = client.hold(hold).await.expect("a lease");
    tokio::time::sleep(Duration::from_millis(1500)).await;
    assert!(lease.valid(), "its heartbeats arrive");
    lease.release().await.expect("released");
    let first = loop {
        let item = tokio::time::timeout(Duration::from_secs(10), events.next()).await;
        if let StreamItem::Event(event) = item.expect("in time").expect("an item") {
            break event;
        }
    };
    assert_eq!(first.kind, "granted");
    assert!(front.heard() >= 1);
}

#[tokio::test]
async fn a_call_that_failed_for_want_of_trust_was_not_carried_out() {
    let (server, certificates) = (Server::start(), Certificates::make());
    let front = Front::start(&certificates, "server", server.addr);
    let client = Client::builder(&front.url()).ca(certificates.path("stranger.pem")).build();
    let error = client.expect("a client").check("k", 1).await.unwrap_err();
    assert!(matches!(error, ClientError::Unreachable { sent: false, .. }), "{error}");
    assert!(error.to_string().contains("ClientBuilder::ca"), "{error}");
    assert_eq!(front.heard(), 0);
}
