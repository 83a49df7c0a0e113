//! The door of a node: what `src/http` does with a call, without HTTP. A call about a lease that another living
//! node answers for is passed on to it, once.

use std::{cell::RefCell, collections::BTreeMap, rc::Rc, sync::Arc, time::Duration};

use tenure::{
    clock::Chance,
    lease::{Grant, Key, Moment, Named, permit_of},
    manager::{
        AcquireAll, AcquireAny, AcquireError, AcquireOne, Asked, CallError, Home, Manager,
        SessionError, Take,
    },
};

use super::{
    ask::{Ask, Got, Problem},
    dice::Dice,
    history::{Event, Log},
    net::{Net, Parcel, Place, Unheard, Way},
    time::{ms, now},
};

/// How long another node may take to answer.
const ANSWER: Duration = Duration::from_secs(2);
/// Before a node that hears of a home's move later than another is asked again.
const PAUSE: Duration = Duration::from_millis(20);
/// How often a call that has no time to wait is tried, while its lease moves from home to home.
const TRIES: u32 = 3;

pub struct Door {
    pub manager: Arc<Manager>,
    pub net: Rc<Net>,
    pub node: usize,
    /// Heartbeats whose thread is stopped, in thousandths, and for how many milliseconds at most.
    pub stops: (u64, u64),
    pub chance: RefCell<Chance>,
    pub log: Log,
}

/// Where a node is reached.
pub fn url(node: usize) -> String {
    format!("sim://{node}")
}

impl Door {
    /// Answers a call, for as long as its caller is there.
    pub async fn serve(self: Rc<Self>, parcel: Parcel) {
        let Parcel { ask, way, mut reply } = parcel;
        let got = tokio::select! {
            biased;
            got = self.answer(&ask, way) => got,
            () = reply.closed() => return,
        };
        let _ = reply.send(got);
    }

    async fn answer(&self, ask: &Ask, way: Way) -> Got {
        let forwarded = way != Way::Direct;
        match ask {
            Ask::Acquire(one) => {
                let permits = matches!(self.manager.named(one.key.as_str()), Named::Permits(_));
                if permits && !matches!(way, Way::Place(_)) {
                    self.permit(one, forwarded, self.manager.now()).await
                } else {
                    self.acquire(ask, one, way).await
                }
            }
            Ask::Any(any) => {
                let received = self.manager.now();
                self.any(any, forwarded, received).await.unwrap_or_else(|problem| problem.got)
            }
            Ask::All(all) => {
                let received = self.manager.now();
                let got = self.all(ask, all, forwarded, received).await;
                got.unwrap_or_else(|problem| problem.got)
            }
            Ask::Holder(_) | Ask::DrainOwner(_) | Ask::Open(..) | Ask::Part(_) => {
                let received = self.manager.now();
                ask.act(&self.manager, received.into()).await.unwrap_or_else(|problem| problem.got)
            }
            _ => self.at_home(ask, forwarded).await,
        }
    }

    /// Acts here; or, where the lease is at home elsewhere, there; or, where that cannot be reached, does
    /// what may be done here without it.
    async fn at_home(&self, ask: &Ask, forwarded: bool) -> Got {
        let received = self.manager.now();
        if let Some(got) = self.stopped(ask, received).await {
            return got;
        }
        let problem = match ask.act(&self.manager, received.into()).await {
            Ok(got) => return got,
            Err(problem) => problem,
        };
        let Some(home) = problem.home.filter(|_| !forwarded) else { return problem.got };
        if let Some(got) = self.relay(&home, ask).await {
            return got;
        }
        let home_unreachable =
            ask.act(&self.manager, Asked { received, home_unreachable: true }).await;
        home_unreachable.unwrap_or_else(|problem| problem.got)
    }

