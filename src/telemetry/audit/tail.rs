//! Reads the end of a file, to continue its chain.

use std::{
    fs::File,
    io::{self, Read as _, Seek as _, SeekFrom},
};

use super::chain::{Hash, Head, Link, MAX_LINE_BYTES, Torn};

/// How much of the end of a file is searched for a whole line. A crash leaves at most a few lines that are torn, or
/// some pages of zeros.
const SEARCHED: u64 = 32 * MAX_LINE_BYTES as u64;

/// The end of a file.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Tail {
    Empty,
    /// It ends with a whole line, at this place of the chain.
    Whole(Head),
    /// After the last whole line, if there is any, come bytes that are none.
    Torn(Option<Head>, Torn),
    /// A whole line that lacks its newline.
    Open(Head),
    /// It has no line, and a crash cannot have left it.
    Foreign,
}

/// Reads the end of a file, which may have been written by a process that was killed. The flag says whether the next
/// line needs a newline before it.
pub(super) fn read(file: &mut File) -> io::Result<(Tail, bool)> {
    let length = file.seek(SeekFrom::End(0))?;
    if length == 0 {
        return Ok((Tail::Empty, false));
    }
    let from = length.saturating_sub(SEARCHED);
    file.seek(SeekFrom::Start(from))?;
    let mut end = Vec::new();
    file.take(SEARCHED).read_to_end(&mut end)?;
    Ok((judge(&end, from == 0), !end.ends_with(b"\n")))
}

/// Judges the end of a file, which may be all of it.
fn judge(end: &[u8], is_all: bool) -> Tail {
    let mut upto = end.len();
    loop {
        // A line ends before `upto`, or before the newline there.
        let body = end[..upto].strip_suffix(b"\n").unwrap_or(&end[..upto]);
        let begin = body.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
        if let Some(head) = place(&body[begin..]) {
            let rest = &end[upto..];
            return match rest.strip_suffix(b"\n").unwrap_or(rest) {
                [] if body.len() == end.len() => Tail::Open(head),
                [] => Tail::Whole(head),
                rest => Tail::Torn(Some(head), torn(rest)),
            };
        }
        if begin == 0 {
            break;
        }
        upto = begin;
    }
    let begins = |bytes: &[u8]| {
        let beginning = br#"{"seq":"#;
        let length = bytes.len().min(beginning.len());
        bytes[..length] == beginning[..length] || bytes.iter().all(|&byte| byte == 0)
    };
    if is_all && begins(end) {
        Tail::Torn(None, torn(end.strip_suffix(b"\n").unwrap_or(end)))
    } else {
        Tail::Foreign
    }
}

/// The place of a line in the chain, as it claims itself.
fn place(line: &[u8]) -> Option<Head> {
    Link::read(line).map(|link| Head { seq: link.seq, hash: Hash::of(line) })
}

fn torn(bytes: &[u8]) -> Torn {
    Torn { bytes: bytes.len() as u64, hash: Hash::of(bytes) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::audit::chain::{self, Chain, Said};

    #[test]
    fn each_end_that_a_crash_can_leave_is_recognized() {
        let one = chain::write(Chain::Calls, Head::START, 0, &Said::Lost(1));
        let head = Head::START.then(&one);
        let two = chain::write(Chain::Calls, head, 0, &Said::Lost(2));
        let whole = [&one[..], b"\n"].concat();
        assert_eq!(judge(&whole, true), Tail::Whole(head));
        assert_eq!(judge(&one, true), Tail::Open(head));
        for cut in 1..two.len() {
            let rest = &two[..cut];
            assert_eq!(judge(&[&whole, rest].concat(), true), Tail::Torn(Some(head), torn(rest)));
            assert_eq!(judge(rest, true), Tail::Torn(None, torn(rest)), "the first line of all");
        }
        // The completion of a torn line was torn too.
        let again = [&whole[..], b"{\"seq\n{\"se"].concat();
        assert_eq!(judge(&again, true), Tail::Torn(Some(head), torn(b"{\"seq\n{\"se")));
        assert_eq!(judge(&[0; 4096], true), Tail::Torn(None, torn(&[0; 4096])));
        for foreign in [&b"root:x:0:0::/root:/bin/sh\n"[..], b"{\"key\":1}"] {
            assert_eq!(judge(foreign, true), Tail::Foreign);
        }
    }
}
