//! What administrators do.

use std::{collections::HashSet, time::Duration};

use super::{AdminError, Asked, Home, Invalid, Manager, Trouble};
use crate::{
    lease::{
        Answer, Key, MAX_PIN_BYTES, Moment, Nonce, Owner, Request, Revoke, State, Tenure, View,
    },
    store::Range,
};

/// Longest reason of an administrator's order, in bytes.
const MAX_REASON_BYTES: usize = 256;
/// Keys read at a time while an owner is drained.
const PAGE: usize = 256;

impl Manager {
    /// Ends a tenure: when its last promise ran out, or at once when `immediately`. Gives the most
    /// milliseconds that it takes.
    ///
    /// # Errors
    /// [`AdminError`].
    pub async fn revoke(
        &self,
        key: &Key,
        revoke: Revoke,
        asked: impl Into<Asked>,
    ) -> Result<u64, AdminError> {
        check_text("reason", &revoke.reason, MAX_REASON_BYTES)?;
        let asked = asked.into();
        let make = || Request::Revoke(Box::new(revoke.clone()));
        let mut answer = self.ask(key.as_str(), asked, make).await?;
        if let Answer::KeptBySession(session) = answer {
            let floor = Some(self.cover_of(session, key, asked).await?);
            let make = || Request::Revoke(Box::new(Revoke { floor, ..revoke.clone() }));
            answer = self.ask(key.as_str(), asked, make).await?;
        }
        match answer {
            Answer::Revoked(ends_in_ms) => Ok(ends_in_ms),
            Answer::NotHeld(view) => Err(AdminError::NotHeld(view)),
            Answer::Pinned(view) => Err(AdminError::Pinned(view)),
            other => Err(Trouble::of(other).into()),
        }
    }

    /// When the promises of a session that cover one of its leases have run out: from now on its
    /// heartbeats say that they do not keep that one.
    async fn cover_of(&self, digest: Nonce, key: &Key, asked: Asked) -> Result<Moment, AdminError> {
        let of_session = Key::of_session(digest);
        let announced = self.world.sessions.get(digest);
        if let Some(session) = &announced {
            session.announce_revoked(key);
        }
        let view = match self.ask(of_session.as_str(), asked, || Request::View).await? {
            Answer::Viewed(view) => view,
            other => return Err(Trouble::of(other).into()),
        };
        if view.elsewhere {
            let node = view.node.unwrap_or_default();
            return Err(Trouble::Elsewhere(Home { node, url: self.world.url_of(node) }).into());
        }
        if view.state == State::Held && announced.is_none() {
            // It was adopted a moment ago.
            return Err(Trouble::Busy.into());
        }
        // Cut to whole milliseconds, and read before now.
        let left = Duration::from_millis(view.expires_in_ms.unwrap_or(0) + 1);
        Ok(self.now() + left)
    }

    /// Strikes the fences of a key that were not confirmed.
    ///
    /// # Errors
    /// [`AdminError`].
    pub async fn skip_fences(
        &self,
        key: &Key,
        reason: &str,
        actor: &str,
        asked: impl Into<Asked>,
    ) -> Result<View, AdminError> {
        check_text("reason", reason, MAX_REASON_BYTES)?;
        let make = || Request::FenceSkip(reason.into(), actor.into());
        self.carry_out(key, asked.into(), make).await
    }

    /// Keeps a key's tenures from expiring, until the same name is unpinned.
    ///
    /// # Errors
    /// [`AdminError`].
    pub async fn pin(
        &self,
        key: &Key,
        by: &str,
        actor: &str,
        asked: impl Into<Asked>,
    ) -> Result<View, AdminError> {
        check_text("by", by, MAX_PIN_BYTES)?;
        self.carry_out(key, asked.into(), || Request::Pin(by.into(), actor.into())).await
    }

    /// Takes a pin off.
    ///
    /// # Errors
    /// [`AdminError`].
    pub async fn unpin(
        &self,
        key: &Key,
        by: &str,
        actor: &str,
        asked: impl Into<Asked>,
    ) -> Result<View, AdminError> {
        check_text("by", by, MAX_PIN_BYTES)?;
        self.carry_out(key, asked.into(), || Request::Unpin(by.into(), actor.into())).await
    }

    async fn carry_out(
        &self,
        key: &Key,
        asked: Asked,
        make: impl Fn() -> Request,
    ) -> Result<View, AdminError> {
        match self.ask(key.as_str(), asked, make).await? {
            Answer::Done(view) => Ok(*view),
            Answer::NotFencing(view) => Err(AdminError::NotFencing(view)),
            Answer::TooManyPins => Err(AdminError::TooManyPins),
            other => Err(Trouble::of(other).into()),
        }
    }

    /// Revokes, gracefully, every lease that the owner holds and that this node answers for, or nobody
    /// does. Gives how many, and how many it could not because they are pinned. Other nodes
    /// ([`Self::others`]) are to be asked as well.
    ///
    /// # Errors
    /// [`AdminError`].
    pub async fn drain_owner(
        &self,
        owner: &Owner,
        actor: &str,
        asked: impl Into<Asked>,
    ) -> Result<(usize, usize), AdminError> {
        let asked = asked.into();
        let (mut revoked, mut pinned) = (0, 0);
        // Its sessions take their leases with them.
        let (mut sessions, mut from) = (HashSet::new(), None);
        loop {
            let (page, next) = self.sessions(Some(owner), from, PAGE).await?;
            sessions.extend(page.iter().map(|session| session.digest));
            from = next;
            if from.is_none() {
                break;
            }
        }
        let mut after = None;
        loop {
            let range = Range { prefix: String::new(), after: after.take(), limit: PAGE };
            let page = self.world.store.scan(range).await.map_err(Trouble::Store)?;
            let Some((last, _)) = page.last() else { return Ok((revoked, pinned)) };
            after = Some(last.as_str().to_owned());
            for (key, found) in &page {
                let tenure = found.record.as_ref().ok().and_then(|record| record.tenure.as_ref());
                let fits = |tenure: &&Tenure| {
                    let bond = tenure.bond.as_ref();
                    tenure.owner == *owner && bond.is_none_or(|b| !sessions.contains(&b.session))
                };
                if tenure.filter(fits).is_none() {
                    continue;
                }
                let order = Revoke {
                    floor: None,
                    reason: "drain".into(),
                    actor: actor.into(),
                    immediately: false,
                    owner: Some(owner.clone()),
                };
                match self.revoke(key, order, asked).await {
                    Ok(_) => revoked += 1,
                    Err(AdminError::Pinned(_)) => pinned += 1,
                    Err(AdminError::NotHeld(_) | AdminError::Trouble(Trouble::Elsewhere(_))) => {}
                    Err(error) => return Err(error),
                }
            }
            tokio::task::yield_now().await;
        }
    }
}

fn check_text(field: &'static str, text: &str, limit: usize) -> Result<(), Invalid> {
    let detail = if text.is_empty() {
        "must not be empty".to_owned()
    } else if text.len() > limit {
        format!("is {} bytes long; at most {limit} are allowed", text.len())
    } else if text.chars().any(char::is_control) {
        "holds a control character".to_owned()
    } else {
        return Ok(());
    };
    Err(Invalid { field, detail })
}
