//! Reads the frames of a client (RFC 6455).
//!
//! Guarantees: a frame that announces more than [`MOST`] bytes is refused before its payload is read. The buffered
//! bytes of a longer message count for the budget of all bodies, in blocks; the announced length does not. The
//! reserve is for messages that begin as a heartbeat or a release. Fragments are put together, and a message has no more
//! of them than its length explains.
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

use super::{
    ending::Ending,
    front::{FRONT, Front},
    operations::named,
};
use crate::http::{
    caller::Payer,
    door::{Budget, Charged, FREE},
};

/// The longest message, in bytes: the largest body of a call, and what is around it.
pub const MOST: usize = 1024 * 1024 + 4096;
/// The longest payload of a control frame (RFC 6455 §5.5), in bytes.
const MOST_OF_CONTROL: u64 = 125;
/// How many bytes of a message are counted at a time.
const BLOCK: usize = 16 * 1024;
/// The fragments that any message may have, and the bytes for which it may have one more.
const FRAGMENTS: usize = 64;
const FRAGMENT_BYTES: usize = 256;

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
    /// Counts the buffered bytes of the message that is arriving.
    charged: Charged,
    /// How many messages were read.
    messages: u64,
}

#[derive(Default)]
struct Begun {
    bytes: Vec<u8>,
    fragments: usize,
}

/// A message that counts as long as it exists.
struct Whole<T> {
    bytes: T,
    _charged: Charged,
}

impl<T: AsRef<[u8]>> AsRef<[u8]> for Whole<T> {
    fn as_ref(&self) -> &[u8] {
        self.bytes.as_ref()
    }
}

impl Frames {
    /// The frames in what follows the head of a request, for which this caller pays.
    pub fn new(payload: Payload, budget: Arc<Budget>, payer: Payer) -> Self {
        let charged = Charged::new(budget, payer);
        Self { payload, buffer: BytesMut::new(), begun: None, charged, messages: 0 }
    }

