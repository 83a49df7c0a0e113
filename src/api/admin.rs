//! Orders of administrators.

use serde::{Deserialize, Serialize};

/// Body of `POST /v1/admin/fence-skip`.
#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct FenceSkipBody {
    /// The key whose unconfirmed fences are skipped. 1 to 512 bytes, without control characters.
    pub key: String,
    /// Why. The ownership event and the log quote it. 1 to 256 bytes.
    pub reason: String,
}

/// Body of `POST /v1/admin/fence-retry`. At least one of `key`, `prefix` and `plugin` says which fences are meant.
#[derive(Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct FenceRetryBody {
    /// The key whose failed fences run once more. 1 to 512 bytes, without control characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The failed fences of all keys that begin with this prefix run once more. Not together with `key`. At most 512 bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
    /// Only the fences of this plugin. By default, those of all plugins.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plugin: Option<String>,
    /// Why. The audit log quotes it. 1 to 256 bytes.
    pub reason: String,
}

/// Answer of `POST /v1/admin/fence-retry`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct RetriedFences {
    /// The number of keys whose failed fences run once more. Events tell the outcome: `fenced` or `fence-failed`.
    #[cfg_attr(feature = "server", schema(value_type = usize))]
    pub retried: u64,
    /// The number of further keys in the store with failed fences, which are too many for one call. Repeat the call once
    /// the fences of this one are confirmed. 0 for a caller that may not read all keys.
    #[serde(default)]
    #[cfg_attr(feature = "server", schema(value_type = usize))]
    pub more: u64,
}

/// Body of `POST /v1/admin/forget`.
#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct ForgetBody {
    /// The keys that begin with this prefix are forgotten, if they are free. 1 to 512 bytes.
    pub prefix: String,
    /// Why. The ownership event and the log quote it. 1 to 256 bytes.
    pub reason: String,
    /// The `next` of the previous answer. Only keys that sort after it are forgotten.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
}

/// Answer of `POST /v1/admin/forget`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct Forgot {
    /// The number of keys that were forgotten, by this call or before. Their records are removed after five minutes,
    /// unless the keys are granted before then.
    #[cfg_attr(feature = "server", schema(value_type = usize))]
    pub forgotten: u64,
    /// The number of keys that were examined and left as they are, because they are held, closed, reserved, pinned or
    /// waited for.
    #[cfg_attr(feature = "server", schema(value_type = usize))]
    pub left: u64,
    /// The `after` of the next call, because more keys may follow. Null after the last key.
    #[serde(default)]
    pub next: Option<String>,
}

/// Body of `POST /v1/admin/revoke`.
#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct RevokeBody {
    /// The key whose tenure is revoked. 1 to 512 bytes, without control characters.
    pub key: String,
    /// Why. The ownership event and the log quote it. 1 to 256 bytes.
    pub reason: String,
    /// Whether to end the tenure before the last promise to its holder has run out. The holder may then believe that it
    /// holds the lease while the next holder does.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub immediately: bool,
}

/// Answer of `POST /v1/admin/revoke`.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct Revoked {
    /// Always true: the order is durable.
    pub revoked: bool,
    /// Milliseconds until the tenure ends; 0 if it has ended.
    pub ends_in_ms: u64,
}

/// Body of `POST /v1/admin/pin` and `POST /v1/admin/unpin`.
#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct PinBody {
    /// The key to pin or unpin. 1 to 512 bytes, without control characters.
    pub key: String,
    /// The name of the pin. A key may have pins of several names. 1 to 64 bytes.
    pub by: String,
}

/// Body of `POST /v1/admin/drain`.
#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct DrainBody {
    /// The owner whose leases are drained. 1 to 256 bytes, without control characters.
    pub owner: String,
}

/// Whether something is revoked, or that ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
pub enum AccessAction {
    /// Calls with it get 401 at every node, and its waits and streams end.
    Revoke,
    /// Ends `revoke`.
    Unrevoke,
}

impl AccessAction {
    /// Its name on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Revoke => "revoke",
            Self::Unrevoke => "unrevoke",
        }
    }
}

