//! The network: delays, loss, duplicates and partitions in one direction, between workers and nodes and among
//! nodes.
//!
//! A reply that is lost leaves the outcome unknown. A node notices a while later that its caller has gone, or,
//! where the way is cut, does not.

use std::{
    cell::{Cell, RefCell},
    collections::BTreeSet,
    rc::Rc,
    time::Duration,
};

use tenure::clock::Chance;
use tokio::{
    sync::{mpsc, oneshot},
    task::spawn_local,
    time::{sleep, timeout},
};

use super::{
    ask::{Ask, Got},
    dice::Dice,
    history::{Event, Log, Op},
    time::{ms, now},
};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    Worker(usize),
    Node(usize),
}

/// How a call came to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    Direct,
    /// Another node passed it on, where it had waited for so long.
    Passed(Duration),
    /// Another node asks for a place in the queue.
    Place(Duration),
}

/// What arrives at a node.
pub struct Parcel {
    pub ask: Ask,
    pub way: Way,
    pub reply: oneshot::Sender<Got>,
}

/// What goes wrong, in thousandths of the messages.
#[derive(Clone, Copy, Debug, Default)]
pub struct Weather {
    pub lost: u64,
    pub twice: u64,
    /// Of these messages the delay is up to `longest_ms`.
    pub slow: u64,
    pub longest_ms: u64,
}

/// There was no answer.
#[derive(Clone, Copy, Debug)]
pub struct Unheard {
    /// It may have arrived.
    pub sent: bool,
    /// It did, nothing on the way would have lost the answer, the node waits for no other one, and there is none.
    pub unanswered: bool,
}

pub struct Net {
    chance: RefCell<Chance>,
    inboxes: RefCell<Vec<Option<mpsc::UnboundedSender<Parcel>>>>,
    cuts: RefCell<BTreeSet<(Place, Place)>>,
    /// How many answers of others each node waits for.
    relays: RefCell<Vec<usize>>,
    pub weather: Cell<Weather>,
    /// Calls that arrived twice are numbered from 2^63.
    copies: Cell<u64>,
    log: Log,
}

/// What becomes of one exchange.
struct Fate {
    there: Duration,
    back: Duration,
    lost_there: bool,
    lost_back: bool,
    again: Option<Duration>,
}

/// A node waits for another one.
struct Relay<'a>(&'a Net, usize);

impl<'a> Relay<'a> {
    fn of(net: &'a Net, from: Place) -> Option<Self> {
        let Place::Node(node) = from else { return None };
        net.relays.borrow_mut()[node] += 1;
        Some(Self(net, node))
    }
}

impl Drop for Relay<'_> {
    fn drop(&mut self) {
        self.0.relays.borrow_mut()[self.1] -= 1;
    }
}

impl Net {
    pub fn new(nodes: usize, chance: Chance, log: Log) -> Rc<Self> {
        Rc::new(Self {
            chance: RefCell::new(chance),
            inboxes: RefCell::new(vec![None; nodes]),
            cuts: RefCell::default(),
            relays: RefCell::new(vec![0; nodes]),
            weather: Cell::default(),
            copies: Cell::new(1 << 63),
            log,
        })
    }

    /// A node listens, or no longer.
    pub fn listen(&self, node: usize, inbox: Option<mpsc::UnboundedSender<Parcel>>) {
        self.inboxes.borrow_mut()[node] = inbox;
    }

    pub fn cut(&self, from: Place, to: Place) {
        self.cuts.borrow_mut().insert((from, to));
    }

    pub fn mend(&self, from: Place, to: Place) {
        self.cuts.borrow_mut().remove(&(from, to));
    }

    pub fn heal(&self) {
        self.cuts.borrow_mut().clear();
    }

    fn is_cut(&self, from: Place, to: Place) -> bool {
        self.cuts.borrow().contains(&(from, to))
    }

    fn fate(&self) -> Fate {
        let mut chance = self.chance.borrow_mut();
        let weather = self.weather.get();
        let mut delay = || {
            let longest = if chance.per_mille(weather.slow) { weather.longest_ms } else { 3 };
            ms(chance.between(0, longest))
        };
        let (there, back, later) = (delay(), delay(), delay());
        let again = chance.per_mille(weather.twice).then_some(later + ms(1));
        let (lost_there, lost_back) =
            (chance.per_mille(weather.lost), chance.per_mille(weather.lost));
        Fate { there, back, lost_there, lost_back, again }
    }

