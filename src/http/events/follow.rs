//! The stream of one subscriber. It ends when the subscriber does not read.
//!
//! Guarantees: a subscriber that fell behind the bus and takes nothing loses its place within two looks. If it reads
//! again before its connection is closed, it gets a reset and then the end of the stream.
//!
//! Assumes: the server asks for a chunk only after it has sent the chunk before.

use std::{
    cell::RefCell,
    convert::Infallible,
    rc::{Rc, Weak},
    time::Duration,
};

use bytes::Bytes;
use futures_util::{Stream, stream};

use super::reader::Reader;

/// The interval between two looks at whether a subscriber still takes what it is sent.
const LOOK: Duration = Duration::from_secs(1);

enum Seat {
    /// The reader is being asked for a chunk.
    Reading,
    /// The server has a chunk to send, and has not asked for the next.
    Waiting(Box<Reader>),
    /// The reader is dropped; this is the last chunk.
    CutOff(Bytes),
    Over,
}

struct Place {
    seat: RefCell<Seat>,
    /// The number of chunks that the server asked for.
    asked: std::cell::Cell<u64>,
}

/// Turns a reader into a stream of chunks.
pub fn follow(reader: Reader) -> impl Stream<Item = Result<Bytes, Infallible>> {
    let seat = RefCell::new(Seat::Waiting(Box::new(reader)));
    let place = Rc::new(Place { seat, asked: 0.into() });
    actix_web::rt::spawn(watch(Rc::downgrade(&place)));
    stream::unfold(place, |place| async {
        place.asked.set(place.asked.get() + 1);
        let seat = place.seat.replace(Seat::Reading);
        let chunk = match seat {
            Seat::Waiting(mut reader) => {
                let chunk = reader.chunk().await?;
                place.seat.replace(Seat::Waiting(reader));
                chunk
            }
            Seat::CutOff(last) => {
                place.seat.replace(Seat::Over);
                last
            }
            Seat::Reading | Seat::Over => return None,
        };
        Some((Ok(chunk), place))
    })
}

/// Drops the reader of a subscriber that fell behind and asked for no chunk between two looks.
async fn watch(place: Weak<Place>) {
    let mut last = None;
    loop {
        actix_web::rt::time::sleep(LOOK).await;
        let Some(place) = place.upgrade() else { return };
        let asked = place.asked.get();
        let still = last.replace(asked) == Some(asked);
        let mut seat = place.seat.borrow_mut();
        if let Seat::Waiting(reader) = &*seat
            && still
            && let Some(reset) = reader.fell_behind()
        {
            *seat = Seat::CutOff(reset);
            return;
        }
    }
}
