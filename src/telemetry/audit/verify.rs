//! Checks the chain over the files of a log.

use std::{
    fs::File,
    io::{self, BufRead, BufReader},
    path::{Path, PathBuf},
};

use serde::Serialize;
use sha2::{Digest as _, Sha256};

use super::chain::{Chain, Hash, Head, Link};

/// The content of sound chains.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Verified {
    pub files: usize,
    pub lines: u64,
    /// The number of the first line. Above 1, older files are missing. Of two chains, that of refusals and reads.
    pub first: u64,
    /// The number and the digest of the last line, as `SEQ:HASH`. Of two chains, that of refusals and reads.
    pub head: String,
    /// How many lines could not be written, as later lines say.
    pub lost: u64,
    /// How many times a crash left bytes that are no line, as later lines say.
    pub torn: u64,
    /// Each chain that has a file.
    pub chains: Vec<VerifiedChain>,
}

/// The content of one sound chain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct VerifiedChain {
    pub chain: Chain,
    pub files: usize,
    pub lines: u64,
    pub first: u64,
    pub head: String,
    pub lost: u64,
    pub torn: u64,
}

/// The demands of a check beyond sound chains.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checks {
    /// Lines of which each is in a chain. They show an end that was cut off.
    pub known: Vec<Head>,
    /// The line with which each chain begins, or that comes after its beginning. It shows a beginning that was removed.
    /// A line `gap` up to this line is no fault.
    pub from: Option<u64>,
}

/// Why the files are no sound chain.
#[derive(Debug, thiserror::Error)]
pub enum ChainFault {
    #[error("cannot read {}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("{}:{line}: {why}", path.display())]
    Line { path: PathBuf, line: u64, why: String },
    #[error("{0}")]
    Head(String),
}

/// Checks the chains over these files, in the order of their first lines.
///
/// # Errors
/// The first [`ChainFault`].
pub fn verify(files: &[PathBuf], checks: &Checks) -> Result<Verified, ChainFault> {
    let mut ordered = Vec::new();
    for path in files {
        ordered.extend(first(path)?.map(|(chain, seq)| (chain, seq, path)));
    }
    ordered.sort();
    let mut known: Vec<Known> = checks.known.iter().map(|head| Known::new(*head)).collect();
    let (mut chains, mut faults) = (Vec::new(), Vec::new());
    for chain in Chain::ALL {
        let of_chain = ordered.iter().filter(|(of, ..)| *of == chain).map(|(.., path)| *path);
        match one(chain, of_chain, &mut known, checks.from) {
            Ok(found) => chains.extend(found),
            Err(fault) => faults.push(fault),
        }
    }
    if let Some(fault) = faults.into_iter().next() {
        return Err(fault);
    }
    known.into_iter().try_for_each(Known::end)?;
    let sum = |of: fn(&VerifiedChain) -> u64| chains.iter().map(of).sum();
    let main = chains.first();
    Ok(Verified {
        files: ordered.len(),
        lines: sum(|chain| chain.lines),
        first: main.map_or(0, |chain| chain.first),
        head: main.map_or_else(|| Head::START.to_string(), |chain| chain.head.clone()),
        lost: sum(|chain| chain.lost),
        torn: sum(|chain| chain.torn),
        chains,
    })
}

/// Checks one chain; `None` if it has no file.
fn one<'p>(
    chain: Chain,
    paths: impl Iterator<Item = &'p PathBuf>,
    known: &mut [Known],
    from: Option<u64>,
) -> Result<Option<VerifiedChain>, ChainFault> {
    let mut check = Check::new(chain, from, known);
    let mut files = 0;
    for path in paths {
        let mut line = 0;
        files += 1;
        each_line(path, |text, is_whole| {
            line += 1;
            check.take((path, line), text, is_whole).map(|()| true)
        })?;
    }
    if files == 0 { Ok(None) } else { check.end(files).map(Some) }
}

