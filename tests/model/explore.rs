//! What all models do: visit every state, or look for a broken one.

use std::{fmt::Debug, hash::Hash};

use stateright::{Checker, Expectation, HasDiscoveries, Model};

/// Visits every state, and demands the properties of the model.
#[track_caller]
pub fn hold<M>(model: M)
where
    M: Model + Send + Sync + 'static,
    M::State: Debug + Hash + Clone + PartialEq + Send + Sync + 'static,
    M::Action: Debug + Clone + PartialEq + 'static,
{
    let checker = model.checker().threads(2).spawn_dfs().join();
    println!("{} unique states, depth {}", checker.unique_state_count(), checker.max_depth());
    checker.assert_properties();
}

/// The properties that must always hold and do not, up to the first: shortest ways first.
pub fn failures<M>(model: M) -> Vec<&'static str>
where
    M: Model + Send + Sync + 'static,
    M::State: Debug + Hash + Clone + PartialEq + Send + Sync + 'static,
    M::Action: Debug + Clone + PartialEq + 'static,
{
    let failing = HasDiscoveries::AnyFailures;
    let checker = model.checker().threads(2).finish_when(failing).spawn_bfs().join();
    let always =
        |name: &&'static str| checker.model().property(name).expectation == Expectation::Always;
    let found: Vec<_> = checker.discoveries().into_keys().filter(always).collect();
    println!("{found:?}, {} states", checker.unique_state_count());
    found
}
