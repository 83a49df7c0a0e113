//! Reads the frames of a client (RFC 6455).
//!
//! Guarantees: a frame that announces more than [`MOST`] bytes is refused before its payload is read. What is buffered
//! of longer messages counts for the budget of all bodies. Fragments are put together.
//!
//! Assumes: no extension was negotiated.

use std::{
    sync::Arc,
    task::{Context, Poll, ready},
};

use actix_http::ws::{OpCode, Parser, ProtocolError};
use actix_web::dev::Payload;
use bytes::{Bytes, BytesMut};
use futures_util::StreamExt as _;

use super::ending::Ending;
use crate::http::door::{Budget, Charged, FREE};

/// The longest message, in bytes: the largest body of a call, and what is around it.
pub const MOST: usize = 1024 * 1024 + 4096;

/// What a client sends.
pub enum Incoming {
    /// A whole message of text, which may not be UTF-8.
    Message(Bytes),
    Ping(Bytes),
    Pong,
    /// The client ends the stream.
    Close,
    /// The connection is gone.
    Gone,
}

/// The frames that arrive.
pub struct Frames {
    payload: Payload,
    buffer: BytesMut,
    /// The beginning of a message in several frames.
    begun: Option<Begun>,
    budget: Arc<Budget>,
    /// What the frame that is arriving counts for.
    charged: Option<Charged>,
    /// How many messages were read.
    messages: u64,
}

/// How many bytes of a message in fragments are counted at a time.
const BLOCK: usize = 64 * 1024;

#[derive(Default)]
struct Begun {
    bytes: Vec<u8>,
    charged: Vec<Charged>,
    /// How many bytes of the message may be buffered before more must be counted.
    room: usize,
}

/// A message that counts as long as it exists.
struct Whole<T> {
    bytes: T,
    _charged: Vec<Charged>,
}

impl<T: AsRef<[u8]>> AsRef<[u8]> for Whole<T> {
    fn as_ref(&self) -> &[u8] {
        self.bytes.as_ref()
    }
}

impl Frames {
    /// The frames in what follows the head of a request.
    pub fn new(payload: Payload, budget: Arc<Budget>) -> Self {
        let buffer = BytesMut::new();
        Self { payload, buffer, begun: None, budget, charged: None, messages: 0 }
    }

    /// The number of the message of which a part has arrived that others have to make room for.
    pub fn unfinished(&self) -> Option<u64> {
        (self.begun.is_some() || self.charged.is_some()).then_some(self.messages)
    }

    /// What the client sent next.
    ///
    /// # Errors
    /// Why the stream must end: it is no WebSocket, or too long.
    pub fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<Incoming, Ending>> {
        loop {
            if let Some(incoming) = self.next()? {
                return Poll::Ready(Ok(incoming));
            }
            match ready!(self.payload.poll_next_unpin(context)) {
                Some(Ok(chunk)) => self.buffer.extend_from_slice(&chunk),
                Some(Err(_)) | None => return Poll::Ready(Ok(Incoming::Gone)),
            }
        }
    }

    /// The next whole message or control frame in the buffer.
    fn next(&mut self) -> Result<Option<Incoming>, Ending> {
        loop {
            self.admit()?;
            let frame = Parser::parse(&mut self.buffer, true, MOST).map_err(refused)?;
            let Some((is_last, kind, payload)) = frame else { return Ok(None) };
            let payload = payload.map(BytesMut::freeze).unwrap_or_default();
            let charged = self.charged.take();
            let is_control = matches!(kind, OpCode::Ping | OpCode::Pong | OpCode::Close);
            if is_control && !is_last {
                return Err(Ending::Broken("a control frame is in fragments"));
            }
            let incoming = match kind {
                OpCode::Ping => Incoming::Ping(payload),
                OpCode::Pong => Incoming::Pong,
                OpCode::Close => Incoming::Close,
                OpCode::Text if self.begun.is_some() => {
                    return Err(Ending::Broken("a message begins within another one"));
                }
                OpCode::Text if is_last => Incoming::Message(whole(payload, charged)),
                OpCode::Text => {
                    self.begun = Some(Begun::default());
                    self.add(&payload, charged)?;
                    continue;
                }
                OpCode::Continue => {
                    self.add(&payload, charged)?;
                    match self.begun.take_if(|_| is_last) {
                        Some(Begun { bytes, charged, .. }) => {
                            let whole = Whole { bytes, _charged: charged };
                            Incoming::Message(Bytes::from_owner(whole))
                        }
                        None => continue,
                    }
                }
                OpCode::Binary => return Err(Ending::NotText),
                OpCode::Bad => return Err(Ending::Broken("a frame has an unknown kind")),
            };
            self.messages += u64::from(matches!(incoming, Incoming::Message(_)));
            return Ok(Some(incoming));
        }
    }

    /// Checks the length that the next frame announces, and counts it.
    fn admit(&mut self) -> Result<(), Ending> {
        let Some(length) = announced(&self.buffer) else { return Ok(()) };
        if length > MOST as u64 {
            return Err(Ending::TooLong);
        }
        let length = usize::try_from(length).unwrap_or(MOST);
        if length > FREE && self.charged.is_none() {
            self.charged = Some(self.charge(length)?);
        }
        Ok(())
    }

    /// A message may be many heartbeats, so it may use the reserve for them.
    fn charge(&self, length: usize) -> Result<Charged, Ending> {
        Charged::of(&self.budget, length, true).map_err(|_| Ending::NoRoom)
    }

