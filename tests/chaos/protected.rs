//! Work that a lease protects, and a moment between the check and the write.

use serde_json::json;

use crate::{
    clock::{now, sleep_ms},
    counter::Call,
    history::Op,
    worker::{Answer, Worker},
};

impl Worker {
    /// Reads, checks that it holds the key, looks away for a moment, and writes: what every protected piece
    /// of work comes down to.
    pub(crate) async fn do_protected_work(&mut self) {
        if self.held.is_empty() {
            return;
        }
        let nth = self.below(self.held.len() as u64) as usize;
        let held = self.held.values().nth(nth).cloned().expect("one of them");
        let (key, token) = (held.key, held.token);
        let read = Call::Read { key: key.clone(), token };
        let Some(values) = self.counter.ask(&read).await else { return };
        if now() >= held.until || !self.is_current(&key, token).await {
            return;
        }
        if now() >= held.until {
            return;
        }
        sleep_ms(self.below(self.orders.pause_ms + 1)).await;
        let checked = values.checked.map(|value| value + 1);
        let write = Call::Write { key, token, checked, unchecked: values.unchecked + 1 };
        self.counter.ask(&write).await;
    }

    /// What any coordinator says about a token.
    pub(crate) async fn is_current(&mut self, key: &str, token: u64) -> bool {
        let call = self.asks(Op::Check, key, 0);
        let body = json!({ "key": key, "token": token });
        let Some((Answer { status, body }, _)) = self.ask("/v1/check", Some(&body), 1).await else {
            self.lost(call);
            return false;
        };
        let current = status == 200 && body["current"] == true;
        let why = if current { "current" } else { "not-current" };
        self.refused(call, &json!({ "code": why }));
        current
    }
}