    /// A heartbeat whose thread is stopped after it has read the clock and found the promise cell. `None`: it was not, or
    /// nothing was promised when it went on.
    async fn stopped(&self, ask: &Ask, received: Moment) -> Option<Got> {
        let Ask::Beat(key, beat) = ask else { return None };
        let (share, longest_ms) = self.stops;
        let stop = {
            let mut chance = self.chance.borrow_mut();
            chance.per_mille(share).then(|| ms(chance.between(1, longest_ms)))
        }?;
        let world = self.manager.coordinator();
        let decided = world.decide();
        let entry = world.registry.cells.find(key.as_str());
        tokio::time::sleep(stop).await;
        let absorbed = world.absorb_in(key, &entry?, beat, (received, decided))?;
        Some(Got::Alive(absorbed.into()))
    }

    /// In the one queue of its lease; under a session, the grant is made at the session's home.
    async fn acquire(&self, ask: &Ask, one: &AcquireOne, way: Way) -> Got {
        let wait = Duration::from_millis(one.wait_ms);
        let waited = match way {
            Way::Direct => Duration::ZERO,
            Way::Passed(waited) | Way::Place(waited) => waited.min(wait),
        };
        let received = self.manager.now() - waited;
        let mut asked = Asked::from(received);
        if matches!(way, Way::Place(_)) {
            let taken = self.manager.take_place(one, asked).await;
            if matches!(taken, Err(AcquireError::Call(CallError::PolicyChanged))) {
                return Got::Moved;
            }
            return match taken.map_err(Problem::from) {
                Ok(()) => Got::Turn,
                Err(problem) if problem.home.is_some() => Got::Moved,
                Err(problem) => problem.got,
            };
        }
        let (mut tries, mut outcome_unknown) = (0, false);
        loop {
            let error = match self.manager.acquire(one, asked).await {
                Ok(grant) => return Got::Grants(vec![(one.key.clone(), grant)]),
                Err(AcquireError::Call(CallError::PolicyChanged)) => {
                    return self.permit(one, way != Way::Direct, received).await;
                }
                Err(error) => error,
            };
            let by_lease = matches!(error, AcquireError::Call(CallError::Elsewhere(_)));
            let problem = Problem::from(error);
            let Some(home) = problem.home.filter(|_| !asked.home_unreachable) else {
                // The home may have granted it, and its answer was lost.
                return if outcome_unknown {
                    Got::Later("the home did not answer".into())
                } else {
                    problem.got
                };
            };
            let place = by_lease && one.session.is_some();
            if way != Way::Direct && !place {
                return Got::Moved;
            }
            let now = self.manager.now();
            let (waited, left) = (now.since(received), (received + wait).since(now));
            let onward = if place { Way::Place(waited) } else { Way::Passed(waited) };
            // The home may grant it, and its answer be lost; then it may be granted here.
            let copy = if place { None } else { self.net.note_copy(ask) };
            let answer = self.pass_on(&home, ask, onward, left).await;
            self.net.note_answer(copy, answer.is_ok());
            asked.home_unreachable = match answer {
                Err(Unheard { sent, .. }) => {
                    outcome_unknown |= sent && !place;
                    true
                }
                Ok(Got::Later(_)) if by_lease => {
                    outcome_unknown |= !place;
                    true
                }
                Ok(Got::Turn) => false,
                Ok(Got::Moved) => {
                    tokio::time::sleep(PAUSE).await;
                    false
                }
                Ok(got) => return got,
            };
            tries += 1;
            if self.manager.now() >= received + wait && tries >= TRIES {
                return problem.got;
            }
        }
    }

    async fn relay(&self, home: &Home, ask: &Ask) -> Option<Got> {
        let wait = Duration::from_millis(ask.wait_ms());
        self.pass_on(home, ask, Way::Passed(Duration::ZERO), wait).await.ok()
    }

    async fn pass_on(
        &self,
        home: &Home,
        ask: &Ask,
        way: Way,
        wait: Duration,
    ) -> Result<Got, Unheard> {
        let number = home.url.as_deref().and_then(|url| url.strip_prefix("sim://")?.parse().ok());
        let node = number.ok_or(Unheard { sent: false, unanswered: false })?;
        let limit = if wait.is_zero() { ANSWER } else { wait + 2 * ANSWER };
        let call = self.net.call(Place::Node(self.node), node, ask, way, limit);
        tokio::select! {
            answer = call => answer,
            () = self.manager.gone(home.node) => Err(Unheard { sent: true, unanswered: false }),
        }
    }

