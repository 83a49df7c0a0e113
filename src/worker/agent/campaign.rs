//! The campaign for the lease of a guard: acquires the lease, reports its renewals, and gives it back.

use std::{sync::Arc, time::Duration};

use tokio::{sync::mpsc, task::JoinHandle, time::timeout};

use super::{
    charge::Charge,
    event::{CampaignEvent, Event},
    message::AgentMessage,
};
use crate::{
    client::{Client, ClientError, Hold, Lease},
    worker::guard::{Input, Rest},
};

/// How long one call waits in the queue. Then it is repeated.
const WAIT: Duration = Duration::from_secs(30);
/// The longest time for a release.
const RELEASE: Duration = Duration::from_secs(10);

pub(super) struct Campaign {
    client: Client,
    charge: Arc<Charge>,
    events: mpsc::Sender<Event>,
    asking: Option<JoinHandle<()>>,
    lease: Option<Arc<Lease>>,
    /// The number of the current campaign. CampaignEvent of earlier ones is ignored.
    tenure: u64,
}

impl Campaign {
    pub(super) fn new(client: Client, charge: Arc<Charge>, events: mpsc::Sender<Event>) -> Self {
        Self { client, charge, events, asking: None, lease: None, tenure: 0 }
    }

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
                    // A call that was refused without a wait is not repeated at once.
                    Err(error) if waited(&error) && client.clock().now() >= asked + WAIT / 2 => {}
                    Err(error) => {
                        let _ = events.send(Event::Refused(error.to_string())).await;
                        return;
                    }
                }
            };
            let mut deadlines = lease.deadlines();
            // From here on, the agent owns the lease. A withdrawal may still drop it in the channel.
            if events.send(Event::Of(tenure, CampaignEvent::Granted(lease))).await.is_err() {
                return;
            }
            loop {
                let deadline = *deadlines.borrow_and_update();
                let news = match deadline.lost {
                    Some(loss) => CampaignEvent::Lost(loss),
                    None => CampaignEvent::Renewed(deadline.until),
                };
                let sent = events.send(Event::Of(tenure, news)).await;
                let over = deadline.lost.is_some() || sent.is_err();
                if over || deadlines.changed().await.is_err() {
                    return;
                }
            }
        }));
    }

    /// Applies news, and returns the input for the state machine.
    pub(super) fn learn(
        &mut self,
        tenure: u64,
        news: &CampaignEvent,
        tell: &mut impl FnMut(AgentMessage),
    ) -> Option<Input> {
        if tenure != self.tenure {
            return None;
        }
        match news {
            CampaignEvent::Granted(lease) => {
                tell(AgentMessage::Granted(lease.token()));
                self.lease = Some(lease.clone());
                Some(Input::Granted { deadline: lease.deadline().until })
            }
            CampaignEvent::Renewed(deadline) => {
                self.lease.as_ref().map(|_| Input::Renewed { deadline: *deadline })
            }
            CampaignEvent::Lost(loss) => {
                let lease = self.lease.take()?;
                drop(lease);
                tell(AgentMessage::Lost(*loss));
                Some(Input::Lost)
            }
        }
    }

    /// Ends the campaign. A lease that was granted at the same moment is dropped, which gives it back.
    pub(super) fn withdraw(&mut self) {
        self.tenure += 1;
        if let Some(asking) = self.asking.take() {
            asking.abort();
        }
        self.answer(Event::Input(Input::NotGranted));
    }

    pub(super) fn release(&mut self, why: Option<Rest>) {
        self.tenure += 1;
        let Some(lease) = self.lease.take() else {
            return self.answer(Event::Input(Input::Released));
        };
        let events = self.events.clone();
        tokio::spawn(async move {
            let why = why.map(|why| why.to_string());
            let event = match timeout(RELEASE, lease.give_back(None, why.as_deref())).await {
                Ok(Ok(_)) => Event::Input(Input::Released),
                Ok(Err(error)) => Event::NotReleased(error.to_string()),
                Err(_) => Event::NotReleased("no answer within 10 s".to_owned()),
            };
            let _ = events.send(event).await;
        });
    }

    /// Stops the heartbeats. The lease is kept, so that it can be given back if a later deactivation succeeds.
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

/// Whether the call failed only because the wait in the queue ran out.
fn waited(error: &ClientError) -> bool {
    error.problem().is_some_and(|problem| matches!(&*problem.code, "held" | "fencing" | "cooling"))
}
