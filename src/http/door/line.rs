//! The connection of one client, below HTTP.
//!
//! Guarantees: all that a client sends ahead of its turn, except for [`STEP`] bytes (by TLS, and a record of at most
//! 16 KiB), stays in the operating system's buffers. A client that reads nothing of an answer for [`PATIENCE`] is
//! disconnected. A client whose place is needed is disconnected as soon as it is idle.
//!
//! Does not guarantee: that a hang-up is noticed while bytes that the client sent ahead of its turn are unread.
//!
//! Assumes: a single task reads and writes.

use std::{
    future::Future as _,
    io,
    pin::Pin,
    rc::Rc,
    task::{Context, Poll, ready},
    time::Duration,
};

use actix_web::{
    dev::Extensions,
    rt::time::{Sleep, sleep},
};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, ReadBuf, Take};

use super::{
    addresses::Counted,
    places::{Places, Seat},
    stream::Stream,
};
use crate::http::caller::Belongs;

/// How many bytes are read before the seat is checked again. The server parses a request as soon as its head has
/// arrived. A parsed request takes about 7 KiB, and a head may be as short as 18 bytes.
const STEP: u64 = 2048;
/// The same, while all bytes belong to a body that is being read.
const BODY_STEP: u64 = 16 * 1024;
/// How long a client may read nothing of what it is sent.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long a client may take to read the rest of its last answer, when its place is needed.
const LAST: Duration = Duration::from_secs(2);

/// The place of an accepted connection, until it is closed.
pub struct Place {
    seat: Rc<Seat>,
    _counted: Counted,
}

/// A connection, and its place.
pub struct Line {
    /// The stream is read up to the limit, which is set again when the reader pauses.
    stream: Take<Stream>,
    place: Place,
    /// The time by which a client that reads nothing must read something.
    stuck: Option<Pin<Box<Sleep>>>,
    /// The time by which a client must have read all of its last answer.
    last: Option<Pin<Box<Sleep>>>,
}

impl Place {
    /// Takes a place for a new connection.
    pub fn take(places: &Rc<Places>, counted: Counted) -> Self {
        Self { seat: places.take(), _counted: counted }
    }

    pub fn seat(&self) -> &Rc<Seat> {
        &self.seat
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.seat.give_up();
    }
}

impl Line {
    /// The line of a connection that can be read from.
    pub fn new(stream: Stream, place: Place) -> Self {
        Self { stream: stream.take(STEP), place, stuck: None, last: None }
    }

    /// Notes what handlers ask of the connection: its place, and who is at the other end.
    pub fn describe(&self, data: &mut Extensions) {
        data.insert::<Rc<Seat>>(self.place.seat.clone());
        data.insert(Belongs::default());
        self.stream.get_ref().identify(data);
    }

    fn seat(&self) -> &Rc<Seat> {
        &self.place.seat
    }

    /// Sets the limit for the next step of the reader.
    fn set_limit(&mut self) {
        let step = self.seat().expected().clamp(STEP, BODY_STEP);
        self.stream.set_limit(step);
    }

    /// Notices when the client hangs up, without reading what it sends.
    fn look(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !ready!(self.stream.get_mut().poll_ahead(context))? {
            return Poll::Ready(Ok(()));
        }
        self.seat().note_unread();
        Poll::Pending
    }

    fn written<T>(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            if self.stuck.take().is_some() {
                // From now on the connection is read again.
                context.waker().wake_by_ref();
            }
            return written;
        }
        if self.seat().is_cut() {
            return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
        }
        // The place already counts as free, so even a client that reads slowly has only this long.
        if self.seat().is_leaving() {
            let last = self.last.get_or_insert_with(|| Box::pin(sleep(LAST)));
            if last.as_mut().poll(context).is_ready() {
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
        } else {
            self.last = None;
        }
        let stuck = self.stuck.get_or_insert_with(|| Box::pin(sleep(PATIENCE)));
        ready!(stuck.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for Line {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.seat().set_waker(context.waker());
        if !self.seat().may_read() || self.stuck.is_some() {
            return self.look(context);
        }
        if self.stream.limit() == 0 {
            self.set_limit();
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        if read.is_pending() {
            self.set_limit();
            if self.seat().is_cut() {
                // The place is needed, and the client is idle.
                return Poll::Ready(Ok(()));
            }
        }
        read
    }
}

impl AsyncWrite for Line {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(self.stream.get_mut()).poll_write(context, bytes);
        self.written(context, written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let stream = self.stream.get_mut();
        let flushed = Pin::new(&mut *stream).poll_flush(context);
        // A client that reads nothing may show here alone.
        if stream.buffers_writes() { self.written(context, flushed) } else { flushed }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(self.stream.get_mut()).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use actix_web::rt::net::{TcpListener, TcpStream};
    use tokio::{io::AsyncWriteExt as _, time::timeout};

    use super::*;
    use crate::http::door::Addresses;

    /// A connection whose client keeps the other end open and reads nothing.
    async fn line(places: &Rc<Places>) -> (Line, TcpStream) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
        let client = TcpStream::connect(listener.local_addr().expect("an address"));
        let (client, accepted) = tokio::join!(client, listener.accept());
        let counted = Addresses::new(0).count(None).expect("no bound");
        let stream = Stream::Plain(accepted.expect("a client").0);
        (Line::new(stream, Place::take(places, counted)), client.expect("a server"))
    }

    /// Checks that a client that reads nothing is given up after `span`, and not before.
    async fn is_given_up_after(span: Duration, mut line: Line) {
        let mut write = Box::pin(async move {
            loop {
                if let Err(error) = line.write_all(&[b'x'; 1 << 16]).await {
                    break error.kind();
                }
            }
        });
        let second = Duration::from_secs(1);
        assert!(timeout(span - second, &mut write).await.is_err(), "it was given up too early");
        let ended = timeout(2 * second, &mut write).await.expect("it is given up");
        assert_eq!(ended, io::ErrorKind::TimedOut);
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_reads_nothing_is_gone_after_its_time() {
        let (line, _client) = line(&Places::new(1)).await;
        is_given_up_after(PATIENCE, line).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_whose_place_is_needed_has_two_seconds_for_its_last_answer() {
        let places = Places::new(1);
        let (line, _client) = line(&places).await;
        let serving = line.seat().serve();
        let another = places.take();
        assert!(serving.is_last());
        is_given_up_after(LAST, line).await;
        another.give_up();
    }
}
