//! Watches that the store is still the one that it was, and that the consumer keeps up.

use std::{sync::Arc, time::Duration};

use tokio::time::sleep;

use super::{
    super::RESTORING,
    core::{Core, lock},
    follow,
    link::{Asked, created},
    meta::{self, MetaState},
};
use crate::lease::Revision;

/// How often the store is looked at.
pub(super) const EVERY: Duration = Duration::from_millis(500);
/// So many looks in a row have to show the same before a stream that seems gone, or to have gone
/// backwards, is believed to be: a cluster that elects its leaders may say so for a moment.
pub(super) const CONFIRM: u32 = 4;
/// So many looks in a row without a message that the stream has, and the consumer is made anew.
const STALE: u32 = 4;

/// What a look showed.
enum Look {
    Fine,
    /// Another store, beyond doubt.
    Wrong(String),
    /// Perhaps another store.
    Suspect(String),
    /// No answer.
    Silent(String),
}

/// What was seen so far.
#[derive(Default)]
struct Watch {
    suspicions: u32,
    still: u32,
    consumed: u64,
}

/// Looks at the store for ever.
pub(super) async fn watch(core: Arc<Core>) {
    let mut watch = Watch::default();
    loop {
        sleep(EVERY).await;
        // A frozen store is looked at by who thaws it.
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
                (condition.suspect, condition.trouble) = (None, None);
            }
            Look::Silent(why) => condition.trouble = Some(why),
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
            return Look::Suspect(less_than_seen(last, highest));
        }
        self.keep_up(core, last);
        let known = core.meta();
        match meta::read(&core.link).await {
            Err(why) => Look::Silent(why.to_string()),
            Ok(MetaState::Missing(_)) => Look::Suspect("the store's own record is gone".to_owned()),
            Ok(MetaState::Damaged(_, why)) => {
                Look::Suspect(format!("the store's own record {why}"))
            }
            Ok(MetaState::Here(_, now)) if now.restoring && !core.options.restore => {
                Look::Wrong(RESTORING.to_owned())
            }
            Ok(MetaState::Here(_, now)) if now.epoch > known.epoch => Look::Wrong(format!(
                "its epoch was raised from {} to {}, which this node has not taken up",
                known.epoch.0, now.epoch.0
            )),
            Ok(MetaState::Here(_, now)) if now.identity != known.identity => {
                Look::Wrong("it is another store than before".to_owned())
            }
            Ok(MetaState::Here(..)) => Look::Fine,
        }
    }

    /// Follows the stream anew if nothing comes of what it has.
    fn keep_up(&mut self, core: &Arc<Core>, last: u64) {
        let consumed = core.table().consumed();
        if consumed >= last || consumed > self.consumed {
            (self.still, self.consumed) = (0, consumed);
            return;
        }
        self.still += 1;
        if self.still.is_multiple_of(STALE) {
            // The first time it may be that the stream dropped what came last.
            if self.still > STALE {
                let why = format!("the feed stands at {consumed}, the stream at {last}");
                core.condition().stale = Some(why);
            }
            follow::again(core);
        }
    }
}

/// Whether a store that a node remembers is this one, as it was or further on.
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

/// Why a stream is suspected, for people.
pub(super) fn less_than_seen(last: u64, highest: u64) -> String {
    format!("the stream went backwards: its last sequence is {last}, and {highest} was seen")
}
