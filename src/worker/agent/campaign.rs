//! The lease of a guard: asks for it, listens to its heartbeat, gives it back.

use std::{sync::Arc, time::Duration};

use tokio::{sync::mpsc, task::JoinHandle, time::timeout};

use super::{Charge, Event, Told};
use crate::{
    client::{Client, ClientError, Hold, Lease, Loss},
    lease::Moment,
    worker::guard::Input,
};

/// How long one call waits in the queue; then it is repeated.
const WAIT: Duration = Duration::from_secs(30);
/// How long a release is tried, at most.
const RELEASE: Duration = Duration::from_secs(10);

/// What is heard of a lease.
#[derive(Debug)]
pub(super) enum News {
    Granted(Arc<Lease>),
    Renewed(Moment),
    Lost(Loss),
}

pub(super) struct Campaign {
    client: Client,
    charge: Arc<Charge>,
    events: mpsc::Sender<Event>,
    asking: Option<JoinHandle<()>>,
    lease: Option<Arc<Lease>>,
    /// Counts campaigns: what is heard of an earlier one no longer matters.
    tenure: u64,
}

impl Campaign {
    pub(super) fn new(client: Client, charge: Arc<Charge>, events: mpsc::Sender<Event>) -> Self {
        Self { client, charge, events, asking: None, lease: None, tenure: 0 }
    }

    /// What is held.
    pub(super) fn lease(&self) -> Option<&Lease> {
        self.lease.as_deref()
    }

    pub(super) fn acquire(&mut self) {
        self.tenure += 1;
        let (tenure, client, events) = (self.tenure, self.client.clone(), self.events.clone());
        let hold = Hold::key(&*self.charge.key).owner(&*self.charge.owner);
        let hold = hold.ttl(self.charge.settings.ttl).wait(WAIT);
        self.asking = Some(tokio::spawn(async move {
            let lease = loop {
                let asked = client.clock().now();
                match client.hold(hold.clone()).await {
                    Ok(lease) => break Arc::new(lease),
                    // One that did not wait is not repeated at once.
                    Err(error) if waited(&error) && client.clock().now() >= asked + WAIT / 2 => {}
                    Err(error) => {
                        let _ = events.send(Event::Refused(error.to_string())).await;
                        return;
                    }
                }
            };
            let mut deadlines = lease.deadlines();
            // The agent has it from now on; a withdrawal may still drop it on its way.
            if events.send(Event::Of(tenure, News::Granted(lease))).await.is_err() {
                return;
            }
            loop {
                let deadline = *deadlines.borrow_and_update();
                let news = match deadline.lost {
                    Some(loss) => News::Lost(loss),
                    None => News::Renewed(deadline.until),
                };
                let sent = events.send(Event::Of(tenure, news)).await;
                let over = deadline.lost.is_some() || sent.is_err();
                if over || deadlines.changed().await.is_err() {
                    return;
                }
            }
        }));
    }

    /// What the machine is to know of this.
    pub(super) fn learn(
        &mut self,
        tenure: u64,
        news: &News,
        tell: &mut impl FnMut(Told),
    ) -> Option<Input> {
        if tenure != self.tenure {
            return None;
        }
        match news {
            News::Granted(lease) => {
                tell(Told::Granted(lease.token()));
                self.lease = Some(lease.clone());
                Some(Input::Granted { deadline: lease.deadline().until })
            }
            News::Renewed(deadline) => {
                self.lease.as_ref().map(|_| Input::Renewed { deadline: *deadline })
            }
            News::Lost(loss) => {
                let lease = self.lease.take()?;
                drop(lease);
                tell(Told::Lost(*loss));
                Some(Input::Lost)
            }
        }
    }

    /// Ends the campaign. What was granted at the same moment is given back by being dropped.
    pub(super) fn withdraw(&mut self) {
        self.tenure += 1;
        if let Some(asking) = self.asking.take() {
            asking.abort();
        }
        self.answer(Event::Input(Input::NotGranted));
    }

    pub(super) fn release(&mut self) {
        self.tenure += 1;
        let Some(lease) = self.lease.take() else {
            return self.answer(Event::Input(Input::Released));
        };
        let events = self.events.clone();
        tokio::spawn(async move {
            let event = match timeout(RELEASE, lease.release()).await {
                Ok(Ok(_)) => Event::Input(Input::Released),
                Ok(Err(error)) => Event::NotReleased(error.to_string()),
                Err(_) => Event::NotReleased("nobody answers".to_owned()),
            };
            let _ = events.send(event).await;
        });
    }

    /// No more heartbeats. The lease is kept, to be given back should the service become inactive after
    /// all.
    pub(super) fn abandon(&mut self) {
        self.tenure += 1;
        if let Some(lease) = &self.lease {
            lease.abandon();
        }
    }

    fn answer(&self, event: Event) {
        let events = self.events.clone();
        tokio::spawn(async move {
            let _ = events.send(event).await;
        });
    }
}

/// Whether the wait in the queue ran out, and nothing else.
fn waited(error: &ClientError) -> bool {
    error.problem().is_some_and(|problem| matches!(&*problem.code, "held" | "fencing" | "cooling"))
}