/// Body of `POST /v1/admin/access`. It names one of `principal`, `token` and `certificate`.
#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct AccessOrderBody {
    /// What is ordered.
    pub action: AccessAction,
    /// The name of a principal, whether the access file has it or not. 1 to 128 bytes, without control characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub principal: Option<String>,
    /// The digest of a token, or of the text of a JWT before its last `.`: `sha256:` and 64 hexadecimal digits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// A client certificate: an exact URI or DNS name of its subject alternative name, or `sha256:` and the 64 hexadecimal
    /// digits of the SHA-256 of the part that its authority signed, in DER form. 1 to 512 bytes, of characters that are
    /// seen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub certificate: Option<String>,
    /// When a `revoke` ends by itself, in milliseconds from now: 1000 to 2 592 000 000 (30 days). Without it, the entry
    /// stays until `unrevoke`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub for_ms: Option<u64>,
    /// Why. The list, the audit log and the log quote it. 1 to 256 bytes.
    pub reason: String,
}

/// An entry of the revocation list. It has one of `principal`, `token` and `certificate`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct RevocationEntry {
    /// The name of the principal.
    #[serde(default)]
    pub principal: Option<String>,
    /// The digest of the token or the JWT.
    #[serde(default)]
    pub token: Option<String>,
    /// The name or the digest of the certificate.
    #[serde(default)]
    pub certificate: Option<String>,
    /// Who ordered it.
    pub by: String,
    /// Why.
    pub reason: String,
    /// When, in RFC 3339 form.
    pub at: String,
    /// When it ends by itself. Null: never.
    #[serde(default)]
    pub until: Option<String>,
}

/// Answer of `GET /v1/revocations` and of `POST /v1/admin/access`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct Revocations {
    /// What is revoked, in the order in which that was ordered.
    pub revoked: Vec<RevocationEntry>,
    /// The URLs of living nodes that did not confirm within two seconds that the order is in force there. They follow as
    /// soon as the store reaches them. Empty for a `GET`.
    #[serde(default)]
    #[cfg_attr(feature = "server", schema(required))]
    pub unconfirmed: Vec<String>,
    /// Whether the order changed the list. Without a change, it stood already, or there was nothing to end. Not there for
    /// a `GET`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changed: Option<bool>,
    /// Whether the access file of the node that stored the order has the principal that it names. Only there for an order
    /// that names one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_file: Option<bool>,
}

/// What an operator orders for a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
pub enum PoolAction {
    /// No key changes its member: keys that come free are granted to nobody who asks for a share, but their last owner.
    Freeze,
    /// Ends `freeze`.
    Thaw,
    /// The members of `owner` keep what they hold, and get no further keys.
    Cordon,
    /// Ends `cordon`.
    Uncordon,
    /// The member that holds `key` is asked to hand it over, and no member gets it.
    Pause,
    /// The member that holds `key` is asked to hand it over, and only a member of `owner` gets it.
    Move,
    /// Ends `pause` and `move`.
    Resume,
    /// The pool is balanced exactly and at once, without the dead band and the minimum age.
    Rebalance,
    /// Ends the guard against a mass failure: the other members take everything.
    EndGuard,
}

impl PoolAction {
    /// Its name on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Freeze => "freeze",
            Self::Thaw => "thaw",
            Self::Cordon => "cordon",
            Self::Uncordon => "uncordon",
            Self::Pause => "pause",
            Self::Move => "move",
            Self::Resume => "resume",
            Self::Rebalance => "rebalance",
            Self::EndGuard => "end-guard",
        }
    }
}

/// Body of `POST /v1/admin/pool`.
#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct PoolOrderBody {
    /// The name of the pool.
    pub pool: String,
    /// What is ordered.
    pub action: PoolAction,
    /// The owner, for `cordon` and `uncordon`. 1 to 256 bytes, without control characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// The key, for `pause` and `resume`. 1 to 512 bytes, without control characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// When a `freeze`, a `cordon` or a `pause` ends by itself, in milliseconds from now: 1000 to 2 592 000 000 (30
    /// days). Without it, the order lasts until the one that ends it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub for_ms: Option<u64>,
    /// Why. It is stored with the order. 1 to 256 bytes.
    pub reason: String,
}

/// Answer of `POST /v1/admin/drain`.
#[derive(Debug, Deserialize, Serialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct Drained {
    /// The number of leases whose end was ordered.
    pub revoked: usize,
    /// The number of leases that were not revoked because they are pinned.
    pub pinned: usize,
    /// The number of sessions that were asked to hand over all their leases, as members of a pool with `balance`.
    #[serde(default)]
    pub draining: usize,
}
