//! The backup format: lines of JSON. A header comes first, then one line per key, then a trailer with a checksum.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, Read as _, Seek as _, Write},
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::private_file;
use crate::{
    clock::{Clock as _, SystemClock, rfc3339},
    lease::{Epoch, Key, Level, Record, Revision},
    store::{LeaseStore, Meta, SecretBytes, own_level},
};

/// The version of the format that this program writes.
const VERSION: u32 = 1;
/// The longest line, in bytes: it holds the longest key with the longest value in hexadecimal digits.
const MAX_LINE_BYTES: u64 = 1 << 20;

/// The first line of the file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Header {
    tenure_backup: u32,
    pub(super) kind: String,
    pub(super) identity: String,
    pub(super) epoch: u16,
    /// The level of the store: what a program must know to read the records.
    #[serde(default, skip_serializing_if = "Level::is_first")]
    pub(super) level: Level,
    /// When the store was created, in milliseconds since 1970.
    pub(super) created_ms: u64,
    pub(super) written_at: String,
    secret: HexSecret,
}

/// A secret in hexadecimal digits. Its `Debug` output hides it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
struct HexSecret(String);

impl std::fmt::Debug for HexSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("HexSecret(…)")
    }
}

impl Header {
    pub(super) fn new(kind: &str, meta: &Meta, written_at: String, secret: SecretBytes) -> Self {
        Self {
            tenure_backup: VERSION,
            kind: kind.to_owned(),
            identity: meta.identity.to_string(),
            epoch: meta.epoch.0,
            level: meta.level,
            created_ms: meta.created_ms,
            written_at,
            secret: HexSecret(hex(&secret.0)),
        }
    }

    /// The header of a backup that is written now.
    pub(super) fn of(kind: &str, store: &dyn LeaseStore) -> anyhow::Result<Self> {
        let secret = store.secret_bytes().context("this kind of store cannot be backed up")?;
        let written_at = rfc3339(SystemClock::new().wall_ms());
        Ok(Self::new(kind, &store.meta(), written_at, secret))
    }

