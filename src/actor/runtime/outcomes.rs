//! Delivers the outcomes of writes from the store's thread to the actors.
//!
//! When a thread wakes a task of another thread, the task enters a queue from which a busy thread takes one for every
//! few dozen turns of its own tasks. So no actor waits for its own write. One task for each thread waits for all writes
//! of its actors. It is woken once for all writes that were settled together, and mails each outcome to its actor.
//!
//! Guarantees: each write that was passed to it is reported exactly once, to an actor that lives. If its task ended
//! before, the outcome is reported as unknown.

use std::{
    pin::Pin,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
};

use actix::Recipient;
use futures_util::{StreamExt, stream::FuturesUnordered};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::arbiters;
use crate::{
    actor::mail::{Landed, Mail},
    lease::{Moment, StoreError},
    store::{StoreFuture, WriteOutcome},
};

pub struct Outcomes {
    /// The tasks that receive outcomes, by the number of their thread.
    tasks: Box<[Mutex<Option<Task>>]>,
    /// The number of writes that are not settled.
    waiting: Arc<AtomicUsize>,
}

/// Passes writes to the task of a thread.
type Task = UnboundedSender<Pending>;

/// A write that is not settled.
pub struct Pending {
    write: StoreFuture<WriteOutcome>,
    to: Option<Recipient<Mail>>,
    generation: u32,
    began: Moment,
    waits: Option<Waits>,
}

/// A write that counts as not settled.
struct Waits(Arc<AtomicUsize>);

impl Outcomes {
    /// For this many threads of lease actors.
    pub fn new(threads: usize) -> Self {
        let tasks = (0..threads.max(1)).map(|_| Mutex::default()).collect();
        Self { tasks, waiting: Arc::default() }
    }

    /// How many writes of all actors the store has not settled.
    pub fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Has the outcome reported to the actor. Must be called on the actor's thread.
    pub fn report(&self, mut pending: Pending) {
        let Some(task) = self.tasks.get(arbiters::here()) else { return };
        self.waiting.fetch_add(1, Ordering::Relaxed);
        pending.waits = Some(Waits(self.waiting.clone()));
        let mut task = task.lock().unwrap_or_else(PoisonError::into_inner);
        let unsent = match &*task {
            Some(sender) => sender.send(pending).err().map(|error| error.0),
            None => Some(pending),
        };
        // There is no task yet, or the runtime in which it lived is gone.
        if let Some(pending) = unsent {
            let (sender, receiver) = unbounded_channel();
            actix::spawn(hear(receiver));
            let _ = sender.send(pending);
            *task = Some(sender);
        }
    }
}

async fn hear(mut arriving: UnboundedReceiver<Pending>) {
    let mut writes = FuturesUnordered::new();
    loop {
        tokio::select! {
            biased;
            Some(pending) = arriving.recv() => writes.push(pending),
            Some(()) = writes.next(), if !writes.is_empty() => {}
            else => return,
        }
    }
}

impl Pending {
    pub fn new(
        write: StoreFuture<WriteOutcome>,
        to: Recipient<Mail>,
        generation: u32,
        began: Moment,
    ) -> Self {
        Self { write, to: Some(to), generation, began, waits: None }
    }

    fn tell(&mut self, outcome: WriteOutcome) {
        if let Some(to) = self.to.take() {
            let Self { generation, began, .. } = *self;
            to.do_send(Mail::Landed(Landed { outcome, generation, began }));
        }
    }
}

impl Future for Pending {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let outcome = std::task::ready!(self.write.as_mut().poll(cx));
        self.tell(outcome);
        Poll::Ready(())
    }
}

impl Drop for Waits {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        let why = "the task that receives outcomes ended";
        self.tell(WriteOutcome::Unknown(StoreError::Unavailable(why.into())));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use actix::{Actor, Addr, Handler};
    use tokio::{sync::oneshot, task::LocalSet};

    use super::*;
    use crate::lease::Revision;

    struct Listener(UnboundedSender<(u32, bool)>);

    impl Actor for Listener {
        type Context = actix::Context<Self>;
    }

    impl Handler<Mail> for Listener {
        type Result = ();

        fn handle(&mut self, mail: Mail, _: &mut Self::Context) {
            if let Mail::Landed(Landed { outcome, generation, .. }) = mail {
                let _ = self.0.send((generation, matches!(outcome, WriteOutcome::Committed(_))));
            }
        }
    }

    fn write(generation: u32, to: &Addr<Listener>) -> (oneshot::Sender<WriteOutcome>, Pending) {
        let (settle, settled) = oneshot::channel();
        let write = Box::pin(async { settled.await.expect("an outcome") });
        (settle, Pending::new(write, to.clone().recipient(), generation, Moment::ZERO))
    }

    #[test]
    fn what_settles_together_is_heard_of_by_each() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        LocalSet::new().block_on(&runtime, each_hears());
    }

    async fn each_hears() {
        let (told, mut heard) = unbounded_channel();
        let (listener, outcomes) = (Listener(told).start(), Outcomes::new(1));
        let (settle, pending): (Vec<_>, Vec<_>) = (0..1000).map(|n| write(n, &listener)).unzip();
        pending.into_iter().for_each(|pending| outcomes.report(pending));
        assert_eq!(outcomes.waiting(), 1000);
        let store = std::thread::spawn(|| {
            for settle in settle {
                settle.send(WriteOutcome::Committed(Revision(1))).expect("somebody waits");
            }
        });
        // In any order: each belongs to another actor.
        let mut generations = BTreeSet::new();
        for _ in 0..1000 {
            let (generation, committed) = heard.recv().await.expect("all are heard of");
            assert!(committed && generations.insert(generation));
        }
        store.join().expect("no panic");
        tokio::task::yield_now().await;
        assert_eq!(outcomes.waiting(), 0);
    }

    #[test]
    fn a_write_whose_task_ended_is_of_unknown_outcome_and_the_next_is_heard_of() {
        let (told, mut heard) = unbounded_channel();
        let outcomes = Arc::new(Outcomes::new(1));
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let (first, second) = (LocalSet::new(), LocalSet::new());
        let listener = second.block_on(&runtime, async { Listener(told).start() });
        let (_settle, pending) = write(1, &listener);
        // The task lives in the runtime in which the first write was begun.
        first.block_on(&runtime, async { outcomes.report(pending) });
        drop(first);
        second.block_on(&runtime, async {
            assert_eq!(heard.recv().await, Some((1, false)));
            let (settle, pending) = write(2, &listener);
            outcomes.report(pending);
            settle.send(WriteOutcome::Committed(Revision(2))).expect("somebody waits");
            assert_eq!(heard.recv().await, Some((2, true)));
        });
    }
}
