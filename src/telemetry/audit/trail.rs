//! The files of the log: appends lines, and begins a new file when one is full.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, BufRead as _, BufReader, Write as _},
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use super::{
    chain::{self, Chain, Gap, Hash, Head, Link, Said, Torn},
    tail::{self, Tail},
};
use crate::access::Broken;

/// Why the audit log cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum AuditError {
    #[error("the audit log {}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("the audit log {} is in use: each coordinator needs a file of its own", path.display())]
    Locked { path: PathBuf },
    #[error(
        "{} does not end as an audit log does, so its chain cannot be continued: move it away, or name another file",
        path.display()
    )]
    Foreign { path: PathBuf },
}

impl AuditError {
    fn at(path: &Path) -> impl Fn(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { path: path.clone(), source }
    }
}

/// The outcome of a look at the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// It is as it was written.
    Same,
    /// It has another name now, and a new one was begun.
    Moved,
    /// Lines that were written are gone.
    Gap(Gap),
}

/// The file of a chain that is written now. The older ones have a number after their name; the highest is the oldest.
pub(super) struct Trail {
    chain: Chain,
    path: PathBuf,
    max_size: u64,
    /// How many older files are kept.
    keep: u32,
    file: File,
    /// The length of the file up to the end of the last line that was written whole.
    length: u64,
    /// A write failed, and may have left bytes after `length`.
    is_ragged: bool,
    head: Head,
    /// What a crash left, which the next write must complete and mention.
    torn: Option<Torn>,
    needs_newline: bool,
    /// The fate of the lines before, which the next write must mention.
    news: Found,
}

/// The name of the older file with this number.
pub(super) fn older(path: &Path, number: u32) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{number}"));
    name.into()
}

fn create(path: &Path, new: bool) -> Result<File, AuditError> {
    let mut options = OpenOptions::new();
    options.read(true).append(true).mode(0o600);
    let options = if new { options.create_new(true) } else { options.create(true) };
    let file = options.open(path).map_err(AuditError::at(path))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(AuditError::Locked { path: path.to_owned() }),
        Err(TryLockError::Error(source)) => Err(AuditError::at(path)(source)),
    }
}

impl Trail {
    /// Opens the file, and continues its chain: from `written`, if that line was written and is not there. Writes nothing
    /// to it yet.
    pub(super) fn open(
        chain: Chain,
        path: &Path,
        (max_size, keep): (u64, u32),
        written: Option<Head>,
    ) -> Result<Self, AuditError> {
        let mut file = create(path, false)?;
        let at = AuditError::at(path);
        let (tail, needs_newline) = tail::read(&mut file).map_err(&at)?;
        let (found, torn) = match tail {
            Tail::Whole(head) | Tail::Open(head) | Tail::Torn(Some(head), _) => {
                let torn = if let Tail::Torn(_, torn) = tail { Some(torn) } else { None };
                (head, torn)
            }
            // A rotation was the last that an earlier run did.
            Tail::Empty => (Self::end_of_older(path)?, None),
            Tail::Torn(None, torn) => (Self::end_of_older(path)?, Some(torn)),
            Tail::Foreign => return Err(AuditError::Foreign { path: path.to_owned() }),
        };
        let length = file.metadata().map_err(&at)?.len();
        let (mut head, mut news) = (found, Found::Same);
        if let Some(written) = written
            && !Broken::CutEndBelieved.is_active()
            && !has(path, keep, found, written).map_err(&at)?
        {
            news = Found::Gap(Gap { written, found });
            // No number is used twice.
            head = if written.seq > found.seq { written } else { found };
        }
        let path = path.to_owned();
        let is_ragged = false;
        Ok(Self {
            chain,
            path,
            max_size,
            keep,
            file,
            length,
            is_ragged,
            head,
            torn,
            needs_newline,
            news,
        })
    }

