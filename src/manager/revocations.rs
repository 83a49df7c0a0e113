//! The revocation list: the principals and credentials that get 401, whatever the access file says.
//!
//! Guarantees: an order that returned `Ok` is durable, and in force at this node. Of two orders, each is applied to what
//! the other left. Every node that the store's feed reaches follows within the time that the feed takes.
//!
//! Does not guarantee: that a node that the store does not reach follows. Its record runs out within `node.ttl`, and from
//! then on it promises and grants nothing.

use std::{sync::Arc, time::Duration};

use super::{
    AdminError, Asked, CallError, Invalid, MAX_VALUE_BYTES, Manager, checks::check_text,
    revocation_list::ListTrouble,
};
use crate::{
    access::{Access, AccessOrder, Current, Doors, NotCarriedOut, Revocation, Revoked, Target},
    actor::supervise,
    api::limits::MAX_REASON_BYTES,
    lease::Key,
};

/// The bytes of a list that has room for few more entries.
const NEARLY_FULL: usize = MAX_VALUE_BYTES / 4 * 3;
/// How long an order waits for others.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often the list is read even if nothing was heard of it.
const LOOK: Duration = Duration::from_secs(30);
/// How long to wait after a failed read before the next one.
const RETRY: Duration = Duration::from_millis(500);
/// After this many failed reads in a row, the log and the status report them.
const TOLD_AFTER: u32 = 10;

impl Manager {
    /// Reads the list, and follows it from then on: for these principals, or only to show it.
    ///
    /// # Errors
    /// The store cannot be read.
    pub(crate) async fn follow_revocations(
        self: &Arc<Self>,
        current: Option<&Arc<Current>>,
        doors: Doors,
    ) -> Result<(), CallError> {
        let _ = self.revocations.doors.set(doors);
        if current.is_some() {
            let _ = self.revocations.is_asked.set(());
        }
        let current = current.cloned().unwrap_or_else(|| Arc::new(Current::new(Access::default())));
        if self.revocations.current.set(current).is_ok() {
            self.refresh_revocations().await?;
            supervise(self, "the revocation list", |manager| manager.keep_revocations());
        }
        Ok(())
    }

    /// Never returns.
    async fn keep_revocations(self: Arc<Self>) {
        let mut failures = 0u32;
        loop {
            tokio::select! {
                () = self.coordinator.revocations.notified() => {}
                () = tokio::time::sleep(LOOK) => {}
            }
            while let Err(error) = self.refresh_revocations().await {
                failures = failures.saturating_add(1);
                if failures == TOLD_AFTER {
                    let now_ms = self.coordinator.clock.wall_ms();
                    self.revocations.trouble(Some(ListTrouble::Unread(error.to_string())), now_ms);
                }
                tokio::time::sleep(RETRY).await;
            }
            failures = 0;
        }
    }

    /// Reads the list, and puts it into force. Returns what is in force then, and whether the store lost some of it.
    async fn refresh_revocations(&self) -> Result<(Arc<Revoked>, bool), CallError> {
        let Some(current) = self.revocations.current.get() else {
            return Ok((Arc::default(), false));
        };
        loop {
            // It was durable before the read begins, so the read shows it or a later one. A list that comes into force
            // during the read may be later than what is read.
            let known = current.revoked();
            let found = self.coordinator.store.read(&Key::of_revocations()).await?;
            let read = match found.map(|found| found.record) {
                None => Ok(Revoked::default()),
                Some(Ok(record)) => {
                    Revoked::of_value(record.value.as_deref()).map_err(|error| error.to_string())
                }
                Some(Err(error)) => Err(error.to_string()),
            };
            let now_ms = self.coordinator.clock.wall_ms();
            let read = match read {
                Ok(read) => read,
                Err(why) => {
                    self.revocations.trouble(Some(ListTrouble::Unread(why)), now_ms);
                    return Ok((known, false));
                }
            };
            let (list, went_back) = read.after(&known);
            let trouble = match went_back {
                true => Some(ListTrouble::WentBack),
                false if list.to_value().len() > NEARLY_FULL => Some(ListTrouble::NearlyFull),
                false => None,
            };
            if self.put_into_force(current, &known, list) {
                self.revocations.trouble(trouble, now_ms);
                return Ok((current.revoked(), went_back));
            }
        }
    }

    /// Puts a list into the place of `known`. Returns whether it did.
    fn put_into_force(&self, current: &Current, known: &Arc<Revoked>, list: Revoked) -> bool {
        let is_in_force = current.revoke(known, list);
        if is_in_force && self.revocations.is_asked.get().is_some() {
            self.files().access_generation(current.generation());
        }
        is_in_force
    }

    /// What is wrong with the list, and since when, in milliseconds since 1970.
    pub(crate) fn list_trouble(&self) -> Option<(ListTrouble, u64)> {
        self.revocations.known_trouble()
    }