    /// The number of the message of which a part has arrived that others have to make room for.
    pub fn unfinished(&self) -> Option<u64> {
        (self.begun.is_some() || self.charged.bytes() > 0).then_some(self.messages)
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
            if !self.admit()? {
                return Ok(None);
            }
            let frame = Parser::parse(&mut self.buffer, true, MOST).map_err(refused)?;
            let Some((is_last, kind, payload)) = frame else { return Ok(None) };
            let payload = payload.map(BytesMut::freeze).unwrap_or_default();
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
                OpCode::Text if is_last => Incoming::Message(self.whole(payload)),
                OpCode::Text => {
                    self.begun = Some(Begun::default());
                    self.add(&payload)?;
                    continue;
                }
                OpCode::Continue => {
                    self.add(&payload)?;
                    match self.begun.take_if(|_| is_last) {
                        Some(Begun { bytes, .. }) => Incoming::Message(self.whole(bytes.into())),
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

    /// Checks the head of the next frame, and counts what is buffered of its message. Returns whether the frame can be
    /// parsed: it has come whole, or its head is wrong. The parser would reserve the whole length that a head announces.
    fn admit(&mut self) -> Result<bool, Ending> {
        let Some(Head { kind, length, begins }) = Head::of(&self.buffer) else { return Ok(false) };
        if length > MOST as u64 {
            return Err(Ending::TooLong);
        }
        if kind == OpCode::Binary {
            return Err(Ending::NotText);
        }
        if matches!(kind, OpCode::Ping | OpCode::Pong | OpCode::Close) && length > MOST_OF_CONTROL {
            return Err(Ending::Broken("a control frame is too long"));
        }
        if kind == OpCode::Bad {
            return Err(Ending::Broken("a frame has an unknown kind"));
        }
        let Some(begins) = begins else { return Ok(true) };
        let length = usize::try_from(length).unwrap_or(MOST);
        let is_whole = self.buffer.len() >= begins + length;
        let arrived = length.min(self.buffer.len().saturating_sub(begins));
        if matches!(kind, OpCode::Text | OpCode::Continue) {
            self.count(arrived, begins)?;
        }
        Ok(is_whole)
    }

    /// Counts what is buffered of a message: what came in earlier frames, and `arrived` bytes of the frame whose payload
    /// begins at `begins`.
    fn count(&mut self, arrived: usize, begins: usize) -> Result<(), Ending> {
        let before = self.begun.as_ref().map_or(0, |begun| begun.bytes.len());
        let missing = (before + arrived).saturating_sub(FREE + self.charged.bytes());
        if missing == 0 {
            return Ok(());
        }
        let blocks = missing.next_multiple_of(BLOCK);
        // Only a look at the message tells whether it may use the reserve.
        if self.charged.add(blocks, false).is_ok() {
            return Ok(());
        }
        let is_vital = match &self.begun {
            Some(begun) if !begun.bytes.is_empty() => keeps(&begun.bytes),
            _ => keeps(&unmasked(&self.buffer, begins)),
        };
        let counted = self.charged.add(blocks, is_vital);
        counted.map_err(|problem| Ending::NoRoom(problem.detail))
    }

    /// A message that has come whole, with what it counts for.
    fn whole(&mut self, bytes: Bytes) -> Bytes {
        match self.charged.bytes() {
            0 => bytes,
            _ => Bytes::from_owner(Whole { bytes, _charged: self.charged.split() }),
        }
    }

    /// Adds a fragment to the message that has begun.
    fn add(&mut self, fragment: &[u8]) -> Result<(), Ending> {
        let Some(begun) = &mut self.begun else {
            return Err(Ending::Broken("a message goes on that has not begun"));
        };
        if begun.bytes.len() + fragment.len() > MOST {
            return Err(Ending::TooLong);
        }
        begun.bytes.extend_from_slice(fragment);
        begun.fragments += 1;
        if begun.fragments > FRAGMENTS + begun.bytes.len() / FRAGMENT_BYTES {
            return Err(Ending::Fragments);
        }
        Ok(())
    }
}

/// Whether a message that begins like this keeps or ends leases.
fn keeps(message: &[u8]) -> bool {
    let op = Front::of(message).op;
    op.is_some_and(|op| named(op).is_ok_and(|operation| operation.keeps()))
}

/// The first bytes of a payload that begins here.
fn unmasked(buffer: &[u8], begins: usize) -> Vec<u8> {
    let (head, payload) = buffer.split_at(begins.min(buffer.len()));
    let Some(mask) = head.last_chunk::<4>() else { return Vec::new() };
    payload.iter().take(FRONT).zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask).collect()
}

/// What the head of a frame says.
struct Head {
    kind: OpCode,
    /// The length of the payload that it announces.
    length: u64,
    /// Where the payload begins in the buffer; `None` for a frame without a mask, which no client may send.
    begins: Option<usize>,
}

impl Head {
    /// The head of the next frame, once it has come.
    fn of(buffer: &[u8]) -> Option<Self> {
        let second = *buffer.get(1)?;
        let (length, end) = match second & 0x7f {
            126 => (u64::from(u16::from_be_bytes(buffer.get(2..4)?.try_into().ok()?)), 4),
            127 => (u64::from_be_bytes(buffer.get(2..10)?.try_into().ok()?), 10),
            short => (u64::from(short), 2),
        };
        let begins = (second & 0x80 != 0 && buffer[0] & 0x70 == 0).then_some(end + 4);
        Some(Self { kind: OpCode::from(buffer[0] & 0x0f), length, begins })
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
        let mut frames = Frames::new(payload, Budget::new(4 << 20), Payer::Local(None));
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
        // Its payload would not count.
        let long_ping = [&[0x89, 0xff][..], &(1_u64 << 20).to_be_bytes(), &[0; 100]].concat();
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
            (long_ping, Ending::Broken("a control frame is too long")),
            (vec![0x82, 0x81], Ending::NotText),
            (vec![0x83, 0x80], Ending::Broken("a frame has an unknown kind")),
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

    /// A message that begins like this, of which so much arrives, in a frame that announces a whole mebibyte.
    fn arriving(
        budget: &Arc<Budget>,
        name: &str,
        begins: &str,
        length: usize,
    ) -> Result<Frames, Ending> {
        let mut sent = vec![0x81, 0xff];
        sent.extend((1_u64 << 20).to_be_bytes());
        let mask = [1, 2, 3, 4];
        sent.extend(mask);
        let text = begins.bytes().chain(std::iter::repeat(b' ')).take(length);
        sent.extend(text.zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
        let payer = Payer::Principal(name.into());
        let mut frames = Frames::new(Payload::None, budget.clone(), payer);
        frames.buffer.extend_from_slice(&sent);
        assert!(frames.next()?.is_none(), "it has not come whole");
        Ok(frames)
    }

    #[test]
    fn a_message_counts_for_what_has_come_of_it_and_not_for_what_it_announces() {
        let budget = Budget::new(2 << 20);
        let parked: Vec<_> = (0..1000).map(|_| arriving(&budget, "a", "{", 100)).collect();
        assert!(parked.iter().all(Result::is_ok));
        assert_eq!(budget.used(), 0);
        let capacity = |frames: &Frames| frames.buffer.capacity();
        assert!(
            parked.iter().flatten().all(|frames| capacity(frames) < 4096),
            "nor is it reserved"
        );
        let longer = arriving(&budget, "a", "{", 20_000).expect("room");
        assert_eq!((budget.used(), longer.unfinished()), (BLOCK, Some(0)));
        drop(longer);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn the_reserve_is_for_messages_that_begin_as_a_heartbeat_or_a_release() {
        let budget = Budget::new(4 << 20);
        let mut parked = Vec::new();
        for (name, length) in [("a", 500_000), ("b", 500_000), ("a", 20_000), ("b", 20_000)] {
            while let Ok(frames) = arriving(&budget, name, r#"{"id":1,"op":"acquire","#, length) {
                parked.push(frames);
            }
        }
        for length in [FREE, 60_000, 200_000] {
            let refused = arriving(&budget, "c", r#"{"id":1,"op":"acquire","#, length);
            assert_eq!(refused.is_ok(), length == FREE);
        }
        for begins in [r#"{"id":1,"op":"heartbeats","#, r#"{"op":"releases","id":1,"#] {
            let beats = arriving(&budget, "c", begins, 60_000);
            assert!(beats.is_ok(), "{begins}");
        }
        // One caller has half of the reserve at most.
        let beats = || arriving(&budget, "c", r#"{"id":1,"op":"heartbeats","#, 100_000);
        let taken: Vec<_> = std::iter::from_fn(|| beats().ok()).collect();
        assert!(taken.len() < 5, "{}", taken.len());
    }

    /// Ten million of them would otherwise cost hundreds of megabytes that nothing counts.
    #[test]
    fn fragments_are_counted_in_blocks_and_have_a_bound() {
        let budget = Budget::new(4 << 20);
        let payer = Payer::Principal("a".into());
        let mut sent = frame(&" ".repeat(FREE), OpCode::Text, false);
        for _ in 0..BLOCK / 1024 + 1 {
            sent.extend(frame(&" ".repeat(1024), OpCode::Continue, false));
        }
        let mut frames = Frames::new(Payload::None, budget.clone(), payer);
        frames.buffer = sent;
        assert!(frames.next().expect("a beginning").is_none());
        assert_eq!((budget.used(), frames.unfinished()), (2 * BLOCK, Some(0)));
        for _ in 0..FRAGMENTS {
            frames.buffer.extend(frame("", OpCode::Continue, false));
        }
        assert!(frames.next().expect("that is not too many").is_none());
        for _ in 0..3 * FRAGMENTS {
            frames.buffer.extend(frame("", OpCode::Continue, false));
        }
        assert_eq!(frames.next().err(), Some(Ending::Fragments));
    }
}
