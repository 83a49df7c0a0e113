//! The places that connections have at one worker, and which of them go when places run short.
//!
//! Guarantees: connections that say nothing, say it slowly, or do not read what they asked for keep nobody out: the one
//! that was waited for the longest goes first. Calls that wait and streams take at most three quarters of the places.
//! Where all places are taken by calls that are being served, probes, heartbeats and releases have [`RESERVED`] more.
//!
//! Does not guarantee: a share for each caller.
//!
//! Assumes: the server accepts [`RESERVED`] connections more than there are places, and then none until one is closed.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    task::Waker,
};

use actix_web::HttpRequest;

use super::problem::Problem;

/// Connections of a worker beyond its places: for calls that others depend on.
pub const RESERVED: usize = 8;
/// When places run short, this part of them is made free at once: to look for the longest idle takes a look at all.
const PART: usize = 64;

/// The places of one worker.
pub struct Places {
    most: usize,
    most_waiting: usize,
    seats: RefCell<Vec<Rc<Seat>>>,
    /// Connections that were told to go.
    leaving: Cell<usize>,
    /// Calls that wait, and streams.
    waiting: Cell<usize>,
    turns: Cell<u64>,
}

/// The place of one connection.
pub struct Seat {
    places: Rc<Places>,
    at: Cell<usize>,
    /// Since when the client is waited for; the order counts, not the time.
    since: Cell<u64>,
    /// What the server works at for it.
    busy: Cell<u32>,
    /// A body is being read.
    reads: Cell<bool>,
    /// How many bytes of it are still to come, as its head says.
    expected: Cell<u64>,
    /// It was taken when there was none.
    is_reserved: Cell<bool>,
    is_leaving: Cell<bool>,
    /// It is not waited for any longer.
    is_cut: Cell<bool>,
    /// It has sent more than is read now.
    is_held: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

/// A call is being served.
pub struct Serving(Rc<Seat>);

/// The rest of a body is waited for.
pub struct Reading(Rc<Seat>);

/// A call waits, or a stream is open.
pub struct Waiting(Option<Rc<Seat>>);

impl Places {
    /// For so many connections.
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

    /// A place for a new connection. It is given up by [`Seat::give_up`].
    pub fn take(self: &Rc<Self>) -> Rc<Seat> {
        let seat = Rc::new(Seat {
            places: self.clone(),
            at: Cell::new(self.seats.borrow().len()),
            since: Cell::new(self.turn()),
            busy: Cell::new(0),
            reads: Cell::new(false),
            expected: Cell::new(0),
            is_reserved: Cell::new(false),
            is_leaving: Cell::new(false),
            is_cut: Cell::new(false),
            is_held: Cell::new(false),
            waker: RefCell::new(None),
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

    /// Whether with so many more there would be more connections than places.
    fn are_taken(&self, more: usize) -> bool {
        self.seats.borrow().len() + more - self.leaving.get() > self.most
    }

    /// Tells those to go that were waited for the longest. Whether there are any.
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
    /// Whether the client is waited for, and not the server.
    fn may_go(&self) -> bool {
        (self.busy.get() == 0 || self.reads.get()) && !self.is_leaving.get()
    }

    fn leave(&self) {
        if !self.is_leaving.replace(true) {
            self.places.leaving.set(self.places.leaving.get() + 1);
        }
    }

    fn stay(&self) {
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

    /// The connection is closed.
    pub fn give_up(&self) {
        self.stay();
        let mut seats = self.places.seats.borrow_mut();
        seats.swap_remove(self.at.get());
        if let Some(moved) = seats.get(self.at.get()) {
            moved.at.set(self.at.get());
        }
    }

    /// Whether it is not waited for any longer.
    pub fn is_cut(&self) -> bool {
        self.is_cut.get()
    }

    /// Whether it is to be closed: at once, or after its answer.
    pub fn is_leaving(&self) -> bool {
        self.is_leaving.get()
    }

    /// Whether what it sends is to be read now.
    pub fn may_read(&self) -> bool {
        self.busy.get() == 0 || self.reads.get()
    }

    /// It has sent more than is to be read now.
    pub fn hold(&self) {
        self.is_held.set(true);
    }

    /// Who is to be told when more may be read, or nothing is any longer.
    pub fn remember(&self, waker: &Waker) {
        let mut known = self.waker.borrow_mut();
        if known.as_ref().is_none_or(|known| !known.will_wake(waker)) {
            *known = Some(waker.clone());
        }
    }

    /// Whether only such calls are served here as others depend on.
    pub fn is_reserved(&self) -> bool {
        // There may be room by now.
        let is = self.is_reserved.get() && self.places.are_taken(0);
        self.is_reserved.set(is);
        is
    }

    /// A call has come.
    pub fn serve(self: &Rc<Self>) -> Serving {
        // It was told to go when this was on its way.
        self.stay();
        self.busy.set(self.busy.get() + 1);
        Serving(self.clone())
    }

    /// How many bytes more belong to the body that is being read.
    pub fn expected(&self) -> u64 {
        self.expected.get()
    }

    /// The rest of its body is waited for, which is so long, where that is known.
    pub fn read(self: &Rc<Self>, expected: u64) -> Reading {
        self.expected.set(expected);
        self.since.set(self.places.turn());
        self.reads.set(true);
        if self.is_held.replace(false) {
            self.wake();
        }
        Reading(self.clone())
    }

    fn rest(&self) {
        self.busy.set(self.busy.get() - 1);
        if self.busy.get() == 0 {
            self.since.set(self.places.turn());
            if self.is_held.replace(false) {
                self.wake();
            }
        }
    }
}

impl Serving {
    /// Whether the connection is to be closed after the answer, since there are more than places.
    pub fn is_last(&self) -> bool {
        let is = self.0.busy.get() == 1 && self.0.places.are_taken(0);
        if is {
            self.0.leave();
        }
        is
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.0.rest();
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        self.0.reads.set(false);
        self.0.expected.set(0);
        self.0.stay();
    }
}

impl Waiting {
    /// A place for a call that is going to wait, or for a stream.
    ///
    /// # Errors
    /// As many as may wait or stream already.
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
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if let Some(seat) = &self.0 {
            seat.places.waiting.set(seat.places.waiting.get() - 1);
            seat.rest();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(seats: &[Rc<Seat>]) -> Vec<bool> {
        seats.iter().map(|seat| seat.is_cut()).collect()
    }

    #[test]
    fn who_was_waited_for_the_longest_goes_first() {
        let places = Places::new(3);
        let mut seats: Vec<_> = (0..3).map(|_| places.take()).collect();
        assert_eq!(told(&seats), [false; 3]);
        drop(seats[0].serve());
        seats.push(places.take());
        assert_eq!(told(&seats), [false, true, false, false]);
        seats.remove(1).give_up();
        seats.push(places.take());
        assert_eq!(told(&seats), [false, true, false, false]);
    }

    #[test]
    fn who_spoke_in_time_stays_and_another_goes() {
        let places = Places::new(1);
        let first = places.take();
        let second = places.take();
        assert!(first.is_cut());
        let serving = first.serve();
        assert!(!first.is_cut());
        let third = places.take();
        assert!(second.is_cut() && !third.is_reserved.get());
        // There are still too many: the first is closed after its answer.
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
