//! How much happened in a run.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use serde::{Deserialize, Serialize};

use super::{Event, Op, Sight, book::Book, story::Story};

/// How often what happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    pub lines: u64,
    pub keys: u64,
    /// Calls that were asked.
    pub operations: u64,
    pub refused: u64,
    /// Calls whose answer was lost.
    pub lost: u64,
    /// Tenures that a worker was told of.
    pub grants: u64,
    pub heartbeats: u64,
    pub releases: u64,
    /// How often a key went from one owner to another.
    pub take_overs: u64,
    pub revivals: u64,
    pub cuts: u64,
    pub sessions_ended: u64,
    /// Fences that a plugin did its work for.
    pub fences: u64,
    pub commits: u64,
    /// Changes that subscribers were told of.
    pub heard: u64,
    pub resets: u64,
    pub promises: u64,
    pub writes_taken: u64,
    pub writes_refused: u64,
    pub faults: u64,
    pub adoptions: u64,
    pub ambiguous: u64,
    pub lapses: u64,
    pub nodes_ended: u64,
    pub stale_reads: u64,
    pub feed_gaps: u64,
    /// Leases that were held when a coordinator started again.
    pub stood: u64,
    /// Programs that ran under a tenure.
    pub programs: u64,
    /// I8: calls that had to be answered once the faults were over.
    pub judged: u64,
}

/// What a run must have had at least.
pub type Needs = Counts;

impl Counts {
    /// What does not depend on a key.
    pub(super) fn of(book: &Book<'_>) -> Self {
        let mut counts = Self {
            lines: (book.lines.len() - book.judged) as u64,
            keys: book.keys.len() as u64,
            sessions_ended: book.tombstones.len() as u64,
            ..Self::default()
        };
        for line in &book.lines[book.judged..] {
            if let Some(of) = counts.of_event(&line.event) {
                *of += 1;
            }
        }
        counts
    }

    fn of_event(&mut self, event: &Event) -> Option<&mut u64> {
        Some(match event {
            Event::Asked { .. } => &mut self.operations,
            Event::Refused { .. } => &mut self.refused,
            Event::Lost { .. } => &mut self.lost,
            Event::Told { grant: false, .. } => &mut self.heartbeats,
            Event::Acknowledged { op: Op::Release, .. } => &mut self.releases,
            Event::Cut { .. } => &mut self.cuts,
            Event::Fenced { .. } => &mut self.fences,
            Event::Committed { .. } => &mut self.commits,
            Event::Heard { .. } => &mut self.heard,
            Event::Reset { .. } => &mut self.resets,
            Event::Promised { .. } => &mut self.promises,
            Event::Wrote { taken: true, .. } => &mut self.writes_taken,
            Event::Wrote { taken: false, .. } => &mut self.writes_refused,
            Event::Fault { .. } => &mut self.faults,
            Event::Stood { until: Some(_), .. } => &mut self.stood,
            Event::Ran { began: true, .. } => &mut self.programs,
            Event::Seen { sight } => match sight {
                Sight::Adoption => &mut self.adoptions,
                Sight::Ambiguous => &mut self.ambiguous,
                Sight::Lapse => &mut self.lapses,
                Sight::NodeEnded => &mut self.nodes_ended,
                Sight::StaleRead => &mut self.stale_reads,
                Sight::FeedGap => &mut self.feed_gaps,
            },
            _ => return None,
        })
    }

    /// What one key adds.
    pub(super) fn add(&mut self, book: &Book<'_>, story: &Story<'_>) {
        let told: BTreeMap<u64, &str> =
            story.windows.iter().map(|window| (window.token, window.worker)).collect();
        let before = story.windows.iter().filter(|window| window.opened < book.judged);
        let before: BTreeSet<u64> = before.map(|window| window.token).collect();
        self.grants += (told.len() - before.len()) as u64;
        let committed = story.commits.iter().filter(|commit| commit.grants());
        let granted: BTreeMap<u64, &str> =
            committed.clone().map(|commit| (commit.token, commit.owner)).collect();
        self.revivals += (committed.count() - granted.len()) as u64;
        let owners: Vec<&str> =
            if granted.is_empty() { told } else { granted }.into_values().collect();
        self.take_overs += owners.windows(2).filter(|pair| pair[0] != pair[1]).count() as u64;
    }

    /// With what there was in another part of the run.
    pub fn and(&self, other: &Self) -> Self {
        let mut all = *self;
        for (name, number) in other.named() {
            all.set(&name, self.named()[&name] + number).expect("a name of theirs");
        }
        all
    }

    fn named(&self) -> BTreeMap<String, u64> {
        let value = serde_json::to_value(self).expect("numbers");
        serde_json::from_value(value).expect("numbers")
    }

    /// `Err`: of what there was too little.
    pub fn cover(&self, needs: &Needs) -> Result<(), String> {
        let (had, needs) = (self.named(), needs.named());
        let short = needs.iter().filter(|(name, need)| had[*name] < **need);
        let short: Vec<String> =
            short.map(|(name, need)| format!("{name}: {} of {need}", had[name])).collect();
        if short.is_empty() {
            Ok(())
        } else {
            Err(format!("too little happened: {}", short.join(", ")))
        }
    }

    /// Needs one thing by its name.
    pub fn set(&mut self, name: &str, number: u64) -> Result<(), String> {
        let mut all = self.named();
        *all.get_mut(name).ok_or_else(|| {
            format!(
                "{name:?} is none of {}",
                self.named().into_keys().collect::<Vec<_>>().join(", ")
            )
        })? = number;
        let value = serde_json::to_value(&all).expect("numbers");
        *self = serde_json::from_value(value).expect("numbers");
        Ok(())
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let had = self.named().into_iter().filter(|(_, number)| *number > 0);
        let had: Vec<String> =
            had.map(|(name, number)| format!("{number} {}", name.replace('_', " "))).collect();
        f.write_str(&had.join(", "))
    }
}
