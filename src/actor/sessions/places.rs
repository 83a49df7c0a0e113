//! Places for slow operations. Their number is limited, in total and for each owner, and owners take turns.
//!
//! Guarantees: a waiting owner gets a place after at most one of each other waiting owner.
//!
//! Does not guarantee: a place within any time. Each place is held for as long as its operation takes.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::oneshot;

use crate::{clock::HashMap, lease::Owner};

pub(in crate::actor) struct Places {
    all: usize,
    per_owner: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    taken: usize,
    lines: HashMap<Owner, Line>,
    /// Each waiting owner, the next one first.
    turns: VecDeque<Owner>,
}

#[derive(Default)]
struct Line {
    taken: usize,
    waiting: VecDeque<oneshot::Sender<Place>>,
}

/// A place, returned when it is dropped.
pub(in crate::actor) struct Place {
    /// `None`: the caller that waited for it has left.
    of: Option<(Arc<Places>, Owner)>,
}

impl Places {
    /// Makes `all` places, at most `per_owner` of them for one owner.
    pub fn new(all: usize, per_owner: usize) -> Arc<Self> {
        Arc::new(Self { all, per_owner, state: Mutex::default() })
    }

    pub async fn take(self: &Arc<Self>, owner: &Owner) -> Option<Place> {
        let (sender, receiver) = oneshot::channel();
        {
            let mut state = self.state();
            let line = state.lines.entry(owner.clone()).or_default();
            line.waiting.push_back(sender);
            if line.waiting.len() == 1 {
                state.turns.push_back(owner.clone());
            }
            self.give(&mut state);
        }
        receiver.await.ok()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives free places to the owners whose turn it is.
    fn give(self: &Arc<Self>, state: &mut State) {
        // An owner that has its full number of places keeps its turn, and is passed over.
        let mut passed = 0;
        while state.taken < self.all && passed < state.turns.len() {
            let Some(owner) = state.turns.pop_front() else { return };
            let Some(line) = state.lines.get_mut(&owner) else { continue };
            if line.taken >= self.per_owner {
                state.turns.push_back(owner);
                passed += 1;
                continue;
            }
            let Some(waiting) = line.waiting.pop_front() else { continue };
            let place = Place { of: Some((self.clone(), owner.clone())) };
            match waiting.send(place) {
                Ok(()) => {
                    line.taken += 1;
                    state.taken += 1;
                }
                // The caller left. The place was not counted yet.
                Err(mut place) => place.of = None,
            }
            if !line.waiting.is_empty() {
                state.turns.push_back(owner);
            } else if line.taken == 0 {
                state.lines.remove(&owner);
            }
            passed = 0;
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let Some((places, owner)) = self.of.take() else { return };
        let mut state = places.state();
        state.taken -= 1;
        if let Some(line) = state.lines.get_mut(&owner) {
            line.taken -= 1;
            if line.taken == 0 && line.waiting.is_empty() {
                state.lines.remove(&owner);
            }
        }
        places.give(&mut state);
    }
}

#[cfg(test)]
mod tests {
    use std::{future::Future, pin::pin, task::Poll};

    use super::*;

    fn owner(name: &str) -> Owner {
        Owner::new(name).expect("an owner")
    }

    /// The place that a new call gets at once, or `None` if it waits.
    fn now(places: &Arc<Places>, name: &str) -> Option<Place> {
        let (places, owner) = (places.clone(), owner(name));
        let mut waits = pin!(async move { places.take(&owner).await });
        let waker = std::task::Waker::noop();
        match waits.as_mut().poll(&mut std::task::Context::from_waker(waker)) {
            Poll::Ready(place) => place,
            Poll::Pending => None,
        }
    }

    #[test]
    fn one_owner_does_not_take_them_all() {
        let places = Places::new(4, 2);
        let greedy: Vec<Place> = (0..4).filter_map(|_| now(&places, "a")).collect();
        assert_eq!(greedy.len(), 2);
        let other = now(&places, "b").expect("there are two left");
        drop((greedy, other));
        let state = places.state();
        assert_eq!((state.taken, state.lines.len(), state.turns.len()), (0, 0, 0));
    }

    #[tokio::test]
    async fn owners_take_turns() {
        let places = Places::new(1, 1);
        let first = now(&places, "a").expect("a place");
        let said = Arc::new(Mutex::new(Vec::new()));
        let wait = |name: &'static str| {
            let (places, said) = (places.clone(), said.clone());
            tokio::spawn(async move {
                let place = places.take(&owner(name)).await;
                said.lock().expect("no panic").push(name);
                tokio::task::yield_now().await;
                drop(place);
            })
        };
        let mut tasks: Vec<_> = (0..3).map(|_| wait("a")).collect();
        for name in ["b", "c"] {
            tokio::task::yield_now().await;
            tasks.push(wait(name));
        }
        tokio::task::yield_now().await;
        drop(first);
        for task in tasks {
            task.await.expect("no panic");
        }
        assert_eq!(*said.lock().expect("no panic"), ["a", "b", "c", "a", "a"]);
    }

    #[test]
    fn who_leaves_loses_nothing_for_others() {
        let places = Places::new(1, 1);
        let first = now(&places, "a").expect("a place");
        assert!(now(&places, "a").is_none() && now(&places, "b").is_none(), "they wait, and leave");
        drop(first);
        let next = now(&places, "c").expect("the place is free");
        drop(next);
        let state = places.state();
        assert_eq!((state.taken, state.lines.len(), state.turns.len()), (0, 0, 0));
    }
}
