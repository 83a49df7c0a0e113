//! RESP 2, the form of Redis' commands and replies, as far as locks need it.

use std::io::Write as _;
use std::str::from_utf8;

use anyhow::{Context as _, Result, bail, ensure};

/// The largest reply taken, in bytes: `INFO` has some KiB.
const MAX_REPLY: usize = 1 << 20;
/// The most elements of an array: a message of a channel has three.
const MAX_ELEMENTS: usize = 16;
/// The end of a line.
const CRLF: &[u8] = b"\r\n";

/// A reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// A simple or a bulk string.
    Text(String),
    /// A bulk string that is not there.
    Nothing,
    /// A number.
    Integer(i64),
    /// A refusal.
    Error(String),
    /// An array of the others.
    Many(Vec<Reply>),
}

/// A command with its arguments.
pub fn command(parts: &[&str]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(256);
    // A vector takes all that is written to it.
    let _ = write!(bytes, "*{}\r\n", parts.len());
    for part in parts {
        let _ = write!(bytes, "${}\r\n{part}\r\n", part.len());
    }
    bytes
}

/// The first reply in `bytes`, and how many of them it takes; `None` while it is not whole.
///
/// # Errors
/// When the bytes have another form, or the reply is too large.
pub fn parse(bytes: &[u8]) -> Result<Option<(Reply, usize)>> {
    ensure!(bytes.len() <= MAX_REPLY, "a reply of more than {MAX_REPLY} bytes");
    if !bytes.starts_with(b"*") {
        return plain(bytes);
    }
    let Some((line, mut at)) = first_line(bytes)? else { return Ok(None) };
    let count: usize = line[1..].parse()?;
    ensure!(count <= MAX_ELEMENTS, "a reply of {count} elements");
    let mut elements = Vec::with_capacity(count);
    for _ in 0..count {
        let Some((element, length)) = plain(&bytes[at..])? else { return Ok(None) };
        elements.push(element);
        at += length;
    }
    Ok(Some((Reply::Many(elements), at)))
}

/// The first line without its end, and where the next one begins; `None` while it is not whole.
fn first_line(bytes: &[u8]) -> Result<Option<(&str, usize)>> {
    let end = bytes.windows(CRLF.len()).position(|it| it == CRLF);
    let line = |end: usize| anyhow::Ok((from_utf8(&bytes[..end])?, end + CRLF.len()));
    end.map(line).transpose()
}

/// The same as [`parse`], of a reply that is no array.
fn plain(bytes: &[u8]) -> Result<Option<(Reply, usize)>> {
    let Some((line, begin)) = first_line(bytes)? else { return Ok(None) };
    let (kind, rest) = line.split_at_checked(1).context("a reply without a kind")?;
    let reply = match kind {
        "+" => Reply::Text(rest.to_owned()),
        "-" => Reply::Error(rest.to_owned()),
        ":" => Reply::Integer(rest.parse()?),
        "$" if rest == "-1" => Reply::Nothing,
        "$" => {
            let length: usize = rest.parse()?;
            ensure!(length <= MAX_REPLY, "a reply of {length} bytes");
            let whole = begin + length + CRLF.len();
            if bytes.len() < whole {
                return Ok(None);
            }
            let text = from_utf8(&bytes[begin..begin + length])?;
            return Ok(Some((Reply::Text(text.to_owned()), whole)));
        }
        _ => bail!("a reply of another kind: {line}"),
    };
    Ok(Some((reply, begin)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_an_array_of_bulk_strings() {
        assert_eq!(command(&["GET", "clé"]), "*2\r\n$3\r\nGET\r\n$4\r\nclé\r\n".as_bytes());
    }

    #[test]
    fn each_kind_of_reply_is_read_and_what_follows_is_left() {
        let text = |it: &str| Reply::Text(it.to_owned());
        for (bytes, reply) in [
            ("+OK\r\n", text("OK")),
            ("-ERR no\r\n", Reply::Error("ERR no".to_owned())),
            (":-7\r\n", Reply::Integer(-7)),
            ("$-1\r\n", Reply::Nothing),
            ("$0\r\n\r\n", text("")),
            ("$4\r\na\r\nb\r\n", text("a\r\nb")),
            ("*2\r\n$1\r\na\r\n:7\r\n", Reply::Many(vec![text("a"), Reply::Integer(7)])),
        ] {
            let found = parse(format!("{bytes}:1\r\n").as_bytes()).unwrap();
            assert_eq!(found, Some((reply, bytes.len())), "{bytes:?}");
            for length in 0..bytes.len() {
                assert_eq!(parse(&bytes.as_bytes()[..length]).unwrap(), None, "{bytes:?}");
            }
        }
    }

    #[test]
    fn another_form_is_an_error() {
        for bytes in ["\r\n", "*17\r\n", "*1\r\n*0\r\n", ":x\r\n", "$-2\r\n", "$9999999\r\n"] {
            assert!(parse(bytes.as_bytes()).is_err(), "{bytes:?}");
        }
    }
}
