//! The frames of a WebSocket (RFC 6455), both ways.

use anyhow::{Result, bail};

/// The longest message taken, in bytes: 10 000 verdicts are about 1 MiB.
const MAX_MESSAGE: usize = 64 << 20;

/// Adds a message of text to `out`. Its mask is zero, so that the text stays as it is.
pub fn text(message: &[u8], out: &mut Vec<u8>) {
    frame(0x81, message, out);
}

/// Adds the answer to a ping.
pub fn pong(payload: &[u8], out: &mut Vec<u8>) {
    frame(0x8a, payload, out);
}

fn frame(head: u8, payload: &[u8], out: &mut Vec<u8>) {
    out.push(head);
    match payload.len() {
        short @ ..126 => out.push(0x80 | u8::try_from(short).unwrap_or(0)),
        middle @ ..0x1_0000 => {
            out.push(0x80 | 126);
            out.extend_from_slice(&u16::try_from(middle).unwrap_or(0).to_be_bytes());
        }
        long => {
            out.push(0x80 | 127);
            out.extend_from_slice(&(long as u64).to_be_bytes());
        }
    }
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(payload);
}

/// What a server sends.
#[derive(Debug, PartialEq)]
pub enum Frame<'a> {
    Text(&'a [u8]),
    Ping(&'a [u8]),
    Close(&'a [u8]),
    Other,
}

/// The first whole frame in `bytes`, and its length; `None` if there is none yet.
///
/// # Errors
/// The frame is too long.
pub fn parse(bytes: &[u8]) -> Result<Option<(Frame<'_>, usize)>> {
    let [head, second, rest @ ..] = bytes else { return Ok(None) };
    let wide = |count: usize| {
        rest.get(..count).map(|it| it.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte)))
    };
    let (length, before) = match second & 0x7f {
        126 => (wide(2), 4),
        127 => (wide(8), 10),
        short => (Some(usize::from(short)), 2),
    };
    let Some(length) = length else { return Ok(None) };
    if length > MAX_MESSAGE {
        bail!("a message of {length} bytes");
    }
    let Some(payload) = bytes.get(before..before + length) else { return Ok(None) };
    let frame = match head & 0x0f {
        0x1 => Frame::Text(payload),
        0x8 => Frame::Close(payload),
        0x9 => Frame::Ping(payload),
        _ => Frame::Other,
    };
    Ok(Some((frame, before + length)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_read_when_they_are_whole() {
        for length in [0, 1, 125, 126, 65_535, 65_536] {
            let message = vec![b'x'; length];
            let mut sent = Vec::new();
            text(&message, &mut sent);
            // A server does not mask.
            let at = sent.len() - length - 4;
            sent.drain(at..at + 4);
            sent[1] &= 0x7f;
            assert_eq!(parse(&sent[..sent.len() - 1]).unwrap(), None, "{length}");
            let whole = sent.len();
            sent.push(0x89);
            assert_eq!(parse(&sent).unwrap(), Some((Frame::Text(&message), whole)));
        }
        assert_eq!(parse(&[0x89, 1, 7]).unwrap(), Some((Frame::Ping(&[7]), 3)));
        assert!(parse(&[0x81, 127, 1, 0, 0, 0, 0, 0, 0, 0]).is_err());
    }
}