/// The chain of a file, and the number that its first line claims. A file without a line comes last. `None`: the file is
/// empty.
fn first(path: &Path) -> Result<Option<(Chain, u64)>, ChainFault> {
    let (mut is_empty, mut first) = (true, None);
    each_line(path, |text, _| {
        is_empty = false;
        first = Link::read(text).map(|link| (link.chain, link.seq));
        Ok(first.is_none())
    })?;
    Ok((!is_empty).then(|| first.unwrap_or((Chain::Calls, u64::MAX))))
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

/// A line that a chain must have.
struct Known {
    head: Head,
    is_found: bool,
    /// Why the chains that were checked do not have it.
    why: Option<ChainFault>,
}

impl Known {
    fn new(head: Head) -> Self {
        Self { head, is_found: false, why: None }
    }

    fn end(self) -> Result<(), ChainFault> {
        match self.why {
            _ if self.is_found => Ok(()),
            Some(why) => Err(why),
            None => Err(ChainFault::Head(format!("no file has line {}", self.head.seq))),
        }
    }
}

struct Check<'k> {
    chain: Chain,
    known: &'k mut [Known],
    from: Option<u64>,
    lines: u64,
    first: u64,
    head: Option<Head>,
    lost: u64,
    torn: u64,
    /// The first fault, and the bytes from there on, which a later line may explain as torn by a crash.
    bad: Option<(ChainFault, Sha256)>,
}

impl<'k> Check<'k> {
    fn new(chain: Chain, from: Option<u64>, known: &'k mut [Known]) -> Self {
        let (lines, first, head, lost, torn, bad) = (0, 0, None, 0, 0, None);
        Self { chain, known, from, lines, first, head, lost, torn, bad }
    }

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
                    return self.accept(&link, text, fault);
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
            Some(_) if !is_whole => Err(fault("the line is not complete".to_owned())),
            Some(link) => self.accept(&link, text, fault),
            None => Err(fault("this is no line of an audit log".to_owned())),
        };
        if let Err(fault) = accepted {
            self.bad = Some((fault, Sha256::new_with_prefix(text)));
        }
        Ok(())
    }

    fn accept(
        &mut self,
        link: &Link,
        text: &[u8],
        fault: impl Fn(String) -> ChainFault,
    ) -> Result<(), ChainFault> {
        let before = match self.head {
            Some(head) => head,
            None if link.seq <= 1 => Head::START,
            // Older files were removed.
            None => Head { seq: link.seq - 1, hash: link.prev },
        };
        self.follows(link, before).map_err(&fault)?;
        let head = before.then(text);
        for known in self.known.iter_mut().filter(|known| known.head.seq == head.seq) {
            if known.head == head {
                known.is_found = true;
            } else {
                let why = "the digest of this line is not the one of --head".to_owned();
                known.why.get_or_insert(fault(why));
            }
        }
        self.first = if self.head.is_none() { link.seq } else { self.first };
        self.lines += 1;
        self.lost += link.lost;
        self.head = Some(head);
        Ok(())
    }

    /// Checks that a line continues the chain after `before`.
    fn follows(&self, link: &Link, before: Head) -> Result<(), String> {
        if link.chain != self.chain {
            return Err(format!("this line is one of the {}", link.chain.as_str()));
        }
        if let Some(written) = &link.written
            && self.from.is_none_or(|from| link.seq > from)
        {
            return Err(format!(
                "lines before this one are gone or were changed: the last line that was written was {written}. To \
                 check the lines after it, use --from {}",
                link.seq
            ));
        }
        if link.seq != before.seq + 1 {
            return Err(format!("line {} follows line {}", link.seq, before.seq));
        }
        if link.prev != before.hash {
            return Err(format!(
                "`prev` is not the digest of line {}: that line or this one was changed",
                before.seq
            ));
        }
        Ok(())
    }

    fn end(self, files: usize) -> Result<VerifiedChain, ChainFault> {
        if let Some((fault, _)) = self.bad {
            return Err(fault);
        }
        let head = self.head.unwrap_or(Head::START);
        if let Some(from) = self.from.filter(|from| self.first > *from) {
            return Err(ChainFault::Head(format!(
                "the first line of the {} is {}, and line {from} was asked for: its beginning was removed, or is in an \
                 older file: name that file too",
                self.chain.as_str(),
                self.first
            )));
        }
        for known in self.known.iter_mut().filter(|known| !known.is_found) {
            let seq = known.head.seq;
            let why = if seq > head.seq {
                format!(
                    "the last line is {}, and line {seq} was written: the end was cut off",
                    head.seq
                )
            } else if seq < self.first {
                format!(
                    "the first line is {}, so line {seq} is in an older file: name that file too",
                    self.first
                )
            } else {
                continue;
            };
            known.why.get_or_insert(ChainFault::Head(why));
        }
        let Self { chain, lines, first, lost, torn, .. } = self;
        Ok(VerifiedChain { chain, files, lines, first, head: head.to_string(), lost, torn })
    }
}
