//! A session, and the leases that it keeps.

use serde_json::json;

use super::{
    Client, Holdings, Lease, Loss, Notice, Opened, SessionAlive, guarantee::Sent,
    session_state::SessionState,
};

fn opened() -> Opened {
    let session = json!({
        "id": "id", "valid_for_ms": 60_000, "digest": "00", "owner": "w", "ttl_ms": 60_000, "state": "held",
    });
    serde_json::from_value(session).expect("a session")
}

#[tokio::test]
async fn a_notice_of_an_earlier_tenure_does_not_end_the_present_one() {
    let client = Client::new("http://127.0.0.1:9").expect("a client");
    let sent = Sent::now(client.clock.as_ref());
    let session_state = SessionState::new(client.clone(), opened(), sent, true);
    let take = |token: u64| {
        let grant = json!({
            "key": "k", "owner": "w", "state": "held", "token": token, "lease_id": "l", "valid_for_ms": 60_000,
        });
        let grant = serde_json::from_value(grant).expect("a grant");
        Lease::new(client.clone(), grant, sent, session_state.ttl, Some(session_state.clone()))
    };
    let revoked = |token: u64| SessionAlive {
        valid_for_ms: 60_000,
        leases: Holdings::default(),
        notices: vec![Notice {
            kind: "revoked".to_owned(),
            key: Some("k".to_owned()),
            token: Some(token),
            deadline_ms: None,
            ..Notice::default()
        }],
    };
    let lease = take(7);
    session_state.heard(&revoked(5), sent);
    assert!(lease.valid(), "the notice is about an earlier tenure");
    let again = take(8);
    assert!(again.valid(), "so is it for a grant that was asked for before");
    session_state.heard(&revoked(8), sent);
    assert_eq!(again.deadline().lost, Some(Loss::Revoked));
    assert_eq!(take(8).deadline().lost, Some(Loss::Revoked), "and known late it is none");
}