    /// The place of the last line in the newest of the older files.
    fn end_of_older(path: &Path) -> Result<Head, AuditError> {
        let path = older(path, 1);
        let mut file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Head::START),
            Err(error) => return Err(AuditError::at(&path)(error)),
        };
        match tail::read(&mut file).map_err(AuditError::at(&path))?.0 {
            Tail::Whole(head) => Ok(head),
            _ => Err(AuditError::Foreign { path }),
        }
    }

    pub(super) fn head(&self) -> Head {
        self.head
    }

    /// The fate of the lines before, which the next line mentions.
    pub(super) fn news(&self) -> &Found {
        &self.news
    }

    /// Looks whether the file is still there, as it was written. Begins a new file if it was renamed or removed. The next
    /// line mentions the fate of the lines before it.
    ///
    /// # Errors
    /// Also if another file that has content is in its place.
    pub(super) fn look(&mut self) -> io::Result<Found> {
        let own = self.file.metadata()?;
        let there = match fs::metadata(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            there => Some(there?),
        };
        if there.is_some_and(|there| (there.dev(), there.ino()) == (own.dev(), own.ino())) {
            if self.is_ragged || own.len() >= self.length {
                return Ok(Found::Same);
            }
            let (tail, needs_newline) = tail::read(&mut self.file)?;
            (self.length, self.needs_newline, self.torn) = (own.len(), needs_newline, None);
            let found = match tail {
                Tail::Whole(head) | Tail::Open(head) | Tail::Torn(Some(head), _) => head,
                Tail::Empty | Tail::Torn(None, _) | Tail::Foreign => Head::START,
            };
            return Ok(self.note(Found::Gap(Gap { written: self.head, found })));
        }
        let file = create(&self.path, false).map_err(io::Error::other)?;
        if file.metadata()?.len() > 0 {
            let path = self.path.display();
            return Err(io::Error::other(format!(
                "another file was put in the place of {path}: move it away"
            )));
        }
        (self.file, self.length, self.is_ragged) = (file, 0, false);
        (self.torn, self.needs_newline) = (None, false);
        if own.nlink() > 0 || own.len() == 0 {
            return Ok(self.note(Found::Moved));
        }
        let found = Self::end_of_older(&self.path).unwrap_or(Head::START);
        Ok(self.note(Found::Gap(Gap { written: self.head, found })))
    }

    /// Has the next line mention it. A later change does not replace a gap.
    fn note(&mut self, found: Found) -> Found {
        if !matches!(self.news, Found::Gap(_)) {
            self.news = found.clone();
        }
        found
    }

    /// Appends a line. A line that cannot be written whole is taken back, and the chain stays as it was.
    pub(super) fn append(&mut self, wall_ms: u64, said: &Said<'_>) -> io::Result<()> {
        self.write(wall_ms, Some(said))
    }

    /// Writes a line that mentions the fate of the lines before.
    pub(super) fn append_news(&mut self, wall_ms: u64) -> io::Result<()> {
        self.write(wall_ms, None)
    }

    fn write(&mut self, wall_ms: u64, said: Option<&Said<'_>>) -> io::Result<()> {
        if self.is_ragged {
            self.file.set_len(self.length)?;
            self.is_ragged = false;
        }
        let mut text = Vec::new();
        let mut head = self.head;
        let mut add = |said: &Said<'_>| {
            let line = chain::write(self.chain, head, wall_ms, said);
            head = head.then(&line);
            text.extend(line);
            text.push(b'\n');
        };
        if let Some(torn) = self.torn {
            add(&Said::Torn(torn));
        }
        match &self.news {
            Found::Same => {}
            Found::Moved => add(&Said::Moved),
            Found::Gap(gap) => add(&Said::Gap(gap)),
        }
        if let Some(said) = said {
            add(said);
        }
        if self.needs_newline {
            text.insert(0, b'\n');
        }
        let is_full = self.length > 0 && self.length + text.len() as u64 > self.max_size;
        if is_full && self.torn.is_none() && !self.needs_newline {
            self.rotate()?;
        }
        if let Err(error) = self.file.write_all(&text) {
            self.is_ragged = true;
            return Err(error);
        }
        self.length += text.len() as u64;
        (self.head, self.torn, self.needs_newline) = (head, None, false);
        self.news = Found::Same;
        Ok(())
    }

    /// Makes durable what was written.
    pub(super) fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    /// Renames the files, and begins a new one. If an earlier try renamed them, only the new file is missing.
    fn rotate(&mut self) -> io::Result<()> {
        self.sync()?;
        if self.path.try_exists()? {
            for number in (1..self.keep).rev() {
                match fs::rename(older(&self.path, number), older(&self.path, number + 1)) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                    _ => {}
                }
            }
            fs::rename(&self.path, older(&self.path, 1))?;
        }
        self.file = create(&self.path, true).map_err(io::Error::other)?;
        self.length = 0;
        Ok(())
    }
}

/// Whether the files have this line, which was written. `found` is the last line that they have.
fn has(path: &Path, keep: u32, found: Head, written: Head) -> io::Result<bool> {
    if found.seq <= written.seq {
        return Ok(found == written);
    }
    // A crash left more lines than were known to be durable: a second's worth.
    for file in std::iter::once(path.to_owned()).chain((1..=keep).map(|n| older(path, n))) {
        let file = match File::open(file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            file => file?,
        };
        for line in BufReader::new(file).split(b'\n') {
            let line = line?;
            match Link::read(&line) {
                Some(link) if link.seq == written.seq => return Ok(Hash::of(&line) == written.hash),
                // The older files have only earlier lines.
                Some(link) if link.seq > written.seq => break,
                _ => {}
            }
        }
    }
    Ok(false)
}
