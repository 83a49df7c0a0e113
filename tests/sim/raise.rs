//! A node that starts while an operator raises the epoch: one of the two must notice the other.

use std::{rc::Rc, sync::Arc, time::Duration};

use tenure::{
    clock::{Chance, Clock},
    lease::{Epoch, Mutant, Nonce},
    store::{LeaseStore, Raise},
};
use tokio::{
    task::{LocalSet, spawn_local},
    time::sleep,
};

use super::{
    history::Log,
    host::Host,
    plan::plan,
    run::site,
    store::{Kind, Shape},
    time::{self, SimClock, ms},
};

/// When the node starts; the operator starts at any time before and after.
const START: Duration = Duration::from_secs(3);
/// One way to the store: long beside all that a node computes.
const HOP: Duration = Duration::from_millis(200);
/// The operator's process of the store.
const OPERATOR: usize = 9;

/// What came of a raise that begins after this span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Came {
    /// The operator saw the node, or that it registered.
    Refused,
    /// Nothing was promised under the old epoch after the raise.
    Raised,
    /// The node promised under the old epoch after the raise.
    Overlooked,
}

fn came(kind: Kind, broken: Option<Mutant>, after: Duration) -> Came {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime of this thread");
    LocalSet::new().block_on(&runtime, async move {
        time::begin();
        let mut plan = plan(1);
        (plan.kind, plan.nodes, plan.shape) = (kind, 1, Shape::of(kind));
        plan.shape.hop = (HOP, HOP);
        let log = Log::default();
        let site = site(1, broken, &plan, &mut Chance::of(1, "raise"), &log);
        let clock: Arc<dyn Clock> = Arc::new(SimClock::new(1, 0, 0));
        let store = site.server.open(OPERATOR, clock).await.expect("it is open");
        let host = Rc::new(Host::new(0, SimClock::new(1, 0, 0), site));
        let begun = time::now();
        let starting = host.clone();
        spawn_local(async move {
            sleep(START).await;
            starting.start();
        });
        sleep(after).await;
        let raised = raise(&*store).await;
        let mut overlooked = false;
        // A node that hears of the raise by itself does so within a second.
        while raised && time::now() - begun < 8 * time::SECOND {
            overlooked |= host.promises_under() == Some(Epoch(0));
            sleep(ms(10)).await;
        }
        host.crash();
        match (raised, overlooked) {
            (false, _) => Came::Refused,
            (true, false) => Came::Raised,
            (true, true) => Came::Overlooked,
        }
    })
}

/// Raises the epoch where no node has a record.
async fn raise(store: &dyn LeaseStore) -> bool {
    let shared = store.shared().expect("several nodes use it");
    let seen = shared.own_revision().await.expect("it answers");
    let nodes = shared.scan_nodes().await.expect("it answers");
    let raise = Raise { identity: Nonce(5), epoch: Epoch(1), seen, restoring: false, secret: None };
    nodes.is_empty() && shared.raise_epoch(raise).await.is_ok()
}

fn all(kind: Kind, broken: Option<Mutant>) -> Vec<Came> {
    (0..100).map(|step| came(kind, broken, step * ms(50))).collect()
}

#[test]
fn who_starts_beside_a_raise_promises_nothing_under_the_old_epoch() {
    for kind in [Kind::Nats, Kind::DynamoDb] {
        let came = all(kind, None);
        assert!(!came.contains(&Came::Overlooked), "{kind:?}: {came:?}");
        assert!(came.contains(&Came::Refused) && came.contains(&Came::Raised), "{came:?}");
        let broken = all(kind, Some(Mutant::PromiseUnregistered));
        assert!(broken.contains(&Came::Overlooked), "{kind:?}: {broken:?}");
    }
}