    async fn any(
        &self,
        any: &AcquireAny,
        forwarded: bool,
        received: Moment,
    ) -> Result<Got, Problem> {
        let manager = &self.manager;
        let ask = Ask::Any(any.clone());
        let unreachable = || Got::Later("that node cannot be reached".to_owned());
        if let Some((id, _)) = any.mark.filter(|_| any.session.is_none())
            && !forwarded
            && !manager.is_draining()
            && let Some(server) = manager.server_of(id)
        {
            return Ok(self.relay(&server, &ask).await.unwrap_or_else(unreachable));
        }
        let taken = match manager.acquire_any(any, received).await {
            Err(AcquireError::Session(SessionError::Call(CallError::Elsewhere(home))))
                if !forwarded =>
            {
                return Ok(self.relay(&home, &ask).await.unwrap_or_else(unreachable));
            }
            taken => taken?,
        };
        let mut grants = taken.grants;
        if let Some((id, _)) = any.mark
            && !taken.elsewhere.is_empty()
        {
            self.gather(any, id, taken.elsewhere, &mut grants).await?;
        }
        Ok(Got::Grants(grants))
    }

    /// One of the permits of a key.
    async fn permit(&self, one: &AcquireOne, forwarded: bool, received: Moment) -> Got {
        let all = match AcquireAll::permit(one) {
            Ok(all) => all,
            Err(invalid) => return Problem::from(CallError::Invalid(invalid)).got,
        };
        let got = self.all(&Ask::All(all.clone()), &all, forwarded, received).await;
        got.unwrap_or_else(|problem| problem.got)
    }

    async fn all(
        &self,
        ask: &Ask,
        all: &AcquireAll,
        forwarded: bool,
        received: Moment,
    ) -> Result<Got, Problem> {
        if let Some((id, _)) = all.mark
            && !forwarded
            && !self.manager.is_draining()
            && let Some(server) = self.manager.server_of(id)
        {
            let unreachable = || Got::Later("that node cannot be reached".to_owned());
            return Ok(self.relay(&server, ask).await.unwrap_or_else(unreachable));
        }
        let got = ask.act(&self.manager, received.into()).await?;
        if let Got::Grants(grants) = &got {
            let whole = all.keys.iter().filter(|wanted| wanted.take == Take::All);
            whole.for_each(|wanted| self.gives_all(wanted.key.as_str(), grants));
        }
        Ok(got)
    }

    fn gives_all(&self, key: &str, grants: &[(Key, Grant)]) {
        let of_key = |(granted, _): &&(Key, Grant)| {
            granted.as_str() == key
                || permit_of(granted.as_str()).is_some_and(|(name, _)| name == key)
        };
        let leases = u32::try_from(grants.iter().filter(of_key).count()).unwrap_or(u32::MAX);
        let (node, key) = (format!("n{}", self.node), key.to_owned());
        self.log.push(now(), Event::All { node, key, leases });
    }

    /// Adds what other nodes answer for of a repeated call's grants: all of it, or the caller is to come again.
    async fn gather(
        &self,
        any: &AcquireAny,
        id: u128,
        elsewhere: Vec<(Key, Home)>,
        grants: &mut Vec<(Key, tenure::lease::Grant)>,
    ) -> Result<(), Problem> {
        let homes: BTreeMap<_, _> = elsewhere.iter().map(|(_, home)| (home.node, home)).collect();
        for home in homes.into_values() {
            match self.relay(home, &Ask::Part(any.clone())).await {
                Some(Got::Grants(part)) => grants.extend(part),
                _ => return Err(CallError::Elsewhere(home.clone()).into()),
            }
        }
        for (key, home) in &elsewhere {
            let known = grants.iter().any(|(found, _)| found == key);
            if !known && self.manager.stands(key, id).await? {
                return Err(CallError::Elsewhere(home.clone()).into());
            }
        }
        if grants.is_empty() {
            return Err(Problem { home: None, got: Got::No("its grants are over".to_owned()) });
        }
        Ok(())
    }
}
