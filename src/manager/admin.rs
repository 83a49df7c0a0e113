//! What administrators do.

use super::{AdminError, Asked, Invalid, Manager, Trouble};
use crate::{
    lease::{Answer, Key, MAX_PIN_BYTES, Owner, Request, Revoke, View},
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
        let make = || Request::Revoke(Box::new(revoke.clone()));
        match self.ask(key.as_str(), asked.into(), make).await? {
            Answer::Revoked(ends_in_ms) => Ok(ends_in_ms),
            Answer::NotHeld(view) => Err(AdminError::NotHeld(view)),
            Answer::Pinned(view) => Err(AdminError::Pinned(view)),
            other => Err(Trouble::of(other).into()),
        }
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
        let mut after = None;
        loop {
            let range = Range { prefix: String::new(), after: after.take(), limit: PAGE };
            let page = self.world.store.scan(range).await.map_err(Trouble::Store)?;
            let Some((last, _)) = page.last() else { return Ok((revoked, pinned)) };
            after = Some(last.as_str().to_owned());
            for (key, found) in &page {
                let tenure = found.record.as_ref().ok().and_then(|record| record.tenure.as_ref());
                if tenure.is_none_or(|tenure| tenure.owner != *owner) {
                    continue;
                }
                let order = Revoke {
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