    /// The secret from which lease ids are derived.
    pub(super) fn secret(&self) -> anyhow::Result<SecretBytes> {
        let bytes = unhex(&self.secret.0).and_then(|bytes| bytes.try_into().ok());
        bytes.map(SecretBytes).context("the secret in the backup is not 64 hexadecimal digits")
    }
}

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Line {
    Key(KeyLine),
    Trailer(Trailer),
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct KeyLine {
    key: String,
    /// The revision of the write that was read. For people only.
    revision: u64,
    /// [`Record::encode_into`], in hexadecimal digits.
    record: String,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Trailer {
    keys: u64,
    /// The checksum of all lines before this one.
    sha256: String,
}

/// Where a backup is written to. An unfinished file is removed on drop.
struct Target {
    out: Box<dyn Write>,
    file: Option<(PathBuf, File)>,
    finished: bool,
}

impl Target {
    /// A new file that only its owner may read, or stdout.
    fn create(path: Option<&Path>) -> anyhow::Result<Self> {
        let (out, file): (Box<dyn Write>, _) = match path {
            None => {
                private_file::refuse_if_others_read(
                    &io::stdout(),
                    "a backup contains the cluster's secret: use --file, or umask 077",
                )?;
                (Box::new(io::BufWriter::new(io::stdout())), None)
            }
            Some(path) => {
                let file = private_file::create(path)?;
                let out = io::BufWriter::new(file.try_clone()?);
                (Box::new(out), Some((path.to_owned(), file)))
            }
        };
        Ok(Self { out, file, finished: false })
    }

    /// Makes it durable.
    fn finish(&mut self) -> anyhow::Result<()> {
        self.out.flush()?;
        if let Some((path, file)) = &self.file {
            file.sync_all()?;
            private_file::sync_folder(path)?;
        }
        self.finished = true;
        Ok(())
    }
}

/// Writes a backup.
pub(super) struct Writer {
    target: Target,
    sum: Sha256,
    keys: u64,
}

impl Writer {
    /// Writes to a new file that only its owner may read, or to stdout.
    pub(super) fn create(path: Option<&Path>, header: &Header) -> anyhow::Result<Self> {
        Self::begin(Target::create(path)?, header)
    }

    /// Writes to a reader that keeps it to itself.
    pub(super) fn into(out: Box<dyn Write>, header: &Header) -> anyhow::Result<Self> {
        Self::begin(Target { out, file: None, finished: false }, header)
    }

    fn begin(target: Target, header: &Header) -> anyhow::Result<Self> {
        let mut writer = Self { target, sum: Sha256::new(), keys: 0 };
        writer.line(header)?;
        Ok(writer)
    }

    /// Writes one key's record as it was read, with its token stored as a number.
    pub(super) fn key(
        &mut self,
        key: &Key,
        revision: Revision,
        record: &Record,
    ) -> anyhow::Result<()> {
        let mut settled = record.clone();
        if let Some(tenure) = &mut settled.tenure {
            tenure.token = record.token(revision);
        }
        let mut bytes = Vec::new();
        settled.encode_into(&mut bytes);
        let (key, revision) = (key.as_str().to_owned(), revision.0);
        self.line(&KeyLine { key, revision, record: hex(&bytes) })?;
        self.keys += 1;
        Ok(())
    }

    fn line(&mut self, line: &impl Serialize) -> anyhow::Result<()> {
        let mut text = serde_json::to_vec(line)?;
        text.push(b'\n');
        self.sum.update(&text);
        Ok(self.target.out.write_all(&text)?)
    }

    /// Makes the backup durable, and returns the number of keys.
    pub(super) fn finish(mut self) -> anyhow::Result<u64> {
        let sha256 = hex(&self.sum.clone().finalize());
        self.line(&Trailer { keys: self.keys, sha256 })?;
        self.target.finish()?;
        Ok(self.keys)
    }
}

/// Copies a backup, line by line, and verifies its trailer.
pub(super) struct Copy {
    target: Target,
    sum: Sha256,
    /// The latest line, which may be the trailer.
    latest: Option<Vec<u8>>,
}

impl Copy {
    /// Copies to a new file that only its owner may read, or to stdout.
    pub(super) fn create(path: Option<&Path>) -> anyhow::Result<Self> {
        Ok(Self { target: Target::create(path)?, sum: Sha256::new(), latest: None })
    }

    pub(super) fn line(&mut self, line: Vec<u8>) -> anyhow::Result<()> {
        self.target.out.write_all(&line)?;
        if let Some(earlier) = self.latest.replace(line) {
            self.sum.update(&earlier);
        }
        Ok(())
    }

    /// Makes the backup durable, if its trailer matches. Returns the number of keys.
    pub(super) fn finish(mut self) -> anyhow::Result<u64> {
        let trailer = self.latest.as_deref().and_then(|line| serde_json::from_slice(line).ok());
        let Trailer { keys, sha256 } = trailer.context("it has no trailer")?;
        anyhow::ensure!(sha256 == hex(&self.sum.clone().finalize()), "the checksum does not match");
        self.target.finish()?;
        Ok(keys)
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        if let (Some((path, _)), false) = (&self.file, self.finished) {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// A backup that was read once from start to end and found complete.
pub(super) struct Backup {
    file: File,
    pub(super) header: Header,
    pub(super) keys: u64,
    /// The highest epoch of the store, and of any token or record in the backup.
    pub(super) epoch: Epoch,
}

pub(super) type Item = (Key, Arc<Record>);

impl Backup {
    /// Opens a backup, and verifies all of it.
    pub(super) fn open(path: &Path) -> anyhow::Result<Self> {
        let file = File::open(path).map_err(anyhow::Error::from);
        let judged = file.and_then(Self::judge);
        judged.with_context(|| format!("{} is no backup that can be restored", path.display()))
    }

    fn judge(file: File) -> anyhow::Result<Self> {
        let mut lines = Lines::new(&file)?;
        let header = lines.header()?;
        header.secret()?;
        own_level().opens(header.level).context("a later version wrote it")?;
        let (mut epoch, mut keys) = (Epoch(header.epoch), 0);
        while let Some((_, record)) = lines.item()? {
            epoch = epoch.max(record.epoch).max(record.token(Revision::ABSENT).epoch());
            keys += 1;
        }
        Ok(Self { file, header, keys, epoch })
    }

    /// All keys, from the first one.
    pub(super) fn items(&self) -> anyhow::Result<impl Iterator<Item = anyhow::Result<Item>>> {
        let mut lines = Lines::new(&self.file)?;
        lines.header()?;
        Ok(std::iter::from_fn(move || lines.item().transpose()))
    }
}

/// Reads the lines, and verifies the trailer.
struct Lines<'f> {
    input: BufReader<&'f File>,
    sum: Sha256,
    number: u64,
    keys: u64,
}

impl<'f> Lines<'f> {
    fn new(mut file: &'f File) -> anyhow::Result<Self> {
        file.rewind()?;
        Ok(Self { input: BufReader::new(file), sum: Sha256::new(), number: 0, keys: 0 })
    }

    fn next(&mut self) -> anyhow::Result<Vec<u8>> {
        let mut line = Vec::new();
        self.number += 1;
        self.input.by_ref().take(MAX_LINE_BYTES).read_until(b'\n', &mut line)?;
        anyhow::ensure!(
            line.ends_with(b"\n"),
            "it ends within line {}: it was not finished, or was cut off",
            self.number
        );
        Ok(line)
    }

    fn header(&mut self) -> anyhow::Result<Header> {
        let line = self.next()?;
        let header: Header = serde_json::from_slice(&line)
            .context("the first line is not the header of a backup")?;
        let version = header.tenure_backup;
        anyhow::ensure!(version == VERSION, "it has version {version}; this program reads only 1");
        self.sum.update(&line);
        Ok(header)
    }

    /// The next key. `None` after a trailer that matches what was read.
    fn item(&mut self) -> anyhow::Result<Option<Item>> {
        let line = self.next()?;
        let number = self.number;
        let parsed = serde_json::from_slice(&line);
        match parsed.with_context(|| format!("line {number} is neither a key nor the trailer"))? {
            Line::Key(found) => {
                self.sum.update(&line);
                self.keys += 1;
                let item = found.item().with_context(|| format!("line {number}"))?;
                Ok(Some(item))
            }
            Line::Trailer(trailer) => {
                let sum = hex(&self.sum.clone().finalize());
                anyhow::ensure!(
                    trailer.keys == self.keys && trailer.sha256 == sum,
                    "the checksum does not match: the file was changed or is damaged"
                );
                Ok(None)
            }
        }
    }
}

impl KeyLine {
    fn item(&self) -> anyhow::Result<Item> {
        let key = Key::stored(&self.key)?;
        let bytes = unhex(&self.record).context("the record is not in hexadecimal digits")?;
        Ok((key, Arc::new(Record::decode(&bytes)?)))
    }
}

fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits.map(|digit| char::from(DIGITS[usize::from(digit)])).collect()
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|d| u8::try_from(d).ok());
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    let bytes = pairs.iter().map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?));
    if rest.is_empty() { bytes.collect() } else { None }
}
