//! A stream as the body of the answer to its upgrade: the server asks it for what to send next.
//!
//! The server reads, polls this and writes in one turn. So a stream needs no task and no queue, and frames that arrive
//! together are answered together.
//!
//! Guarantees: a stream whose client takes nothing of what it was sent ends within two looks. What it held is free then.
//! If the client reads again before its connection is closed, it gets the reason.

use std::{
    cell::{Cell, RefCell},
    convert::Infallible,
    pin::Pin,
    rc::{Rc, Weak},
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use futures_util::Stream;

use super::{ending::Ending, message::Outgoing, talk::Talk};

/// The interval between two looks at whether a client still takes what it is sent.
const LOOK: Duration = Duration::from_secs(5);

struct Place {
    talk: RefCell<Option<Box<Talk>>>,
    /// The last bytes of a stream that ended because its client did not read.
    last: RefCell<Option<Bytes>>,
    /// How often the server asked for bytes.
    asked: Cell<u64>,
    /// Whether the server has bytes and has not asked for the next.
    has_sent: Cell<bool>,
}

/// The bytes that a stream sends.
pub struct Body(Rc<Place>);

impl Body {
    /// What this stream sends.
    pub fn new(talk: Talk) -> Self {
        let place = Rc::new(Place {
            talk: RefCell::new(Some(Box::new(talk))),
            last: RefCell::default(),
            asked: Cell::new(0),
            has_sent: Cell::new(false),
        });
        actix_web::rt::spawn(watch(Rc::downgrade(&place)));
        Self(place)
    }
}

impl Stream for Body {
    type Item = Result<Bytes, Infallible>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let place = &self.0;
        place.asked.set(place.asked.get() + 1);
        place.has_sent.set(false);
        if let Some(last) = place.last.take() {
            return Poll::Ready(Some(Ok(last)));
        }
        let mut talk = place.talk.borrow_mut();
        let Some(open) = talk.as_mut() else { return Poll::Ready(None) };
        match open.poll(context) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Ok(bytes)) => {
                place.has_sent.set(true);
                Poll::Ready(Some(Ok(bytes)))
            }
            Poll::Ready(Err((bytes, ending))) => {
                open.ended(&ending);
                *talk = None;
                Poll::Ready((!bytes.is_empty()).then_some(Ok(bytes)))
            }
        }
    }
}

/// A client that closes its connection does not say so to the stream.
impl Drop for Place {
    fn drop(&mut self) {
        if let Some(talk) = self.talk.get_mut() {
            talk.ended(&Ending::Gone);
        }
    }
}

/// Ends the stream of a client that took nothing between two looks.
async fn watch(place: Weak<Place>) {
    let mut last = None;
    loop {
        actix_web::rt::time::sleep(LOOK).await;
        let Some(place) = place.upgrade() else { return };
        let asked = place.asked.get();
        let still = last.replace(asked) == Some(asked);
        if !(still && place.has_sent.get()) {
            continue;
        }
        if let Some(talk) = place.talk.take() {
            talk.ended(&Ending::Stuck);
            let mut outgoing = Outgoing::default();
            outgoing.close(&Ending::Stuck);
            *place.last.borrow_mut() = outgoing.take();
        }
        return;
    }
}
