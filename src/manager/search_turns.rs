//! The turns of searches. Where the store answers from memory or from a local disk, a page of a search is read on the thread
//! of the call. A hundred searches at once would take a hundred pages' time of that thread, one after the other, before it
//! served another call.
//!
//! Guarantees: no more than one page at a time is read from memory or from a local disk, the searches take turns, and after
//! each page its thread serves the calls that came meanwhile. A read that waits, as for a network, gives its turn back: no
//! search waits for the store of another one.

use std::{future::poll_fn, pin::pin, task::Poll};

use tokio::sync::Semaphore;

/// The turns of the searches of a node.
pub(super) struct SearchTurns(Semaphore);

impl SearchTurns {
    pub(super) fn new() -> Self {
        Self(Semaphore::new(1))
    }

    /// Reads a page when it is its turn.
    pub(super) async fn page<T>(&self, read: impl Future<Output = T>) -> T {
        let mut read = pin!(read);
        let turn = self.0.acquire().await.ok();
        let at_once = poll_fn(|context| Poll::Ready(read.as_mut().poll(context))).await;
        let Poll::Ready(page) = at_once else {
            drop(turn);
            return read.await;
        };
        tokio::task::yield_now().await;
        drop(turn);
        page
    }
}

#[cfg(test)]
mod tests {
    use std::{cell::Cell, future::pending, time::Duration};

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
        assert!(most_in_a_row(&SearchTurns::new()) <= 2);
    }

    #[tokio::test]
    async fn a_read_that_never_ends_keeps_no_other_search_from_its_page() {
        let turns = SearchTurns::new();
        let stuck = turns.page(pending::<()>());
        let other = async {
            tokio::task::yield_now().await;
            turns.page(async { "the page" }).await
        };
        tokio::select! {
            biased;
            () = stuck => unreachable!("its read never ends"),
            page = other => assert_eq!(page, "the page"),
            () = tokio::time::sleep(Duration::from_secs(5)) => panic!("the search waits for the store of another one"),
        }
    }

    #[tokio::test]
    async fn a_read_that_waits_ends_with_its_page() {
        let turns = SearchTurns::new();
        let read = async {
            tokio::task::yield_now().await;
            "the page"
        };
        assert_eq!(turns.page(read).await, "the page");
    }
}
