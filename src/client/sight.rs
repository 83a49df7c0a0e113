//! Looks at the lease that a call waits for, over another connection than the call's.
//!
//! A proxy or a balancer may keep a connection open and pass nothing on any more. The call on it would then wait, although
//! the lease is free.

use std::time::Duration;

use serde_json::Value;

use super::{
    Client, LeaseView,
    ask::{ALL, Ask},
    call::Call,
};

/// The pause before a look: at first, and at most. It grows with each look that found the lease free: the coordinator may
/// have a reason not to grant it, such as a pin.
const PAUSES: [Duration; 2] = [Duration::from_secs(10), Duration::from_secs(80)];
/// How long a look may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// A call for more keys than this is not looked after: it ends by itself before long.
const MOST_KEYS: usize = 8;

/// What a call waits for, and when to look at it.
pub(super) struct Sight {
    keys: Vec<String>,
    /// Whether all of the keys must be free.
    all: bool,
    /// Of a call for one key: who is to have it.
    owner: Option<String>,
    pause: Duration,
}

impl Sight {
    pub(super) fn of(ask: &Ask) -> Self {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let whole = |wanted: &Value| {
            // Whether enough permits of a key are free is not known here.
            let is_whole = wanted["permits"].is_null() && wanted["mode"].is_null();
            text(wanted).or_else(|| text(&wanted["key"]).filter(|_| is_whole))
        };
        let wanted = ask.body["keys"].as_array().map_or(&[][..], Vec::as_slice);
        let mut keys: Vec<String> =
            [&ask.body].into_iter().chain(wanted).filter_map(whole).collect();
        // A member's share may be full although keys are free.
        if keys.len() > MOST_KEYS || keys.len() < wanted.len() || ask.body["count"] == "fair" {
            keys.clear();
        }
        let owner = text(&ask.body["owner"]).filter(|_| ask.path == "acquire");
        Self { keys, all: ask.path == ALL, owner, pause: PAUSES[0] }
    }

    /// Resolves when a look shows that there is nothing to wait for: the lease is free, or it was granted to this owner and
    /// the answer was lost.
    pub(super) async fn is_free(&mut self, client: &Client) {
        loop {
            tokio::time::sleep(self.pause).await;
            let mut seen = Vec::new();
            for key in &self.keys {
                seen.push(self.look(client, key).await);
            }
            let free = seen.iter().filter(|free| **free).count();
            if free > 0 && (!self.all || free == seen.len()) {
                self.pause = (self.pause * 2).min(PAUSES[1]);
                return;
            }
        }
    }

    async fn look(&self, client: &Client, key: &str) -> bool {
        let call = Call::get("leases").segment(key).timeout(PATIENCE);
        let looked: Result<LeaseView, _> = client.ask_around(&call, None).await;
        looked.is_ok_and(|lease| {
            let is_own = lease.owner.is_some() && lease.owner == self.owner;
            is_own
                || (lease.state == "free"
                    && !lease.other.get("pinned").is_some_and(|pinned| pinned == true))
        })
    }
}
