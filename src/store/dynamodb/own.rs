//! The content of the store's own record, and what makes it suspicious.

use super::{
    layout::{self, Item},
    table::Identity,
};
use crate::{
    lease::{ClusterSecret, Epoch, Level, Revision},
    store::{Meta, SecretBytes, Witness},
};

/// This attribute exists while a restore fills the store. Its value, for people, is the wall clock when the
/// restore began.
pub(super) const RESTORING_SINCE: &str = "restoring_since_ms";

/// The attribute that counts the nodes that registered and the raises of the epoch.
pub(super) const CHANGES: &str = "changes";

/// The attribute with the level of a store that is above the first one.
pub(super) const LEVEL: &str = "level";

/// The store's own record, and the table that it was written for.
#[derive(Clone, Debug)]
pub(super) struct Own {
    pub meta: Meta,
    pub secret: SecretBytes,
    pub table_id: String,
    /// A restore was begun and has not ended.
    pub restoring: bool,
    /// How many times a node registered or the epoch was raised.
    pub revision: Revision,
}

/// Reads the item of the store's own record. The error names what is missing.
pub(super) fn parse(item: &Item) -> Result<Own, String> {
    let missing = |name: &str| format!("no {name}");
    let identity = layout::nonce(item, "identity").ok_or_else(|| missing("identity"))?;
    let epoch = layout::number(item, "epoch").and_then(|epoch| u16::try_from(epoch).ok());
    let secret = layout::bytes(item, "secret").and_then(|bytes| <&[u8; 32]>::try_from(bytes).ok());
    let secret = secret.ok_or_else(|| missing("secret of 32 bytes"))?;
    let level = layout::number(item, LEVEL)
        .map_or(Level::FIRST, |level| Level(u8::try_from(level).unwrap_or(u8::MAX)));
    let meta = Meta {
        identity,
        level,
        epoch: Epoch(epoch.ok_or_else(|| missing("epoch"))?),
        created_ms: layout::number(item, "created_ms").unwrap_or(0),
        secret: ClusterSecret::new(secret),
    };
    let table_id = layout::text(item, "table_id").unwrap_or_default().to_owned();
    let restoring = item.contains_key(RESTORING_SINCE);
    let revision = Revision(layout::number(item, CHANGES).unwrap_or(0));
    Ok(Own { meta, secret: SecretBytes(*secret), table_id, restoring, revision })
}

/// Why a store that was just opened must not grant: it is another store than before, or an older one.
pub(super) fn suspicion(
    own: &Own,
    identity: &Identity,
    witness: Option<&Witness>,
    head: u64,
) -> Option<String> {
    if own.table_id != identity.id {
        return Some(format!(
            "the table was restored or copied (its id is {}, it was {})",
            identity.id, own.table_id
        ));
    }
    let witness = witness.filter(|witness| own.meta.epoch <= witness.epoch)?;
    if own.meta.identity != witness.identity {
        return Some("the table holds another store than in the last run".to_owned());
    }
    (own.meta.epoch < witness.epoch || head < witness.highest.0).then(|| {
        format!("the table went back: its log ends at {head}, {} was seen", witness.highest.0)
    })
}
