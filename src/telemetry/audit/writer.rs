//! The thread that writes.

use std::{io, sync::Arc, time::Duration};

use super::{
    budget::Budgets,
    chain::{Chain, Gap, Head, Said},
    entry::AuditEvent,
    kept::{Heads, Kept},
    lacks::Lacks,
    lines::{CallLine, ChangeLine},
    queue::Queue,
    trail::{Found, Trail},
};
use crate::{clock::Clock, lease::Moment};

/// How often lines are made durable, lost and counted calls are mentioned, and the files are looked at.
const SETTLE: Duration = Duration::from_secs(1);
/// How often the ordinary log has the digests of the last lines.
const HEAD_EVERY: Duration = Duration::from_secs(60);
/// How often the ordinary log says that lines are lost.
const COMPLAIN_EVERY: Duration = Duration::from_secs(10);

pub(super) struct Writer {
    lanes: [Lane; 2],
    kept: Option<Kept>,
    heads: Heads,
    budgets: Arc<Budgets>,
    lacks: Arc<Lacks>,
    clock: Arc<dyn Clock>,
    settled: Moment,
    head_at: Moment,
    complained: Option<Moment>,
}

/// One chain, as its thread sees it.
struct Lane {
    chain: Chain,
    trail: Trail,
    /// Why the last line could not be written.
    why: Option<io::Error>,
    is_unsynced: bool,
    /// The digest that the ordinary log had last.
    said: Head,
}

impl Lane {
    fn new(chain: Chain, trail: Trail) -> Self {
        Self { chain, said: trail.head(), trail, why: None, is_unsynced: false }
    }

    /// Looks at the file, and reports a file that is not as it was written.
    fn look(&mut self, lacks: &Lacks, now: Moment) -> bool {
        match self.trail.look() {
            Ok(found) => {
                tell(self.chain, &found, lacks, now);
                true
            }
            Err(why) => {
                self.why = Some(why);
                false
            }
        }
    }

    fn append(&mut self, wall_ms: u64, said: &Said<'_>, (lacks, now): (&Lacks, Moment)) -> bool {
        if !self.look(lacks, now) {
            return false;
        }
        match self.trail.append(wall_ms, said) {
            Ok(()) => {
                (self.why, self.is_unsynced) = (None, true);
                true
            }
            Err(why) => {
                self.why = Some(why);
                false
            }
        }
    }

    /// Looks at the file although nothing is to be written.
    fn settle(&mut self, wall_ms: u64, lacks: &Lacks, now: Moment) {
        if !self.look(lacks, now) || *self.trail.news() == Found::Same {
            return;
        }
        match self.trail.append_news(wall_ms) {
            Ok(()) => self.is_unsynced = true,
            Err(why) => self.why = Some(why),
        }
    }

    /// Makes the lines durable. Returns whether they are.
    fn sync(&mut self) -> bool {
        if !self.is_unsynced {
            return true;
        }
        match self.trail.sync() {
            Ok(()) => {
                self.is_unsynced = false;
                true
            }
            Err(why) => {
                let chain = self.chain.as_str();
                tracing::error!(chain, %why, "audit lines may not survive a power failure: the file cannot be synced");
                self.why = Some(why);
                false
            }
        }
    }
}

/// Reports a file that is not as it was written.
fn tell(chain: Chain, found: &Found, lacks: &Lacks, now: Moment) {
    let chain = chain.as_str();
    match found {
        Found::Same => {}
        Found::Moved => {
            tracing::warn!(
                chain,
                "the file of the audit log was moved away: a new one continues the chain"
            );
        }
        Found::Gap(Gap { written, found }) => {
            lacks.gap(now);
            tracing::error!(
                chain, %written, %found,
                "the audit log lacks lines that were written: its end was cut off or changed, or a file was removed. The \
                 chain goes on after the last line that was written; find out who may write the file"
            );
        }
    }
}

impl Writer {
    pub(super) fn new(
        [calls, changes]: [Trail; 2],
        kept: Option<Kept>,
        budgets: Arc<Budgets>,
        lacks: Arc<Lacks>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let now = clock.now();
        let lanes = [Lane::new(Chain::Calls, calls), Lane::new(Chain::Changes, changes)];
        for Lane { chain, trail, .. } in &lanes {
            let (seq, head) = (trail.head().seq(), trail.head());
            tracing::info!(chain = chain.as_str(), seq, %head, "audit log opened");
            tell(*chain, trail.news(), &lacks, now);
        }
        if kept.is_none() {
            tracing::info!(
                "an end of the audit log that is cut off while the coordinator is stopped is not noticed: no \
                            place for its last line is known (node.witness)"
            );
        }
        let heads = Heads::default();
        Self {
            lanes,
            kept,
            heads,
            budgets,
            lacks,
            clock,
            settled: now,
            head_at: now,
            complained: None,
        }
    }