    /// The list in force, after a look at the store.
    ///
    /// # Errors
    /// The store cannot be read.
    pub(crate) async fn revocations(&self) -> Result<Arc<Revoked>, CallError> {
        Ok(self.refresh_revocations().await?.0)
    }

    /// Revokes a principal, a token or a certificate, for as long as `lasts` or until that is ended; or ends that. `by`
    /// and the reason are stored with it. Returns what is in force then, and whether this call changed it.
    ///
    /// # Errors
    /// [`AdminError`].
    pub(crate) async fn order_access(
        &self,
        order: &AccessOrder,
        lasts: Option<Duration>,
        (reason, by): (&str, &str),
        asked: impl Into<Asked>,
    ) -> Result<(Arc<Revoked>, bool), AdminError> {
        check_text("reason", reason, MAX_REASON_BYTES)?;
        let current = self.revocations.current.get();
        let is_asked = self.revocations.is_asked.get().is_some();
        let Some(current) = current.filter(|_| is_asked || !order.revokes) else {
            return Err(AdminError::NoAccessFile);
        };
        let at_ms = self.coordinator.clock.wall_ms();
        let lasts_ms = lasts.map(|lasts| u64::try_from(lasts.as_millis()).unwrap_or(u64::MAX));
        let until_ms = lasts_ms.map(|lasts_ms| at_ms.saturating_add(lasts_ms));
        let words = Revocation {
            by: by.into(),
            reason: reason.into(),
            at_ms,
            until_ms,
            ..Revocation::default()
        };
        let (known, went_back) = self.refresh_revocations().await?;
        let doors = self.revocations.doors.get().copied();
        let doors = doors.unwrap_or(Doors { uids: true, certificates: true });
        let carry_out =
            |list: &mut Revoked| list.carry_out(order, words.clone(), &current.load(), doors);
        match carry_out(&mut (*known).clone()) {
            Err(NotCarriedOut::Known) if !went_back => return Ok((known, false)),
            Err(NotCarriedOut::LocksOut) => return Err(AdminError::LocksOut),
            // The store is to have again what it lost.
            Err(NotCarriedOut::Known) | Ok(()) => {}
        }
        self.check_versions()?;
        let (asked, until) = (asked.into(), self.now() + PATIENCE);
        let change = |stored: Option<&str>| {
            let stored = Revoked::of_value(stored)
                .map_err(|error| CallError::Quarantined(error.to_string().into()))?;
            let (mut list, went_back) = stored.after(&current.revoked());
            let is_changed = match carry_out(&mut list) {
                Ok(()) => true,
                Err(NotCarriedOut::Known) => went_back,
                Err(NotCarriedOut::LocksOut) => return Err(AdminError::LocksOut),
            };
            let value = list.to_value();
            if value.len() > MAX_VALUE_BYTES {
                return Err(no_room(order));
            }
            Ok(((is_changed, list), is_changed.then_some(value)))
        };
        let (is_changed, list) = loop {
            match self.rewrite(&Key::of_revocations(), until, asked, &change).await? {
                Some((_, stored)) => break stored,
                None if self.now() >= until => return Err(CallError::RecordTaken.into()),
                None => {}
            }
        };
        let (target, revokes) = (&order.target, order.revokes);
        tracing::info!(%target, revokes, lasts_ms, by, reason, "an order for the revocation list stands");
        // The store need not be read for that. A later list may be in force by now.
        let mut known = current.revoked();
        while !list.leads_to(&known) && !self.put_into_force(current, &known, list.clone()) {
            known = current.revoked();
        }
        Ok((current.revoked(), is_changed))
    }

    /// Whether the access file of this node has a principal of this name; `None` without a file.
    pub(crate) fn has_principal(&self, name: &str) -> Option<bool> {
        self.revocations.is_asked.get()?;
        Some(self.revocations.current.get()?.load().by_name(name).is_some())
    }

    /// Nodes of an earlier version cannot read the list. The version of the seal tells builds of one version apart.
    fn check_versions(&self) -> Result<(), AdminError> {
        let nodes = self.nodes();
        let Some((own, others)) = nodes.split_first() else { return Ok(()) };
        let mut living = others.iter().filter(|view| !view.record.state.is_terminal());
        let odd = living.find(|view| view.record.version != own.record.version);
        odd.map_or(Ok(()), |odd| Err(AdminError::OtherVersion(odd.record.url.clone())))
    }
}

fn no_room(order: &AccessOrder) -> AdminError {
    let field = match order.target {
        Target::Principal(_) => "principal",
        Target::Token(_) => "token",
        Target::Certificate(_) => "certificate",
    };
    let detail = format!(
        "finds no room: the revocation list may take up {MAX_VALUE_BYTES} bytes. Take principals and credentials that are \
         revoked for good out of the access file, and end their entries in this list"
    );
    Invalid { field, detail }.into()
}
