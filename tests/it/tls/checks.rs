//! Checks of sessions by https.

use serde_json::json;

use crate::support::{
    harness::{Server, eventually, kinds},
    tls::{Certificates, Front},
};

const TTL_MS: u64 = 1000;

#[tokio::test]
async fn an_https_check_passes_where_an_authority_vouches_and_fails_where_none_does() {
    let certificates = Certificates::make();
    let ca = format!("checks.ca={}", certificates.path("ca.pem").display());
    let stranger = format!("checks.ca={}", certificates.path("stranger.pem").display());
    for (set, trusted) in [(&ca, true), (&stranger, false)] {
        let server = Server::with(&[set]);
        let front = Front::start(&certificates, "server", server.addr);
        let check = json!({ "type": "http", "url": format!("{}/livez", front.url()),
            "interval_ms": 100, "timeout_ms": 2000, "fail_after": 2 });
        let session = server.session("w", TTL_MS, json!({ "checks": [check] })).await;
        server.acquire_under("k", "w", &session).await;
        if trusted {
            let passed = "tenure_session_checks_total{kind=\"http\",outcome=\"passed\"}";
            eventually(passed, async || {
                assert_eq!(server.beat(&session).await.status, 200, "the session is kept");
                server.metric(passed).await >= 5.0
            })
            .await;
            assert!(front.heard() >= 5);
        } else {
            eventually("the end", async || server.beat(&session).await.status == 409).await;
            eventually("the lease's end", async || server.events_of("k").await.len() == 2).await;
            let events = server.events_of("k").await;
            assert_eq!(kinds(&events), ["granted", "session-ended"]);
            let reason = events[1]["data"]["reason"].as_str().expect("a reason");
            assert!(reason.starts_with("check http: "), "{reason}");
            assert_eq!(front.heard(), 0);
        }
    }
}
