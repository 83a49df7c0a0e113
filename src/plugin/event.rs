//! A fence order as JSON and as a CloudEvent.

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::contract::FenceOrder;
use crate::clock::rfc3339;

/// The id of an order: the same for every try, on every node.
pub(super) fn id(plugin: &str, order: &FenceOrder) -> String {
    let mut hash = Sha256::new();
    for part in [plugin, order.key.as_str()] {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    hash.update(order.token.0.to_be_bytes());
    let digest = hash.finalize();
    let hex: String = digest[..16].iter().map(|byte| format!("{byte:02x}")).collect();
    format!("fence_{hex}")
}

/// The order as JSON: the input of a program, and the data of an event.
pub(super) fn data(order: &FenceOrder) -> Value {
    json!({
        "key": order.key.as_str(),
        "token": order.token.0,
        "owner": order.owner.as_str(),
        "reason": order.reason.as_str(),
        "session": order.session.map(|session| session.to_string()),
        "pool": &*order.pool,
        "attempt": order.attempt,
    })
}

/// The order as a CloudEvent 1.0 in structured mode.
pub(super) fn cloud_event(plugin: &str, order: &FenceOrder, wall_ms: u64) -> Vec<u8> {
    let event = json!({
        "specversion": "1.0",
        "type": "io.tenure.lease.fencing",
        "source": format!("/tenure/plugins/{plugin}"),
        "id": id(plugin, order),
        "time": rfc3339(wall_ms),
        "subject": order.key.as_str(),
        "datacontenttype": "application/json",
        "data": data(order),
    });
    event.to_string().into_bytes()
}

#[cfg(test)]
pub(super) fn order(key: &str, token: u64) -> FenceOrder {
    use crate::lease::{ChangeKind, Key, Owner, Token};
    FenceOrder {
        key: Key::new(key).unwrap(),
        token: Token(token),
        owner: Owner::new("worker-1").unwrap(),
        reason: ChangeKind::Expired,
        session: None,
        pool: "default".into(),
        attempt: 1,
        traceparent: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_is_named_by_plugin_key_and_token_alone() {
        let first = order("a", 7);
        let later = FenceOrder { attempt: 3, pool: "other".into(), ..first.clone() };
        assert_eq!(id("p", &first), id("p", &later));
        let others = [id("q", &first), id("p", &order("b", 7)), id("p", &order("a", 8))];
        assert!(others.iter().all(|other| *other != id("p", &first)));
        assert_ne!(id("pa", &order("b", 7)), id("p", &order("ab", 7)));
    }
}
