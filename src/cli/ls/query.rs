//! Reads leases page by page. The server cannot leave out free keys, so that is done here.

use crate::{
    cli::exit::Failure,
    client::{Client, LeaseFilter, LeaseView},
};

/// The largest page that the server returns, in rows.
pub(super) const PAGE: u32 = 1000;

/// Which leases are read, and how many.
pub(super) struct Query {
    pub(super) filter: LeaseFilter,
    pub(super) hides_free: bool,
    /// The most leases; `None` for all.
    pub(super) most: Option<u32>,
}

impl Query {
    /// Hands on the leases of each page. Returns the cursor after the last one, if there are more.
    pub(super) async fn each_page(
        mut self,
        client: &Client,
        mut take: impl FnMut(Vec<LeaseView>) -> Result<(), Failure>,
    ) -> Result<Option<String>, Failure> {
        let mut room = self.most.map(|most| usize::try_from(most).unwrap_or(usize::MAX));
        let mut is_first = true;
        loop {
            // Whole pages soon find what is left after many free keys.
            let exact = room.filter(|_| is_first || !self.hides_free);
            let exact = exact.and_then(|room| u32::try_from(room).ok());
            self.filter.limit = Some(exact.map_or(PAGE, |room| room.min(PAGE)));
            is_first = false;
            let page = client.leases(&self.filter).await?;
            let (mut leases, mut next) = (page.leases, page.next);
            leases.retain(|lease| !self.hides_free || lease.state != "free");
            if let Some(room) = &mut room {
                if leases.len() > *room {
                    leases.truncate(*room);
                    // A cursor is the key after which the next page starts.
                    next = leases.last().map(|lease| lease.key.clone());
                }
                *room -= leases.len();
            }
            take(leases)?;
            if next.is_none() || room == Some(0) {
                return Ok(next);
            }
            self.filter.after = next;
        }
    }
}
