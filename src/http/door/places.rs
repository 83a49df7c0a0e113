//! The places that connections have at one worker, and the choice of the connections to close when places run short.
//!
//! Guarantees: a client that is idle, sends slowly or does not read its answer never keeps a new connection out. When
//! places run short, the server closes the connection whose client it has waited for the longest. Waiting calls and
//! streams take at most three quarters of the places. While calls in progress take all places, probes, heartbeats and
//! releases have [`RESERVED`] more.
//!
//! Does not guarantee: a share for each caller.
//!
//! Assumes: the server accepts [`RESERVED`] more connections than there are places, then none until one is closed.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    task::Waker,
    time::Duration,
};

use actix_web::{HttpRequest, dev::Payload};

use crate::http::answer::Problem;

/// A worker's connections beyond its places, for calls that others depend on.
pub const RESERVED: usize = 8;
/// When places run short, one in this many of them is freed at once: the search for the connections that were idle the
/// longest visits all connections, so it must not be needed for each new one.
const PART: usize = 64;

pub struct Places {
    most: usize,
    most_waiting: usize,
    seats: RefCell<Vec<Rc<Seat>>>,
    /// The number of connections that are about to be closed.
    leaving: Cell<usize>,
    /// The number of waiting calls and streams.
    waiting: Cell<usize>,
    turns: Cell<u64>,
}

pub struct Seat {
    places: Rc<Places>,
    at: Cell<usize>,
    /// The turn since which the server waits for the client. Only the order matters.
    since: Cell<u64>,
    /// The number of calls that the server works on for this connection.
    busy: Cell<u32>,
    /// Whether a body is being read.
    reads: Cell<bool>,
    /// Whether a stream reads what the client sends, and sends at the same time.
    converses: Cell<bool>,
    /// How many bytes of that body are still to come, according to the request's head.
    expected: Cell<u64>,
    /// Whether the connection was accepted when no place was free.
    is_reserved: Cell<bool>,
    is_leaving: Cell<bool>,
    /// Whether the server has stopped waiting for the client.
    is_cut: Cell<bool>,
    /// Whether the client has sent more than may be read now.
    has_unread: Cell<bool>,
    waker: RefCell<Option<Waker>>,
    /// The rest of a body that was refused. It is kept, and not read: the connection ends after the answer.
    refused: RefCell<Option<Payload>>,
}

/// Exists while a call is being served.
pub struct Serving(Rc<Seat>);

/// Exists while the server waits for the rest of a body.
pub struct Reading(Rc<Seat>);

/// Exists while a call waits or a stream is open.
pub struct Waiting(Option<Rc<Seat>>);

impl Places {
    /// Places for `most` connections, of which three quarters may wait or stream.
    pub fn new(most: usize) -> Rc<Self> {
        Rc::new(Self {
            most,
            most_waiting: most - most / 4,
            seats: RefCell::default(),
            leaving: Cell::new(0),
            waiting: Cell::new(0),
            turns: Cell::new(0),
        })
    }

    /// Takes a place for a new connection. [`Seat::give_up`] returns it.
    pub fn take(self: &Rc<Self>) -> Rc<Seat> {
        let seat = Rc::new(Seat {
            places: self.clone(),
            at: Cell::new(self.seats.borrow().len()),
            since: Cell::new(self.turn()),
            busy: Cell::new(0),
            reads: Cell::new(false),
            converses: Cell::new(false),
            expected: Cell::new(0),
            is_reserved: Cell::new(false),
            is_leaving: Cell::new(false),
            is_cut: Cell::new(false),
            has_unread: Cell::new(false),
            waker: RefCell::new(None),
            refused: RefCell::new(None),
        });
        if self.are_taken(1) {
            seat.is_reserved.set(!self.make_room());
        }
        self.seats.borrow_mut().push(seat.clone());
        seat
    }

    fn turn(&self) -> u64 {
        self.turns.replace(self.turns.get() + 1)
    }

    /// Whether `more` further connections would exceed the places.
    fn are_taken(&self, more: usize) -> bool {
        self.seats.borrow().len() + more - self.leaving.get() > self.most
    }

