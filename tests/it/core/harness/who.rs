//! A caller that remembers what it was told.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
};

use tenure::lease::{Answer, Caller, Grant, LeaseId, Moment, Request};

#[derive(Debug, Default)]
struct Ticket {
    gone: Cell<bool>,
    claimed: Cell<bool>,
    /// It waits on several keys.
    registration: Cell<bool>,
    answers: RefCell<Vec<Answer>>,
}

/// One caller. Clones are the same caller: one registration on several keys.
#[derive(Clone, Debug)]
pub struct Who {
    ticket: Rc<Ticket>,
    /// The caller's clock before it sent; the tests give clients and node one clock.
    pub sent: Moment,
    /// What it asked.
    pub asked: Rc<Request>,
}

impl Who {
    pub fn new(sent: Moment, asked: Request) -> Self {
        Self { ticket: Rc::default(), sent, asked: Rc::new(asked) }
    }

    /// One that waits on several keys.
    pub fn registration(sent: Moment, asked: Request) -> Self {
        let who = Self::new(sent, asked);
        who.ticket.registration.set(true);
        who
    }

    /// Nobody listens any more.
    pub fn leaves(&self) {
        self.ticket.gone.set(true);
    }

    pub fn has_left(&self) -> bool {
        self.ticket.gone.get()
    }

    pub fn tell(&self, answer: Answer) {
        self.ticket.answers.borrow_mut().push(answer);
    }

    pub fn answers(&self) -> usize {
        self.ticket.answers.borrow().len()
    }

    pub fn waits(&self) -> bool {
        self.answers() == 0
    }

    /// The one answer.
    #[track_caller]
    pub fn answer(&self) -> Answer {
        let answers = self.ticket.answers.borrow();
        assert_eq!(answers.len(), 1, "one answer, no more and no less: {answers:?}");
        answers[0].clone()
    }

    /// The grant that it got.
    #[track_caller]
    pub fn grant(&self) -> Grant {
        match self.answer() {
            Answer::Granted(grant) => *grant,
            other => panic!("no grant: {other:?}"),
        }
    }

    /// The proof that it got.
    #[track_caller]
    pub fn proof(&self) -> LeaseId {
        self.grant().lease_id
    }

    #[track_caller]
    pub fn token(&self) -> u64 {
        self.grant().view.token.0
    }
}

impl Caller for Who {
    fn is_gone(&self) -> bool {
        self.ticket.gone.get()
    }

    fn claim(&self) -> bool {
        !self.is_gone() && !self.ticket.claimed.replace(true)
    }

    fn unclaim(&self) {
        self.ticket.claimed.set(false);
    }

    fn is_registration(&self) -> bool {
        self.ticket.registration.get()
    }
}
