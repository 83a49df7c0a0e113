//! The form of a line, and the chain of their digests.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::entry::{AuditEntry, AuditEvent, Many};
use crate::{clock::rfc3339, telemetry::escaped::escaped_json};

/// The longest line, in bytes. A call's key, path and owner are bounded, and each byte takes at most six.
pub(super) const MAX_LINE_BYTES: usize = 32 << 10;

/// The two chains of a log, each in files of its own, so that each keeps its lines for as long as it can.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Chain {
    /// Refusals and reads.
    #[default]
    Calls,
    /// The orders of administrators.
    Changes,
}

impl Chain {
    pub(super) const ALL: [Self; 2] = [Self::Calls, Self::Changes];

    /// Its name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Calls => "calls",
            Self::Changes => "changes",
        }
    }

    fn is_calls(&self) -> bool {
        *self == Self::Calls
    }
}

/// A SHA-256, written as 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Hash([u8; 32]);

impl Hash {
    /// What the first line of all has as the digest of the line before it.
    pub(super) const NONE: Self = Self([0; 32]);

    pub(super) fn of(line: &[u8]) -> Self {
        Self::from(Sha256::new_with_prefix(line))
    }
}

impl From<Sha256> for Hash {
    fn from(sum: Sha256) -> Self {
        Self(sum.finalize().into())
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Hash {
    type Err = NotAHead;

    fn from_str(text: &str) -> Result<Self, NotAHead> {
        let digits: &[u8; 64] = text.as_bytes().try_into().map_err(|_| NotAHead)?;
        let mut hash = [0; 32];
        for (byte, pair) in hash.iter_mut().zip(digits.as_chunks::<2>().0) {
            let digit = |at: usize| char::from(pair[at]).to_digit(16).ok_or(NotAHead);
            *byte = u8::try_from(digit(0)? * 16 + digit(1)?).map_err(|_| NotAHead)?;
        }
        Ok(Self(hash))
    }
}

impl Serialize for Hash {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Hash {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// A place in the chain: the number of a line, and the digest of that line. Written `SEQ:HASH`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    pub(super) seq: u64,
    pub(super) hash: Hash,
}

impl Head {
    /// Before the first line of all.
    pub(super) const START: Self = Self { seq: 0, hash: Hash::NONE };

    /// The number of the line.
    #[must_use]
    pub fn seq(&self) -> u64 {
        self.seq
    }

    /// The place of a line that continues the chain here.
    pub(super) fn then(self, line: &[u8]) -> Self {
        Self { seq: self.seq + 1, hash: Hash::of(line) }
    }
}

impl fmt::Display for Head {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.seq, self.hash)
    }
}

/// The text is no place in a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be SEQ:HASH, as the log line `audit log head` has it")]
pub struct NotAHead;

impl FromStr for Head {
    type Err = NotAHead;

    fn from_str(text: &str) -> Result<Self, NotAHead> {
        let (seq, hash) = text.split_once(':').ok_or(NotAHead)?;
        Ok(Self { seq: seq.parse().map_err(|_| NotAHead)?, hash: hash.parse()? })
    }
}

/// What a line says.
#[derive(Debug)]
pub(super) enum Said<'e> {
    Call(&'e AuditEntry),
    /// More calls of one principal than have lines of their own.
    Many(&'e Many),
    /// Lines before this one were written, and are gone or were changed.
    Gap(&'e Gap),
    /// The file before this one was renamed while it was written.
    Moved,
    /// So many lines before this one could not be written.
    Lost(u64),
    /// A crash left so many bytes before this line that are no line.
    Torn(Torn),
}

/// A chain that does not end as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Gap {
    /// The last line that was written.
    pub written: Head,
    /// The last line that was found.
    pub found: Head,
}

/// Bytes that are no line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub(super) struct Torn {
    #[serde(rename = "torn_bytes")]
    pub bytes: u64,
    /// Their digest.
    #[serde(rename = "torn_sha256")]
    pub hash: Hash,
}

#[derive(Serialize)]
struct Line<T> {
    seq: u64,
    time: String,
    #[serde(skip_serializing_if = "Chain::is_calls")]
    chain: Chain,
    #[serde(flatten)]
    said: T,
    prev: Hash,
}

#[derive(Serialize)]
struct LostLine {
    event: &'static str,
    lost: u64,
}

#[derive(Serialize)]
struct TornLine {
    event: &'static str,
    torn_bytes: u64,
    torn_sha256: Hash,
}

#[derive(Serialize)]
struct ManyLine<'e> {
    event: AuditEvent,
    principal: Option<&'e str>,
    count: u64,
    since: String,
    until: String,
}

#[derive(Serialize)]
struct GapLine {
    event: &'static str,
    written: String,
    found: String,
}

#[derive(Serialize)]
struct MovedLine {
    event: &'static str,
}

/// The line that continues a chain after `head`, without its newline.
pub(super) fn write(chain: Chain, head: Head, wall_ms: u64, said: &Said<'_>) -> Vec<u8> {
    match said {
        Said::Call(entry) => line(chain, head, wall_ms, entry),
        Said::Many(Many { event, principal, count, since_ms, until_ms }) => {
            let (since, until) = (rfc3339(*since_ms), rfc3339(*until_ms));
            let principal = principal.as_deref();
            let said = ManyLine { event: *event, principal, count: *count, since, until };
            line(chain, head, wall_ms, said)
        }
        Said::Gap(Gap { written, found }) => {
            let (written, found) = (written.to_string(), found.to_string());
            line(chain, head, wall_ms, GapLine { event: "gap", written, found })
        }
        Said::Moved => line(chain, head, wall_ms, MovedLine { event: "moved" }),
        Said::Lost(lost) => line(chain, head, wall_ms, LostLine { event: "lost", lost: *lost }),
        Said::Torn(Torn { bytes, hash }) => {
            let said = TornLine { event: "torn", torn_bytes: *bytes, torn_sha256: *hash };
            line(chain, head, wall_ms, said)
        }
    }
}

fn line(chain: Chain, head: Head, wall_ms: u64, said: impl Serialize) -> Vec<u8> {
    let (seq, time, prev) = (head.seq + 1, rfc3339(wall_ms), head.hash);
    let line = Line { seq, time, chain, said, prev };
    let text = serde_json::to_string(&line).expect("numbers and texts are always serialisable");
    escaped_json(&text).into_owned().into_bytes()
}

/// What the chain needs of a line that is read.
#[derive(Debug, Deserialize)]
pub(super) struct Link {
    pub seq: u64,
    #[serde(default)]
    pub chain: Chain,
    pub prev: Hash,
    #[serde(default)]
    pub lost: u64,
    /// Of a line `gap`: the last line that was written.
    pub written: Option<String>,
    #[serde(flatten)]
    pub torn: Option<Torn>,
}

impl Link {
    /// Reads a line. `None`: it is none.
    pub(super) fn read(line: &[u8]) -> Option<Self> {
        (line.len() <= MAX_LINE_BYTES).then(|| serde_json::from_slice(line).ok()).flatten()
    }
}
