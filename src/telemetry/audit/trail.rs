//! The files of the log: appends lines, and begins a new file when one is full.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use super::{
    chain::{self, Head, Said, Torn},
    tail::{self, Tail},
};

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

/// The file that is written now. The older ones have a number after their name; the highest is the oldest.
pub(super) struct Trail {
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
    /// Opens the file, and continues its chain. Writes nothing to it yet.
    pub(super) fn open(path: &Path, max_size: u64, keep: u32) -> Result<Self, AuditError> {
        let mut file = create(path, false)?;
        let at = AuditError::at(path);
        let (tail, needs_newline) = tail::read(&mut file).map_err(&at)?;
        let (head, torn) = match tail {
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
        let path = path.to_owned();
        Ok(Self { path, max_size, keep, file, length, is_ragged: false, head, torn, needs_newline })
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

    /// Appends a line. A line that cannot be written whole is taken back, and the chain stays as it was.
    pub(super) fn append(&mut self, wall_ms: u64, said: &Said<'_>) -> io::Result<()> {
        if self.is_ragged {
            self.file.set_len(self.length)?;
            self.is_ragged = false;
        }
        let mut text = Vec::new();
        let mut head = self.head;
        if self.needs_newline {
            text.push(b'\n');
        }
        if let Some(torn) = self.torn {
            let line = chain::write(head, wall_ms, &Said::Torn(torn));
            head = head.then(&line);
            text.extend(line);
            text.push(b'\n');
        }
        let line = chain::write(head, wall_ms, said);
        let is_full =
            self.length > 0 && self.length + (text.len() + line.len()) as u64 >= self.max_size;
        if is_full && text.is_empty() {
            self.rotate()?;
        }
        head = head.then(&line);
        text.extend(line);
        text.push(b'\n');
        if let Err(error) = self.file.write_all(&text) {
            self.is_ragged = true;
            return Err(error);
        }
        self.length += text.len() as u64;
        (self.head, self.torn, self.needs_newline) = (head, None, false);
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