    fn deliver(&self, to: usize, ask: &Ask, way: Way) -> Option<oneshot::Receiver<Got>> {
        let (reply, heard) = oneshot::channel();
        let inbox = self.inboxes.borrow()[to].clone()?;
        inbox.send(Parcel { ask: ask.clone(), way, reply }).ok().map(|()| heard)
    }

    /// Asks a node, and waits for its answer for so long.
    pub async fn call(
        self: &Rc<Self>,
        from: Place,
        to: usize,
        ask: &Ask,
        way: Way,
        limit: Duration,
    ) -> Result<Got, Unheard> {
        let fate = self.fate();
        let mut heard = None;
        let _relay = Relay::of(self, from);
        let answered = timeout(limit, self.exchange(from, to, ask, way, &fate, &mut heard));
        let answered = answered.await.unwrap_or_else(|_| {
            let open = |heard: &mut oneshot::Receiver<Got>| {
                matches!(heard.try_recv(), Err(oneshot::error::TryRecvError::Empty))
            };
            let cut = self.is_cut(from, Place::Node(to)) || self.is_cut(Place::Node(to), from);
            let waits = self.relays.borrow()[to] > 0;
            let unanswered = !cut && !waits && !fate.lost_back && heard.as_mut().is_some_and(open);
            Err(Unheard { sent: true, unanswered })
        });
        if let (Err(_), Some(heard)) = (&answered, heard) {
            // The node learns of it by the next packet, or not for long.
            let gone = fate.lost_there || self.is_cut(from, Place::Node(to));
            let after = if gone { Duration::from_secs(20) } else { fate.there };
            spawn_local(async move {
                sleep(after).await;
                drop(heard);
            });
        }
        answered
    }

    /// What arrives twice may be granted when the first of the two was refused or, without a request id, granted; and
    /// nobody hears of it.
    pub fn note_copy(&self, ask: &Ask) -> Option<u64> {
        let (owner, op, key) = match ask {
            Ask::Acquire(one) => (&one.owner, Op::Acquire, one.key.as_str()),
            Ask::Any(any) => (&any.owner, Op::AcquireAny, ""),
            Ask::All(all) => (&all.owner, Op::AcquireAny, ""),
            _ => return None,
        };
        let call = self.copies.get();
        self.copies.set(call + 1);
        let (worker, key) = (owner.as_str().to_owned(), key.to_owned());
        self.log.push(now(), Event::Asked { call, worker, op, key, answer_by: None });
        Some(call)
    }

    /// Whether such a copy was answered.
    pub fn note_answer(&self, copy: Option<u64>, answered: bool) {
        let Some(call) = copy else { return };
        let passed_on = || Event::Refused { call, why: "passed on".to_owned() };
        self.log.push(now(), if answered { passed_on() } else { Event::Lost { call } });
    }

    async fn exchange(
        self: &Rc<Self>,
        from: Place,
        to: usize,
        ask: &Ask,
        way: Way,
        fate: &Fate,
        slot: &mut Option<oneshot::Receiver<Got>>,
    ) -> Result<Got, Unheard> {
        sleep(fate.there).await;
        if fate.lost_there || self.is_cut(from, Place::Node(to)) {
            std::future::pending::<()>().await;
        }
        let Some(heard) = self.deliver(to, ask, way) else {
            sleep(fate.back).await;
            return Err(Unheard { sent: false, unanswered: false });
        };
        let heard = slot.insert(heard);
        if let Some(later) = fate.again {
            let (net, ask) = (self.clone(), ask.clone());
            spawn_local(async move {
                sleep(later).await;
                if let Some(heard) = net.deliver(to, &ask, way) {
                    let call = net.note_copy(&ask);
                    let _ = heard.await;
                    net.note_answer(call, false);
                }
            });
        }
        let got = heard.await;
        sleep(fate.back).await;
        if fate.lost_back || self.is_cut(Place::Node(to), from) {
            std::future::pending::<()>().await;
        }
        got.map_err(|_| Unheard { sent: true, unanswered: false })
    }
}
