//! Checks the chain over the files of a log.

use std::{
    fs::File,
    io::{self, BufRead, BufReader},
    path::{Path, PathBuf},
};

use serde::Serialize;
use sha2::{Digest as _, Sha256};

use super::chain::{Hash, Head, Link};

/// What a sound chain holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Verified {
    pub files: usize,
    pub lines: u64,
    /// The number of the first line. Above 1, older files are missing.
    pub first: u64,
    /// The number and the digest of the last line, as `SEQ:HASH`.
    pub head: String,
    /// How many lines could not be written, as later lines say.
    pub lost: u64,
    /// How many times a crash left bytes that are no line, as later lines say.
    pub torn: u64,
}

/// Why the files are no sound chain.
#[derive(Debug, thiserror::Error)]
pub enum ChainFault {
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("{}:{line}: {why}", path.display())]
    Line { path: PathBuf, line: u64, why: String },
    #[error("{0}")]
    Head(String),
}

/// Checks the chain over these files, in the order of their first lines. Checks that it contains `known`, which detects
/// an end that was cut off.
///
/// # Errors
/// The first [`ChainFault`].
pub fn verify(files: &[PathBuf], known: Option<Head>) -> Result<Verified, ChainFault> {
    let mut ordered = Vec::new();
    for path in files {
        ordered.extend(first(path)?.map(|seq| (seq, path)));
    }
    ordered.sort();
    let mut check = Check { known, ..Check::default() };
    for (_, path) in &ordered {
        let mut line = 0;
        each_line(path, |text, is_whole| {
            line += 1;
            check.take((path, line), text, is_whole).map(|()| true)
        })?;
    }
    check.end(ordered.len())
}

/// The number that the first line of a file claims. A file without a line comes last. `None`: the file is empty.
fn first(path: &Path) -> Result<Option<u64>, ChainFault> {
    let (mut is_empty, mut first) = (true, None);
    each_line(path, |text, _| {
        is_empty = false;
        first = Link::read(text).map(|link| link.seq);
        Ok(first.is_none())
    })?;
    Ok((!is_empty).then(|| first.unwrap_or(u64::MAX)))
}

/// Calls `take` with each line of a file, without its newline, and whether it has one, for as long as it returns `true`.
fn each_line(
    path: &Path,
    mut take: impl FnMut(&[u8], bool) -> Result<bool, ChainFault>,
) -> Result<(), ChainFault> {
    let at = |source: io::Error| ChainFault::Io { path: path.to_owned(), source };
    let mut reader = BufReader::new(File::open(path).map_err(at)?);
    let mut text = Vec::new();
    while reader.read_until(b'\n', &mut text).map_err(at)? > 0 {
        let is_whole = text.last() == Some(&b'\n');
        if !take(&text[..text.len() - usize::from(is_whole)], is_whole)? {
            break;
        }
        text.clear();
    }
    Ok(())
}

#[derive(Default)]
struct Check {
    known: Option<Head>,
    is_known: bool,
    lines: u64,
    first: u64,
    head: Option<Head>,
    lost: u64,
    torn: u64,
    /// The first fault, and the bytes from there on, which a later line may explain as torn by a crash.
    bad: Option<(ChainFault, Sha256)>,
}

impl Check {
    fn take(
        &mut self,
        (path, line): (&Path, u64),
        text: &[u8],
        is_whole: bool,
    ) -> Result<(), ChainFault> {
        let fault = |why: String| ChainFault::Line { path: path.to_owned(), line, why };
        let link = Link::read(text);
        if let Some((_, torn)) = &self.bad {
            let torn = Hash::from(torn.clone());
            match link {
                Some(link) if link.torn.is_some_and(|said| said.hash == torn) => {
                    self.bad = None;
                    self.torn += 1;
                    return self.accept(&link, text).map_err(fault);
                }
                _ => {
                    if let Some((_, torn)) = &mut self.bad {
                        torn.update(b"\n");
                        torn.update(text);
                    }
                    return Ok(());
                }
            }
        }
        let accepted = match link {
            Some(_) if !is_whole => Err("the line is not complete".to_owned()),
            Some(link) => self.accept(&link, text),
            None => Err("this is no line of an audit log".to_owned()),
        };
        if let Err(why) = accepted {
            self.bad = Some((fault(why), Sha256::new_with_prefix(text)));
        }
        Ok(())
    }

    fn accept(&mut self, link: &Link, text: &[u8]) -> Result<(), String> {
        let before = match self.head {
            Some(head) => head,
            None if link.seq <= 1 => Head::START,
            // Older files were removed.
            None => Head { seq: link.seq - 1, hash: link.prev },
        };
        if link.seq != before.seq + 1 {
            return Err(format!("line {} follows line {}", link.seq, before.seq));
        }
        if link.prev != before.hash {
            return Err(format!(
                "`prev` is not the digest of line {}: that line or this one was changed",
                before.seq
            ));
        }
        let head = before.then(text);
        if let Some(known) = self.known.filter(|known| known.seq == head.seq) {
            if known != head {
                return Err("the digest of this line is not the one of --head".to_owned());
            }
            self.is_known = true;
        }
        self.first = if self.head.is_none() { link.seq } else { self.first };
        self.lines += 1;
        self.lost += link.lost;
        self.head = Some(head);
        Ok(())
    }

    fn end(self, files: usize) -> Result<Verified, ChainFault> {
        if let Some((fault, _)) = self.bad {
            return Err(fault);
        }
        let head = self.head.unwrap_or(Head::START);
        match self.known {
            Some(known) if !self.is_known && known.seq > head.seq => {
                return Err(ChainFault::Head(format!(
                    "the last line is {}, and line {} was written: the end was cut off",
                    head.seq, known.seq
                )));
            }
            Some(known) if !self.is_known => {
                return Err(ChainFault::Head(format!(
                    "the first line is {}, so line {} is in an older file: name that file too",
                    self.first, known.seq
                )));
            }
            _ => {}
        }
        let Self { lines, first, lost, torn, .. } = self;
        Ok(Verified { files, lines, first, head: head.to_string(), lost, torn })
    }
}