    /// Adds a fragment to the message that has begun. Short fragments are counted in blocks, and empty ones cost nothing.
    fn add(&mut self, fragment: &[u8], charged: Option<Charged>) -> Result<(), Ending> {
        let Some(mut begun) = self.begun.take() else {
            return Err(Ending::Broken("a message goes on that has not begun"));
        };
        let length = begun.bytes.len() + fragment.len();
        if length > MOST {
            return Err(Ending::TooLong);
        }
        if let Some(charged) = charged {
            begun.charged.push(charged);
            begun.room += fragment.len();
        }
        while length > FREE + begun.room {
            begun.charged.push(self.charge(BLOCK)?);
            begun.room += BLOCK;
        }
        begun.bytes.extend_from_slice(fragment);
        self.begun = Some(begun);
        Ok(())
    }
}

fn whole(bytes: Bytes, charged: Option<Charged>) -> Bytes {
    match charged {
        None => bytes,
        Some(charged) => Bytes::from_owner(Whole { bytes, _charged: vec![charged] }),
    }
}

/// The length of the payload that the head of the next frame announces.
fn announced(buffer: &[u8]) -> Option<u64> {
    match buffer.get(1)? & 0x7f {
        126 => buffer.get(2..4)?.try_into().ok().map(u16::from_be_bytes).map(u64::from),
        127 => buffer.get(2..10)?.try_into().ok().map(u64::from_be_bytes),
        short => Some(u64::from(short)),
    }
}

fn refused(error: ProtocolError) -> Ending {
    match error {
        ProtocolError::Overflow => Ending::TooLong,
        ProtocolError::UnmaskedFrame => Ending::Broken("a frame is not masked"),
        _ => Ending::Broken("a frame is not valid"),
    }
}

#[cfg(test)]
mod tests {
    use futures_util::task::noop_waker;

    use super::*;

    /// What is read of these bytes, and why no more is.
    fn read(bytes: &[u8]) -> (Vec<String>, Option<Ending>) {
        let payload = Payload::from(Bytes::copy_from_slice(bytes));
        let mut frames = Frames::new(payload, Budget::new(4 << 20));
        let waker = noop_waker();
        let mut context = Context::from_waker(&waker);
        let mut seen = Vec::new();
        loop {
            match frames.poll(&mut context) {
                Poll::Ready(Ok(Incoming::Message(text))) => {
                    seen.push(String::from_utf8_lossy(&text).into_owned());
                }
                Poll::Ready(Ok(Incoming::Ping(_))) => seen.push("ping".into()),
                Poll::Ready(Ok(Incoming::Pong)) => seen.push("pong".into()),
                Poll::Ready(Ok(Incoming::Close)) => seen.push("close".into()),
                Poll::Ready(Ok(Incoming::Gone)) | Poll::Pending => return (seen, None),
                Poll::Ready(Err(ending)) => return (seen, Some(ending)),
            }
        }
    }

    fn frame(text: &str, kind: OpCode, is_last: bool) -> BytesMut {
        let mut frame = BytesMut::new();
        Parser::write_message(&mut frame, text, kind, is_last, true);
        frame
    }

    #[test]
    fn messages_in_one_frame_and_in_several_are_read_and_control_frames_between_them() {
        let mut sent = frame("one", OpCode::Text, true);
        sent.extend(frame("tw", OpCode::Text, false));
        sent.extend(frame("", OpCode::Ping, true));
        sent.extend(frame("o", OpCode::Continue, true));
        let long = "x".repeat(70_000);
        sent.extend(frame(&long, OpCode::Text, true));
        assert_eq!(read(&sent), (vec!["one".into(), "ping".into(), "two".into(), long], None));
    }

    #[test]
    fn what_is_no_message_ends_the_stream() {
        let mut unmasked = BytesMut::new();
        Parser::write_message(&mut unmasked, "x", OpCode::Text, true, false);
        let within = {
            let mut sent = frame("a", OpCode::Text, false);
            sent.extend(frame("b", OpCode::Text, true));
            sent
        };
        // Two bytes of a head announce a length of 64 bits, which follows.
        let long = [&[0x81, 0xff][..], &(MOST as u64 + 1).to_be_bytes()].concat();
        let cases = [
            (unmasked.to_vec(), Ending::Broken("a frame is not masked")),
            (within.to_vec(), Ending::Broken("a message begins within another one")),
            (
                frame("x", OpCode::Continue, true).to_vec(),
                Ending::Broken("a message goes on that has not begun"),
            ),
            (frame("x", OpCode::Binary, true).to_vec(), Ending::NotText),
            (
                frame("", OpCode::Ping, false).to_vec(),
                Ending::Broken("a control frame is in fragments"),
            ),
            (long, Ending::TooLong),
        ];
        for (sent, expected) in cases {
            assert_eq!(read(&sent), (Vec::new(), Some(expected)));
        }
    }

    #[test]
    fn fragments_have_the_bound_of_a_message_together() {
        let half = "x".repeat(MOST / 2 + 1);
        let mut sent = frame(&half, OpCode::Text, false);
        sent.extend(frame(&half, OpCode::Continue, true));
        assert_eq!(read(&sent).1, Some(Ending::TooLong));
    }

    /// Ten million of them would otherwise cost hundreds of megabytes that nothing counts.
    #[test]
    fn fragments_are_counted_in_blocks_and_empty_ones_not_at_all() {
        let budget = Budget::new(4 << 20);
        let mut frames = Frames::new(Payload::None, budget);
        frames.begun = Some(Begun { bytes: vec![b' '; FREE], ..Begun::default() });
        for _ in 0..1000 {
            frames.add(b"", None).unwrap();
        }
        assert_eq!(frames.begun.as_ref().map(|begun| begun.charged.len()), Some(0));
        for _ in 0..BLOCK + 1 {
            frames.add(b"x", None).unwrap();
        }
        assert_eq!(frames.begun.as_ref().map(|begun| begun.charged.len()), Some(2));
        assert_eq!(frames.unfinished(), Some(0));
    }
}
