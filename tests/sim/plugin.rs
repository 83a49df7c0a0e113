//! A plugin that fences nothing, and says so: at once, late, or not at all.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tenure::{
    actor::{NamedPlugin, PluginLimits},
    clock::Chance,
    plugin::{FenceError, FenceOrder, FencePlugin, Fencing},
};
use tokio::time::sleep;

use super::{
    dice::Dice,
    history::{Event, Log},
    time::{ms, now},
};

/// How it does, in thousandths of its tries; all well when the faults are over.
#[derive(Clone, Copy, Debug, Default)]
pub struct Manners {
    pub fails: u64,
    pub hangs: u64,
    pub panics: u64,
    pub slow_ms: u64,
}

pub struct SimPlugin {
    name: String,
    log: Log,
    state: Mutex<(Chance, Manners)>,
}

impl SimPlugin {
    pub fn new(name: &str, log: Log, chance: Chance, manners: Manners) -> Arc<Self> {
        Arc::new(Self { name: name.to_owned(), log, state: Mutex::new((chance, manners)) })
    }

    /// The faults are over.
    pub fn behave(&self) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).1 = Manners::default();
    }

    pub fn named(me: &Arc<Self>) -> NamedPlugin {
        let timeout = Duration::from_secs(1);
        let limits = PluginLimits { timeout, retries: 3, ..PluginLimits::default() };
        (me.name.clone(), me.clone(), limits)
    }
}

impl FencePlugin for SimPlugin {
    fn fence(&self, order: FenceOrder) -> Fencing {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let (chance, manners) = &mut *state;
        let (pause, fate) = (ms(chance.between(0, manners.slow_ms)), chance.between(0, 999));
        let (log, plugin, manners) = (self.log.clone(), self.name.clone(), *manners);
        drop(state);
        Box::pin(async move {
            sleep(pause).await;
            if fate < manners.fails {
                return Err(FenceError::new("it fails"));
            }
            if fate < manners.fails + manners.hangs {
                std::future::pending::<()>().await;
            }
            let key = order.key.as_str().to_owned();
            log.push(now(), Event::Fenced { plugin, key, token: order.token.0 });
            // What it says may be lost, though it was done.
            if fate > 999 - manners.panics {
                return Err(FenceError::new("it did it, and cannot say so"));
            }
            Ok(())
        })
    }
}
