//! The places in queues of callers that went away without a grant.
//!
//! Guarantees: a call that is repeated under its request id within 10 s after its end has the place that it had. A gateway
//! or a balancer may end a call before its wait is over, and others that come later do not pass its caller then.
//!
//! Does not guarantee: that a key waits for a caller that is away. The next caller in the queue is granted the key.
//! A place survives no restart of the coordinator, and no move of the key to another one.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use crate::{clock::Clock, lease::Moment};

/// How long a place is kept.
const KEPT: Duration = Duration::from_secs(10);
/// The most places that are kept. Beyond them, a repeated call goes to the end of the queue.
const MOST: usize = 65_536;

type Mark = (u128, u64);

/// The places, by the digests of the request id and of the rest of the request.
#[derive(Default)]
pub struct KeptPlaces(Mutex<HashMap<Mark, Kept>>);

#[derive(Clone, Copy)]
struct Kept {
    /// From when the caller waits.
    since: Moment,
    /// Until when the place is kept; never over while the call is served.
    until: Moment,
}

/// The place of a call that is being served. It is kept when this is dropped. It is small: each call that waits has one.
pub struct Stay<'a>(Option<Box<Held<'a>>>);

struct Held<'a> {
    places: &'a KeptPlaces,
    clock: &'a dyn Clock,
    mark: Mark,
    since: Moment,
}

impl KeptPlaces {
    /// The place of a call that arrived at `received`. `mark` is `None` if it does not wait, or has no request id.
    pub fn begin<'a>(
        &'a self,
        mark: Option<Mark>,
        received: Moment,
        clock: &'a dyn Clock,
    ) -> Stay<'a> {
        let Some(mark) = mark else { return Stay(None) };
        let now = clock.now();
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() >= MOST {
            kept.retain(|_, kept| kept.until > now);
        }
        let before = kept.get(&mark).filter(|kept| kept.until > now);
        let since = before.map_or(received, |kept| kept.since.min(received));
        if kept.len() < MOST {
            kept.insert(mark, Kept { since, until: Moment::NEVER });
        }
        Stay(Some(Box::new(Held { places: self, clock, mark, since })))
    }
}

impl Stay<'_> {
    /// From when the caller waits; [`Moment::NEVER`] if that is not known to be before its request arrived.
    pub fn since(&self) -> Moment {
        self.0.as_ref().map_or(Moment::NEVER, |held| held.since)
    }

    /// The caller has its grant: a later call is another one.
    pub fn end(mut self) {
        if let Some(Held { places, mark, .. }) = self.0.take().as_deref() {
            places.0.lock().unwrap_or_else(PoisonError::into_inner).remove(mark);
        }
    }
}

impl Drop for Stay<'_> {
    fn drop(&mut self) {
        let Some(Held { places, clock, mark, .. }) = self.0.as_deref() else { return };
        let mut kept = places.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kept) = kept.get_mut(mark) {
            kept.until = clock.now() + KEPT;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::ManualClock;

    const ONE: Option<Mark> = Some((1, 1));

    #[test]
    fn a_place_is_kept_for_ten_seconds_after_the_end_of_a_call() {
        let (places, clock) = (KeptPlaces::default(), ManualClock::new());
        let since = |mark| places.begin(mark, clock.now(), &clock).since();
        let first = since(ONE);
        clock.advance(Duration::from_secs(9));
        assert_eq!(since(ONE), first, "it is repeated in time");
        clock.advance(Duration::from_secs(9));
        assert_eq!(since(ONE), first, "and again");
        assert!(since(Some((1, 2))) > first && since(Some((2, 1))) > first, "other requests");
        assert_eq!(since(None), Moment::NEVER);
        clock.advance(Duration::from_secs(11));
        assert!(since(ONE) > first, "it is too late");
        let served = places.begin(ONE, clock.now(), &clock);
        clock.advance(Duration::from_secs(60));
        assert!(since(ONE) <= served.since(), "while the first call is served");
        served.end();
        assert_eq!(since(ONE), clock.now(), "it was granted");
    }

    #[test]
    fn places_have_a_bound() {
        let (places, clock) = (KeptPlaces::default(), ManualClock::new());
        let begin = |n: usize| drop(places.begin(Some((n as u128, 0)), clock.now(), &clock));
        (0..=MOST).for_each(begin);
        let count = || places.0.lock().expect("no panic").len();
        assert_eq!(count(), MOST);
        clock.advance(Duration::from_secs(11));
        begin(0);
        assert_eq!(count(), 1, "old ones make room");
    }
}
