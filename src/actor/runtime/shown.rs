//! Results for readers that take long to make.
//!
//! Guarantees: one is made at a time, whoever asks and for which name, also when callers go away, and on a thread that
//! serves no calls. Callers that asked before it was begun share it. One that takes long to make is kept for [`KEPT`].
//!
//! Does not guarantee: that a result is of this moment. It is older than the call by [`KEPT`] and the time that it took to make,
//! at most.
//!
//! Bounded: at most [`MOST`] results are kept.

use std::{sync::Arc, time::Duration};

use tokio::sync::Mutex;

use super::{aside::aside, registry::Registry};
use crate::{
    clock::{Clock, HashMap},
    lease::Moment,
};

/// For how long a result that takes long to make is shown to further readers.
const KEPT: Duration = Duration::from_secs(1);
/// Names that are no longer in use count. There is one result for each pool, and nodes have a few pools.
const MOST: usize = 1_000;

/// What was made for readers, by name.
pub struct Shown<T> {
    made: Arc<Mutex<HashMap<Box<str>, Made<T>>>>,
    /// Whether a result is one of those that take long to make.
    is_long: fn(&T) -> bool,
}

struct Made<T> {
    begun: Moment,
    /// Until when it is shown to callers that ask later.
    until: Moment,
    value: Arc<T>,
}

impl<T: Send + Sync + 'static> Shown<T> {
    pub fn new(is_long: fn(&T) -> bool) -> Self {
        Self { made: Arc::default(), is_long }
    }

    /// The result under a name. `None` if `make` returns that.
    pub async fn get(
        &self,
        (registry, clock): (&Registry, &Arc<dyn Clock>),
        name: &str,
        make: impl FnOnce() -> Option<T> + Send + 'static,
    ) -> Option<Arc<T>> {
        let asked = clock.now();
        // Whoever makes a result holds the lock, so that one is made at a time.
        let mut all = self.made.clone().lock_owned().await;
        let begun = clock.now();
        if let Some(made) = all.get(name)
            && (made.begun > asked || begun < made.until)
        {
            return Some(made.value.clone());
        }
        let (clock, name, is_long) = (clock.clone(), Box::<str>::from(name), self.is_long);
        let work = move || {
            let value = make().map(Arc::new);
            if all.len() >= MOST {
                all.clear();
            }
            match value.clone() {
                Some(value) => {
                    let until = if is_long(&value) { clock.now() + KEPT } else { begun };
                    drop(all.insert(name, Made { begun, until, value }));
                }
                None => drop(all.remove(&name)),
            }
            value
        };
        aside(registry, work).await
    }
}
