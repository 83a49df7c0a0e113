//! Checks that the store is still the same, and that the consumer keeps up.

use std::{sync::Arc, time::Duration};

use async_nats::jetstream::stream::{ClusterInfo, PeerInfo};
use tokio::time::sleep;

use super::{
    super::{RESTORING, ROTATED, own_level},
    core::{Core, lock},
    follow,
    link::{Asked, created},
    meta::{self, MetaState},
};
use crate::lease::Revision;

/// How often the store is checked.
pub(super) const EVERY: Duration = Duration::from_millis(500);
/// How many checks in a row must agree before the stream counts as gone or as having gone backwards. A cluster
/// that is electing its leaders may seem so for a moment. Nothing is written meanwhile.
pub(super) const CONFIRM: u32 = 8;
/// A leader hears from its followers each second. A follower that was silent for this time may follow another
/// leader.
const HEARD: Duration = Duration::from_millis(2500);
/// How many checks in a row may lack a message that the stream has. After that, a new consumer is made.
const STALE: u32 = 4;

/// The result of a check.
enum Look {
    Fine,
    /// It is certainly another store.
    Wrong(String),
    /// It may be another store.
    Suspect(String),
    /// It goes on, and the server that answered knows less of it than others do.
    Behind(String),
    /// The store does not answer.
    Silent(String),
}

#[derive(Default)]
struct Watch {
    suspicions: u32,
    still: u32,
    consumed: u64,
    /// The highest sequence that the node had seen at the last look.
    highest: u64,
}

/// Checks the store until the task is aborted.
pub(super) async fn watch(core: Arc<Core>) {
    let mut watch = Watch::default();
    loop {
        sleep(EVERY).await;
        // The task that thaws a frozen store checks it instead.
        if core.condition().frozen.is_some() {
            watch = Watch::default();
            continue;
        }
        let look = watch.look(&core).await;
        watch.conclude(&core, look);
    }
}

impl Watch {
    fn conclude(&mut self, core: &Core, look: Look) {
        let mut condition = core.condition();
        match look {
            Look::Fine => {
                self.suspicions = 0;
                (condition.suspect, condition.failing) = (None, None);
            }
            Look::Silent(why) => {
                self.suspicions = 0;
                condition.failing = Some(why);
            }
            Look::Behind(why) => {
                self.suspicions = 0;
                (condition.suspect, condition.failing) = (None, Some(why));
            }
            Look::Suspect(why) => {
                self.suspicions += 1;
                condition.suspect = Some(why.clone());
                if self.suspicions >= CONFIRM {
                    condition.suspect = None;
                    drop(condition);
                    core.freeze(why);
                }
            }
            Look::Wrong(why) => {
                drop(condition);
                core.freeze(why);
            }
        }
    }

    async fn look(&mut self, core: &Arc<Core>) -> Look {
        let highest = core.highest();
        let goes_on = self.has_risen(highest);
        let info = match core.link.info().await {
            Asked::Here(info) => info,
            Asked::Gone => return Look::Suspect("the bucket is gone".to_owned()),
            Asked::Unanswered(why) => return Look::Silent(why),
        };
        if created(&info) != lock(&core.origin).stream_created {
            return Look::Wrong("the bucket was deleted and made again".to_owned());
        }
        let last = info.state.last_sequence;
        if last < highest {
            if goes_on {
                let why = "the server that answers for the stream knows less of it than others";
                return Look::Behind(why.to_owned());
            }
            if !leads(info.cluster.as_ref()) {
                let why = "the stream's leader has lost touch with the others";
                return Look::Silent(why.to_owned());
            }
            return suspect(core, less_than_seen(last, highest)).await;
        }
        self.keep_up(core, last);
        let known = core.meta();
        match meta::read(&core.link).await {
            Err(why) => Look::Silent(why.to_string()),
            Ok(MetaState::Missing(_)) => {
                suspect(core, "the store's own record is gone".to_owned()).await
            }
            Ok(MetaState::Damaged(_, why)) => {
                suspect(core, format!("the store's own record {why}")).await
            }
            Ok(MetaState::Here(_, now)) if now.restoring && !core.options.restore => {
                Look::Wrong(RESTORING.to_owned())
            }
            Ok(MetaState::Here(_, now)) if core.is_rotated(&now) => Look::Wrong(ROTATED.to_owned()),
            Ok(MetaState::Here(_, now)) if now.epoch > known.epoch => Look::Wrong(format!(
                "its epoch was raised from {} to {}, which this node has not adopted yet",
                known.epoch.0, now.epoch.0
            )),
            Ok(MetaState::Here(_, now)) if now.identity != known.identity => {
                Look::Wrong("it is another store than before".to_owned())
            }
            Ok(MetaState::Here(_, now)) => match own_level().opens(now.level) {
                Ok(()) => Look::Fine,
                Err(why) => Look::Wrong(why.to_string()),
            },
        }
    }

