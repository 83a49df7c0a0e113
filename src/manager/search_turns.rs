//! The turns of searches. Where the store answers from memory or from a local disk, a page of a search is read on the thread
//! of the call. A hundred searches at once would take a hundred pages' time of that thread, one after the other, before it
//! served another call.
//!
//! Guarantees: no more than one page is read at a time, the searches take turns, and after each page its thread serves the
//! calls that came meanwhile. Where each scan is charged, reads wait for a network and not for a thread: searches do not wait
//! for each other.

use tokio::sync::Semaphore;

/// The turns of the searches of a node.
pub(super) struct SearchTurns(Option<Semaphore>);

impl SearchTurns {
    /// `charges_scans`: the store is one that does.
    pub(super) fn new(charges_scans: bool) -> Self {
        Self((!charges_scans).then(|| Semaphore::new(1)))
    }

    /// Reads a page when it is its turn.
    pub(super) async fn page<T>(&self, read: impl Future<Output = T>) -> T {
        let turn = match &self.0 {
            Some(turns) => turns.acquire().await.ok(),
            None => None,
        };
        let page = read.await;
        tokio::task::yield_now().await;
        drop(turn);
        page
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use futures_util::future::join_all;

    use super::*;

    /// Ten searches of five pages each. Returns how many pages were read in a row before another call was served.
    fn most_in_a_row(turns: &SearchTurns) -> usize {
        let (row, most) = (Cell::new(0), Cell::new(0));
        let searches = (0..10).map(async |_| {
            for _ in 0..5 {
                turns
                    .page(async {
                        row.set(row.get() + 1);
                        most.set(most.get().max(row.get()));
                    })
                    .await;
            }
        });
        let others = async {
            loop {
                row.set(0);
                tokio::task::yield_now().await;
            }
        };
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            tokio::select! {
                _ = join_all(searches) => {}
                () = others => {}
            }
        });
        most.get()
    }

    #[test]
    fn other_calls_are_served_after_each_page() {
        assert!(most_in_a_row(&SearchTurns::new(false)) <= 2);
        assert!(most_in_a_row(&SearchTurns::new(true)) >= 10, "they wait for a network");
    }
}