    /// Cuts off the connections that the server has waited for the longest. Returns whether there were any.
    fn make_room(&self) -> bool {
        let mut idle: Vec<Rc<Seat>> =
            self.seats.borrow().iter().filter(|seat| seat.may_go()).cloned().collect();
        let count = (self.most / PART).max(1);
        if idle.len() > count {
            idle.select_nth_unstable_by_key(count - 1, |seat| seat.since.get());
            idle.truncate(count);
        }
        for seat in &idle {
            seat.is_cut.set(true);
            seat.leave();
            seat.wake();
        }
        !idle.is_empty()
    }
}

impl Seat {
    /// Whether the server waits for the client, rather than the client for the server.
    fn may_go(&self) -> bool {
        (self.busy.get() == 0 || self.reads.get()) && !self.is_leaving.get()
    }

    fn leave(&self) {
        if !self.is_leaving.replace(true) {
            self.places.leaving.set(self.places.leaving.get() + 1);
        }
    }

    fn cancel_close(&self) {
        self.is_cut.set(false);
        if self.is_leaving.replace(false) {
            self.places.leaving.set(self.places.leaving.get() - 1);
        }
    }

    fn wake(&self) {
        if let Some(waker) = &*self.waker.borrow() {
            waker.wake_by_ref();
        }
    }

    /// Returns the place of a closed connection.
    pub fn give_up(&self) {
        self.cancel_close();
        let mut seats = self.places.seats.borrow_mut();
        seats.swap_remove(self.at.get());
        if let Some(moved) = seats.get(self.at.get()) {
            moved.at.set(self.at.get());
        }
    }

    /// Whether the server has stopped waiting for the client.
    pub fn is_cut(&self) -> bool {
        self.is_cut.get()
    }

    /// Whether the connection must be closed, at once or after its answer.
    pub fn is_leaving(&self) -> bool {
        self.is_leaving.get()
    }

    /// Stops reading from the connection. What the client still sends is left unread: the rest of this body, and what
    /// follows it.
    pub fn refuse(&self, rest: Payload) {
        *self.refused.borrow_mut() = Some(rest);
    }

    /// Whether what the client sends may be read now.
    pub fn may_read(&self) -> bool {
        let reads = self.busy.get() == 0 || self.reads.get() || self.converses.get();
        self.refused.borrow().is_none() && reads
    }

    /// Notes that the client has sent more than may be read now.
    pub fn note_unread(&self) {
        self.has_unread.set(true);
    }

    /// Sets the task to wake when more may be read, or when the connection is cut off.
    pub fn set_waker(&self, waker: &Waker) {
        let mut known = self.waker.borrow_mut();
        if known.as_ref().is_none_or(|known| !known.will_wake(waker)) {
            *known = Some(waker.clone());
        }
    }

    /// Whether this connection serves only calls that others depend on.
    pub fn is_reserved(&self) -> bool {
        // A place may be free by now.
        let is = self.is_reserved.get() && self.places.are_taken(0);
        self.is_reserved.set(is);
        is
    }

    /// Notes that a call has arrived.
    pub fn serve(self: &Rc<Self>) -> Serving {
        // The connection may have been cut off while this call was on its way.
        self.cancel_close();
        self.busy.set(self.busy.get() + 1);
        Serving(self.clone())
    }

    /// How many bytes of the body that is being read are still to come. Those of a stream have no end.
    pub fn expected(&self) -> u64 {
        if self.converses.get() { u64::MAX } else { self.expected.get() }
    }

    /// Notes that the server waits for the rest of a body: `expected` bytes, or 0 if the length is unknown.
    pub fn read(self: &Rc<Self>, expected: u64) -> Reading {
        self.expected.set(expected);
        self.since.set(self.places.turn());
        self.reads.set(true);
        if self.has_unread.replace(false) {
            self.wake();
        }
        Reading(self.clone())
    }

    fn finish_call(&self) {
        self.busy.set(self.busy.get() - 1);
        if self.busy.get() == 0 {
            self.since.set(self.places.turn());
            if self.has_unread.replace(false) {
                self.wake();
            }
        }
    }
}

impl Serving {
    /// Whether the connection must be closed after the answer: there are more connections than places, or a body was
    /// refused and nothing more is read.
    pub fn is_last(&self) -> bool {
        let is = self.0.busy.get() == 1 && self.0.places.are_taken(0);
        if is {
            self.0.leave();
        }
        is || self.0.refused.borrow().is_some()
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.0.finish_call();
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        self.0.reads.set(false);
        self.0.expected.set(0);
        self.0.cancel_close();
    }
}