    pub(super) fn run(mut self, lines: Arc<Queue<CallLine, ChangeLine>>) {
        loop {
            let batch = lines.take(SETTLE);
            // Changes come first: callers may wait for them.
            self.changes(batch.changes);
            for (wall_ms, entry) in batch.calls {
                self.write(Chain::Calls, wall_ms, &Said::Call(&entry));
            }
            let now = self.clock.now();
            if batch.is_last || now.since(self.settled) >= SETTLE {
                self.settle(now);
            }
            if batch.is_last {
                break;
            }
        }
        self.say_heads();
    }

    /// Writes changes. A change whose caller waits is durable before the caller continues.
    fn changes(&mut self, changes: impl IntoIterator<Item = ChangeLine>) {
        let mut waiting = Vec::new();
        for ChangeLine { wall_ms, entry, kept } in changes {
            let is_written = self.write(Chain::Changes, wall_ms, &Said::Call(&entry));
            waiting.extend(kept.map(|kept| (kept, is_written)));
        }
        if waiting.is_empty() {
            return;
        }
        let is_durable = self.lanes[Chain::Changes as usize].sync();
        for (kept, is_written) in waiting {
            let _ = kept.send(is_written && is_durable);
        }
    }

    /// Writes a line, which is lost if that is not possible.
    fn write(&mut self, chain: Chain, wall_ms: u64, said: &Said<'_>) -> bool {
        let now = self.clock.now();
        let is_written = self.mention_lost(chain, now)
            && self.lanes[chain as usize].append(wall_ms, said, (&self.lacks, now));
        if !is_written {
            self.lacks.lose(chain, now);
        }
        is_written
    }

    /// Writes how many lines of a chain were lost, if any were. Returns whether none are left to mention.
    fn mention_lost(&mut self, chain: Chain, now: Moment) -> bool {
        let lost = self.lacks.take(chain);
        if lost == 0 {
            return true;
        }
        let said = Said::Lost(lost);
        let wall_ms = self.clock.wall_ms();
        let is_mentioned = self.lanes[chain as usize].append(wall_ms, &said, (&self.lacks, now));
        if !is_mentioned {
            self.lacks.give_back(chain, lost);
        }
        self.complain(chain, lost, now);
        is_mentioned
    }

    fn complain(&mut self, chain: Chain, lost: u64, now: Moment) {
        if self.complained.is_some_and(|before| now.since(before) < COMPLAIN_EVERY) {
            return;
        }
        self.complained = Some(now);
        match &self.lanes[chain as usize].why {
            Some(why) => {
                tracing::error!(lost, %why, "audit lines are lost: the file cannot be written; free disk space")
            }
            None => tracing::error!(lost, "audit lines are lost: more came than could be written"),
        }
    }

    fn settle(&mut self, now: Moment) {
        self.settled = now;
        for many in self.budgets.counted(now) {
            let is_change = many.event == AuditEvent::Change;
            let chain = if is_change { Chain::Changes } else { Chain::Calls };
            self.write(chain, many.until_ms, &Said::Many(&many));
        }
        let mut is_durable = true;
        for chain in Chain::ALL {
            self.mention_lost(chain, now);
            let lane = &mut self.lanes[chain as usize];
            lane.settle(self.clock.wall_ms(), &self.lacks, now);
            is_durable &= lane.sync();
        }
        if is_durable {
            self.keep_heads();
        }
        if now.since(self.head_at) >= HEAD_EVERY {
            self.head_at = now;
            self.say_heads();
        }
    }

    /// Remembers the last lines apart from the files. They are durable.
    fn keep_heads(&mut self) {
        let head = |chain: Chain| {
            let head = self.lanes[chain as usize].trail.head();
            (head != Head::START).then_some(head)
        };
        let heads = Heads { calls: head(Chain::Calls), changes: head(Chain::Changes) };
        let Some(kept) = self.kept.as_ref().filter(|_| heads != self.heads) else { return };
        match kept.write(&heads) {
            Ok(()) => self.heads = heads,
            Err(error) => {
                tracing::warn!(%error, "the last line of the audit log cannot be remembered; free disk space");
            }
        }
    }

    /// Writes the digests of the last lines to the ordinary log, if lines were written since.
    fn say_heads(&mut self) {
        for lane in &mut self.lanes {
            let head = lane.trail.head();
            if head != lane.said {
                lane.said = head;
                tracing::info!(%head, chain = lane.chain.as_str(), "audit log head");
            }
        }
    }
}
