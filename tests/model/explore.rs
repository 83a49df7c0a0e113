//! What all models do: visit every state, or look for a broken one.

use std::{fmt::Debug, hash::Hash};

use stateright::{Checker, Expectation, HasDiscoveries, Model, Property};

/// A small world: its rules, its bounds, and what must hold in it.
pub trait Small: Sized + Send + Sync + 'static {
    type World: Debug + Hash + Clone + PartialEq + Send + Sync + 'static;
    type Action: Debug + Clone + PartialEq + 'static;

    fn start(&self) -> Self::World;
    fn actions(&self, world: &Self::World, out: &mut Vec<Self::Action>);
    fn act(&self, world: &mut Self::World, action: &Self::Action);
    fn within(&self, world: &Self::World) -> bool;
    fn properties(&self) -> Vec<Property<Explored<Self>>>;
}

/// A small world as the model checker takes it.
pub struct Explored<S>(pub S);

impl<S: Small> Model for Explored<S> {
    type State = S::World;
    type Action = S::Action;

    fn init_states(&self) -> Vec<S::World> {
        vec![self.0.start()]
    }

    fn actions(&self, world: &S::World, out: &mut Vec<S::Action>) {
        self.0.actions(world, out);
    }

    fn next_state(&self, world: &S::World, action: S::Action) -> Option<S::World> {
        let mut next = world.clone();
        self.0.act(&mut next, &action);
        Some(next)
    }

    fn within_boundary(&self, world: &S::World) -> bool {
        self.0.within(world)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        self.0.properties()
    }
}

/// Visits every state, and demands the properties of the model.
#[track_caller]
pub fn hold(world: impl Small) {
    let checker = Explored(world).checker().threads(2).spawn_dfs().join();
    println!("{} unique states, depth {}", checker.unique_state_count(), checker.max_depth());
    checker.assert_properties();
}

/// The properties that must always hold and do not, up to the first: shortest ways first.
pub fn failures(world: impl Small) -> Vec<&'static str> {
    let failing = HasDiscoveries::AnyFailures;
    let checker = Explored(world).checker().threads(2).finish_when(failing).spawn_bfs().join();
    let always =
        |name: &&'static str| checker.model().property(name).expectation == Expectation::Always;
    let found: Vec<_> = checker.discoveries().into_keys().filter(always).collect();
    println!("{found:?}, {} states", checker.unique_state_count());
    found
}
