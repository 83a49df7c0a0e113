//! Standard input and output, line by line, each on a separate thread: a read that waits must not keep the process
//! from ending, and a client that does not read must not keep heartbeats from being sent.

use std::io::{self, BufRead, Read as _, Write as _};

use tokio::sync::{mpsc, oneshot};

/// The longest line that is read, in bytes. The longest call that makes sense has a value of 16 KiB.
const MAX_LINE: u64 = 1 << 20;
/// The most lines that wait for the server, and for the client.
const QUEUE: usize = 64;

/// A line of input.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// The line without its end.
    Whole(Vec<u8>),
    /// It was longer than [`MAX_LINE`], and is left out.
    TooLong,
}

/// The lines of standard input, until its end.
pub(super) fn incoming() -> mpsc::Receiver<Line> {
    let (sender, receiver) = mpsc::channel(QUEUE);
    std::thread::spawn(move || {
        let mut stdin = io::stdin().lock();
        while let Some(line) = next(&mut stdin) {
            if sender.blocking_send(line).is_err() {
                return;
            }
        }
    });
    receiver
}

/// Writes lines to standard output until all senders are gone or nobody reads. The second channel is then closed.
pub(super) fn outgoing() -> (mpsc::Sender<String>, oneshot::Receiver<()>) {
    let (sender, mut receiver) = mpsc::channel::<String>(QUEUE);
    let (writes, written) = oneshot::channel::<()>();
    std::thread::spawn(move || {
        let _writes = writes;
        let mut stdout = io::stdout().lock();
        while let Some(line) = receiver.blocking_recv() {
            if writeln!(stdout, "{line}").and_then(|()| stdout.flush()).is_err() {
                return;
            }
        }
    });
    (sender, written)
}

/// The next line; `None` at the end of the input.
fn next(input: &mut impl BufRead) -> Option<Line> {
    let mut line = Vec::new();
    let read = input.by_ref().take(MAX_LINE + 1).read_until(b'\n', &mut line).ok()?;
    if read == 0 {
        return None;
    }
    if line.pop_if(|last| *last == b'\n').is_some() {
        return Some(Line::Whole(line));
    }
    if read as u64 <= MAX_LINE {
        // The input ends without an end of line.
        return Some(Line::Whole(line));
    }
    input.skip_until(b'\n').ok()?;
    Some(Line::TooLong)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(input: &[u8]) -> Vec<Line> {
        let mut input = io::BufReader::with_capacity(7, input);
        std::iter::from_fn(|| next(&mut input)).collect()
    }

    fn whole(line: &str) -> Line {
        Line::Whole(line.as_bytes().to_vec())
    }

    #[test]
    fn lines_end_with_a_line_feed_and_the_last_one_with_the_input() {
        assert!(lines(b"").is_empty());
        assert_eq!(lines(b"one\n\nthree"), [whole("one"), whole(""), whole("three")]);
        assert_eq!(lines(b"one\r\n"), [whole("one\r")]);
    }

    #[test]
    fn a_line_that_is_too_long_is_left_out_and_the_next_one_is_read() {
        let longest = "x".repeat(usize::try_from(MAX_LINE).unwrap());
        let text = format!("{longest}\n{longest}y\nafter\n{longest}y");
        let found = lines(text.as_bytes());
        assert_eq!(found, [whole(&longest), Line::TooLong, whole("after"), Line::TooLong]);
    }
}