    /// Whether the node has seen higher sequences since the last look. A stream that went backwards delivers none.
    fn has_risen(&mut self, highest: u64) -> bool {
        let before = std::mem::replace(&mut self.highest, highest);
        highest > before
    }

    /// Follows the stream again if the consumer does not deliver what the stream has.
    fn keep_up(&mut self, core: &Arc<Core>, last: u64) {
        let consumed = core.table().consumed();
        if consumed >= last || consumed > self.consumed {
            (self.still, self.consumed) = (0, consumed);
            return;
        }
        self.still += 1;
        if self.still.is_multiple_of(STALE) {
            // At first, the reason may be that the stream dropped its last messages.
            if self.still > STALE {
                let why = format!("the feed stands at {consumed}, the stream at {last}");
                core.condition().stale = Some(why);
            }
            follow::again(core);
        }
    }
}

/// Suspects the stream if its leader takes writes. A leader that was just elected answers before it has applied all
/// that its log has, and takes writes only after that.
async fn suspect(core: &Core, why: String) -> Look {
    match core.link.leader_takes_writes().await {
        true => Look::Suspect(why),
        false => Look::Silent("the stream's leader takes no writes".to_owned()),
    }
}

/// Whether the server that answered for a stream leads most of the servers that have it. A server that was cut
/// off believes that it leads until it hears otherwise, and knows less than the others.
pub(super) fn leads(cluster: Option<&ClusterInfo>) -> bool {
    let peers = cluster.map_or(&[][..], |cluster| &cluster.replicas);
    let follows = |peer: &&PeerInfo| !peer.offline && peer.active < HEARD;
    2 * (1 + peers.iter().filter(follows).count()) > 1 + peers.len()
}

/// Why the store is not the one that the witness remembers, or is an earlier state of it; `None` if it is the
/// same or a later one.
pub(super) fn went_backwards(
    witness: &super::super::Witness,
    now: &meta::MetaRecord,
    last: Revision,
) -> Option<String> {
    if now.epoch > witness.epoch {
        return None;
    }
    if now.identity != witness.identity {
        return Some("it is another store than this node knew".to_owned());
    }
    if now.epoch < witness.epoch {
        let (now, known) = (now.epoch.0, witness.epoch.0);
        return Some(format!("its epoch went backwards: it is {now}, and {known} was seen"));
    }
    (last < witness.highest).then(|| less_than_seen(last.0, witness.highest.0))
}

/// The reason for suspecting a stream, for people.
pub(super) fn less_than_seen(last: u64, highest: u64) -> String {
    format!("the stream went backwards: its last sequence is {last}, and {highest} was seen")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Whether a server leads if it heard from its followers this many milliseconds ago.
    fn leads_after(heard_ms: &[u64]) -> bool {
        let peer = |ms: &u64| json!({ "name": "n", "current": true, "active": ms * 1_000_000 });
        let peers: Vec<_> = heard_ms.iter().map(peer).collect();
        let cluster = json!({ "name": "c", "leader": "n0", "replicas": peers });
        leads(Some(&serde_json::from_value(cluster).expect("as a server says it")))
    }

    #[test]
    fn a_stream_that_delivers_more_has_not_gone_backwards() {
        let mut watch = Watch::default();
        let rises = [2200, 2200, 2208, 2225, 2225, 2225].map(|seen| watch.has_risen(seen));
        assert_eq!(rises, [true, false, true, true, false, false]);
    }

    #[test]
    fn a_leader_that_was_cut_off_is_not_believed_to_know_the_end_of_the_stream() {
        assert!(leads(None), "one server alone");
        assert!(leads_after(&[]) && leads_after(&[900, 1100]) && leads_after(&[900, 60_000]));
        assert!(!leads_after(&[3000, 60_000]) && !leads_after(&[3000]));
        assert!(leads_after(&[1, 1, 9000, 9000]) && !leads_after(&[1, 9000, 9000, 9000]));
    }
}