impl Waiting {
    /// A place for a call that is going to wait, or for a stream.
    ///
    /// # Errors
    /// When as many calls wait or stream as may.
    pub fn of(request: &HttpRequest) -> Result<Self, Problem> {
        let Some(seat) = request.conn_data::<Rc<Seat>>() else { return Ok(Self(None)) };
        let places = &seat.places;
        if places.waiting.get() >= places.most_waiting {
            return Err(Problem::no_place_to_wait(places.most_waiting));
        }
        places.waiting.set(places.waiting.get() + 1);
        seat.busy.set(seat.busy.get() + 1);
        Ok(Self(Some(seat.clone())))
    }

    /// A place for a call that may wait for so long, if that is any time.
    ///
    /// # Errors
    /// When as many calls wait or stream as may.
    pub fn for_up_to(wait: Duration, request: &HttpRequest) -> Result<Option<Self>, Problem> {
        if wait.is_zero() { Ok(None) } else { Self::of(request).map(Some) }
    }

    /// From now on, as long as this exists, what the client sends is read. The connection keeps its place.
    pub fn converse(&self) {
        if let Some(seat) = &self.0 {
            seat.converses.set(true);
            if seat.has_unread.replace(false) {
                seat.wake();
            }
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if let Some(seat) = &self.0 {
            seat.converses.set(false);
            seat.places.waiting.set(seat.places.waiting.get() - 1);
            seat.finish_call();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut_off(seats: &[Rc<Seat>]) -> Vec<bool> {
        seats.iter().map(|seat| seat.is_cut()).collect()
    }

    #[test]
    fn the_connection_that_was_idle_the_longest_is_cut_off_first() {
        let places = Places::new(3);
        let mut seats: Vec<_> = (0..3).map(|_| places.take()).collect();
        assert_eq!(cut_off(&seats), [false; 3]);
        drop(seats[0].serve());
        seats.push(places.take());
        assert_eq!(cut_off(&seats), [false, true, false, false]);
        seats.remove(1).give_up();
        seats.push(places.take());
        assert_eq!(cut_off(&seats), [false, true, false, false]);
    }

    #[test]
    fn a_connection_that_sends_a_call_in_time_stays_and_another_is_cut_off() {
        let places = Places::new(1);
        let first = places.take();
        let second = places.take();
        assert!(first.is_cut());
        let serving = first.serve();
        assert!(!first.is_cut());
        let third = places.take();
        assert!(second.is_cut() && !third.is_reserved.get());
        // There are still too many connections: the first is closed after its answer.
        second.give_up();
        assert!(serving.is_last());
        first.give_up();
        drop(serving);
        assert!(!third.serve().is_last());
    }

    #[test]
    fn a_body_that_is_waited_for_keeps_no_place_and_a_served_call_does() {
        let places = Places::new(1);
        let seat = places.take();
        let serving = seat.serve();
        let beyond = places.take();
        assert!(!seat.is_cut() && beyond.is_reserved());
        let reading = seat.read(0);
        places.take();
        assert!(beyond.is_cut() && !seat.is_cut(), "the one that was accepted before it read");
        places.take();
        assert!(seat.is_cut());
        drop((reading, serving));
    }

    #[test]
    fn a_stream_is_read_and_keeps_its_place() {
        let places = Places::new(2);
        let seat = places.take();
        let serving = seat.serve();
        assert!(!seat.may_read());
        places.waiting.set(1);
        seat.busy.set(2);
        let waiting = Waiting(Some(seat.clone()));
        waiting.converse();
        drop(serving);
        assert!(seat.may_read() && !seat.may_go());
        assert_eq!(seat.expected(), u64::MAX);
        drop(waiting);
        assert_eq!((seat.busy.get(), seat.expected(), places.waiting.get()), (0, 0, 0));
        assert!(seat.may_go());
    }

    #[test]
    fn a_reserved_connection_is_as_good_as_any_when_there_is_room() {
        let places = Places::new(1);
        let seat = places.take();
        let serving = seat.serve();
        let reserved = places.take();
        assert!(reserved.is_reserved());
        seat.give_up();
        assert!(!reserved.is_reserved());
        drop(serving);
    }
}
