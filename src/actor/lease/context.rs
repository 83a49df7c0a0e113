//! In what a lease actor runs.
//!
//! A node may have a million lease actors that wait for their timers. With the context of actix, which has room for many
//! futures, an actor's task takes 640 bytes. With this one it takes 384.
//!
//! Guarantees: while the actor waits for a read ([`AsyncContext::wait`]), it gets no mail, and its timer does not fire.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use actix::{
    Actor, ActorContext, ActorFuture, ActorState, Addr, ArbiterHandle, AsyncContext, Handler,
    Message, SpawnHandle, WeakAddr,
    dev::{
        Envelope, Mailbox, ToEnvelope,
        channel::{AddressReceiver, channel},
    },
};
use tokio::{sync::oneshot, time::Sleep};

use super::actor::LeaseActor;

type Work = Pin<Box<dyn ActorFuture<LeaseActor, Output = ()>>>;

/// The capacity of a mailbox. Mail to lease actors is sent without regard to it.
const CAPACITY: usize = 16;

/// The context of a lease actor.
pub struct LeaseContext {
    me: WeakAddr<LeaseActor>,
    stopped: bool,
    /// What must end before the actor gets mail.
    wait: Option<Work>,
    /// What else the actor does.
    work: Vec<Work>,
    /// The actor's timer.
    timer: Option<Pin<Box<Sleep>>>,
}

impl LeaseContext {
    /// Sets the actor's only timer.
    pub(super) fn set_timer(&mut self, after: Duration) {
        let sleep = tokio::time::sleep(after);
        match &mut self.timer {
            Some(timer) => timer.as_mut().set(sleep),
            None => self.timer = Some(Box::pin(sleep)),
        }
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stopped
    }

    /// Whether the actor has something to do without mail.
    fn is_busy(&self) -> bool {
        self.wait.is_some() || !self.work.is_empty() || self.timer.is_some()
    }
}

impl ActorContext for LeaseContext {
    fn stop(&mut self) {
        self.stopped = true;
    }

    fn terminate(&mut self) {
        self.stopped = true;
    }

    fn state(&self) -> ActorState {
        if self.stopped { ActorState::Stopped } else { ActorState::Running }
    }
}

impl AsyncContext<LeaseActor> for LeaseContext {
    fn address(&self) -> Addr<LeaseActor> {
        // The actor's task holds the receiver of its mail. Without a receiver, there is nobody to address.
        self.me.upgrade().unwrap_or_else(|| Addr::new(channel(CAPACITY).0))
    }

    fn spawn<F>(&mut self, future: F) -> SpawnHandle
    where
        F: ActorFuture<LeaseActor, Output = ()> + 'static,
    {
        self.work.push(Box::pin(future));
        SpawnHandle::default()
    }

    fn wait<F>(&mut self, future: F)
    where
        F: ActorFuture<LeaseActor, Output = ()> + 'static,
    {
        let before = self.wait.take();
        match before {
            None => self.wait = Some(Box::pin(future)),
            // Both must end. They are begun in their order.
            Some(before) => {
                use actix::ActorFutureExt as _;
                self.wait = Some(Box::pin(before.then(|(), _, _| future)));
            }
        }
    }

    fn waiting(&self) -> bool {
        self.wait.is_some() || self.stopped
    }

    /// Nothing is cancelled: the actor does not need it.
    fn cancel_future(&mut self, _: SpawnHandle) -> bool {
        false
    }
}

impl<M> ToEnvelope<LeaseActor, M> for LeaseContext
where
    LeaseActor: Handler<M>,
    M: Message + Send + 'static,
    M::Result: Send,
{
    fn pack(mail: M, reply: Option<oneshot::Sender<M::Result>>) -> Envelope<LeaseActor> {
        Envelope::new(mail, reply)
    }
}

/// A lease actor that runs.
struct Running {
    context: LeaseContext,
    started: bool,
    /// Dropped before the mailbox: its death is reported before callers find their mail unanswered.
    actor: LeaseActor,
    mailbox: Mailbox<LeaseActor>,
}

/// Starts an actor on this thread.
pub(super) fn start(actor: LeaseActor) -> Addr<LeaseActor> {
    let (sender, receiver) = channel(CAPACITY);
    let address = Addr::new(sender);
    run(actor, &address, receiver);
    address
}

/// Starts an actor on the thread of an arbiter.
pub(super) fn start_on(arbiter: &ArbiterHandle, actor: LeaseActor) -> Addr<LeaseActor> {
    let (sender, receiver) = channel(CAPACITY);
    let address = Addr::new(sender);
    let there = address.clone();
    // If the arbiter is gone, the actor is dropped, which reports its death.
    arbiter.spawn_fn(move || run(actor, &there, receiver));
    address
}

fn run(actor: LeaseActor, address: &Addr<LeaseActor>, receiver: AddressReceiver<LeaseActor>) {
    let me = address.downgrade();
    let context = LeaseContext { me, stopped: false, wait: None, work: Vec::new(), timer: None };
    let mailbox = Mailbox::new(receiver);
    actix::spawn(Running { context, started: false, actor, mailbox });
}

impl Running {
    /// Polls what the actor waits for. Returns whether it must go on waiting.
    fn waits(&mut self, cx: &mut Context<'_>) -> bool {
        while let Some(mut wait) = self.context.wait.take() {
            if wait.as_mut().poll(&mut self.actor, &mut self.context, cx).is_pending() {
                self.context.wait = Some(wait);
                return true;
            }
        }
        false
    }

    /// Polls the actor's timer and its work. Returns whether any of it came to its end.
    fn advances(&mut self, cx: &mut Context<'_>) -> bool {
        let timer = self.context.timer.as_mut();
        let fires = timer.is_some_and(|timer| timer.as_mut().poll(cx).is_ready());
        if fires {
            self.context.timer = None;
            self.actor.fired(&mut self.context);
        }
        let mut advances = fires;
        let mut at = 0;
        while at < self.context.work.len() && !self.context.waiting() {
            let mut work = self.context.work.swap_remove(at);
            if work.as_mut().poll(&mut self.actor, &mut self.context, cx).is_pending() {
                self.context.work.push(work);
                let last = self.context.work.len() - 1;
                self.context.work.swap(at, last);
                at += 1;
            } else {
                advances = true;
            }
        }
        advances
    }
}

impl Future for Running {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        if !std::mem::replace(&mut this.started, true) {
            this.actor.started(&mut this.context);
        }
        loop {
            if this.waits(cx) {
                return Poll::Pending;
            }
            this.mailbox.poll(&mut this.actor, &mut this.context, cx);
            if this.context.waiting() && !this.context.stopped {
                continue;
            }
            let advances = !this.context.stopped && this.advances(cx);
            if this.context.stopped {
                return Poll::Ready(());
            }
            if this.context.wait.is_none() && !advances {
                let ends = !this.mailbox.connected() && !this.context.is_busy();
                return if ends { Poll::Ready(()) } else { Poll::Pending };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{actor::mail::Reply, lease::Lease};

    /// There is one of each for every held lease. The runtime adds 96 bytes to the task, and rounds up to 128.
    #[test]
    fn a_lease_actor_and_its_lease_are_small() {
        let (task, lease) = (size_of::<Running>(), size_of::<Lease<Reply>>());
        assert!(task <= 288 && lease <= 128, "{task} and {lease} bytes");
    }
}
