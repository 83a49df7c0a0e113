//! The door of a node: what `src/http` does with a call, without HTTP. A call about a lease that another living
//! node answers for is passed on to it, once.

use std::{collections::BTreeMap, rc::Rc, sync::Arc, time::Duration};

use tenure::{
    lease::{Key, Moment},
    manager::{AcquireAny, AcquireAnyError, Asked, Elsewhere, Home, Manager, Trouble},
};

use super::{
    ask::{Ask, Got, Problem},
    net::{Net, Parcel, Place},
};

/// How long another node may take to answer.
const ANSWER: Duration = Duration::from_secs(2);

pub struct Door {
    pub manager: Arc<Manager>,
    pub net: Rc<Net>,
    pub node: usize,
}

/// Where a node is reached.
pub fn url(node: usize) -> String {
    format!("sim://{node}")
}

impl Door {
    /// Answers a call, for as long as its caller is there.
    pub async fn serve(self: Rc<Self>, parcel: Parcel) {
        let Parcel { ask, forwarded, mut reply } = parcel;
        let got = tokio::select! {
            biased;
            got = self.answer(&ask, forwarded) => got,
            () = reply.closed() => return,
        };
        let _ = reply.send(got);
    }

    async fn answer(&self, ask: &Ask, forwarded: bool) -> Got {
        match ask {
            Ask::Any(any) => {
                let received = self.manager.now();
                self.any(any, forwarded, received).await.unwrap_or_else(|problem| problem.got)
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
        let problem = match ask.act(&self.manager, received.into()).await {
            Ok(got) => return got,
            Err(problem) => problem,
        };
        let Some(home) = problem.home.filter(|_| !forwarded) else { return problem.got };
        if let Some(got) = self.relay(&home, ask).await {
            return got;
        }
        let stranded = ask.act(&self.manager, Asked { received, stranded: true }).await;
        stranded.unwrap_or_else(|problem| problem.got)
    }

    async fn relay(&self, home: &Home, ask: &Ask) -> Option<Got> {
        let node = home.url.as_deref()?.strip_prefix("sim://")?.parse().ok()?;
        let wait = Duration::from_millis(ask.wait_ms());
        let limit = if wait.is_zero() { ANSWER } else { wait + 2 * ANSWER };
        self.net.call(Place::Node(self.node), node, ask, true, limit).await.ok()
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
            Err(AcquireAnyError::Session(error)) if !forwarded && error.home().is_some() => {
                let home = error.home().cloned();
                let relayed = match &home {
                    Some(home) => self.relay(home, &ask).await,
                    None => None,
                };
                return Ok(relayed.unwrap_or_else(unreachable));
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
                _ => return Err(Trouble::Elsewhere(home.clone()).into()),
            }
        }
        for (key, home) in &elsewhere {
            let known = grants.iter().any(|(found, _)| found == key);
            if !known && self.manager.stands(key, id).await? {
                return Err(Trouble::Elsewhere(home.clone()).into());
            }
        }
        if grants.is_empty() {
            return Err(Problem { home: None, got: Got::No("its grants are over".to_owned()) });
        }
        Ok(())
    }
}
