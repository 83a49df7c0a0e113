//! The simulated stores, shown to behave like the real ones: they pass the suite of those, under simulated
//! time, and what they do under faults is what a real one might do.

mod faults;
#[path = "../../sim/store/mod.rs"]
mod store;

use std::sync::{Arc, Mutex};

use tenure::{
    clock::{Chance, SystemClock},
    lease::{Key, Revision},
    store::{LeaseStore, Witness},
};

use self::store::{Direction, Kind, Server, Shape};
use crate::{
    history::Log,
    stores::{
        demands::demands,
        lab::{self, commit, grant, key},
        subject::{Damage, Subject},
        suite,
    },
};

/// A simulated store, each handle with a process of its own.
struct Simulated<const KIND: usize> {
    server: Server,
    /// How many were opened.
    opened: Mutex<usize>,
}

impl<const KIND: usize> Subject for Simulated<KIND> {
    async fn start() -> Self {
        let kind = Kind::ALL[KIND];
        let chance = Chance::new(lab::seed("simulated"));
        let mut shape = Shape::of(kind);
        // The suite of real stores wants all of some thousand writes remembered.
        shape.history = 10_000;
        let server = Server::new(kind, chance, Log::default(), shape);
        Self { server, opened: Mutex::new(0) }
    }

    async fn open_with(&self, witness: Option<Witness>) -> Arc<dyn LeaseStore> {
        let node = {
            let mut opened = self.opened.lock().expect("no panic");
            *opened += 1;
            *opened
        };
        if !self.several() {
            // Its process is killed: nothing that was answered is lost by it.
            self.server.crashed(node - 1);
        }
        let clock = Arc::new(SystemClock::new());
        let opened = self.server.open_with(node, clock, witness).await;
        opened.unwrap_or_else(|why| panic!("{why}"))
    }

    fn several(&self) -> bool {
        Kind::ALL[KIND].is_shared()
    }

    async fn delete_by_hand(&self, key: &Key) -> bool {
        // What was written a moment ago is promised nothing about: a node that lives comes to log it.
        tokio::time::sleep(std::time::Duration::from_secs(2)).await;
        self.several() && self.server.delete_by_hand(key)
    }

    async fn spoil(&self, key: &Key, damage: Damage) -> bool {
        self.server.spoil(key, damage == Damage::Newer)
    }

    async fn forget_history(&self, store: &Arc<dyn LeaseStore>) -> bool {
        self.server.remember_little();
        let key = key("forget/often");
        let mut expected = Revision::ABSENT;
        for seq in 1..=200 {
            expected = commit(store, grant(&key, expected, seq)).await;
            // So that each has an entry of its own.
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
        true
    }

    async fn out_of_reach(&self, away: bool) -> bool {
        if away {
            (0..=*self.opened.lock().expect("no panic"))
                .for_each(|node| self.server.cut(node, Direction::Both));
        } else {
            (0..=*self.opened.lock().expect("no panic")).for_each(|node| self.server.heal(node));
        }
        self.several()
    }
}

macro_rules! conformance {
    ($($name:ident = $subject:ty),* $(,)?) => {
        $(mod $name {
            use super::*;
            demands! { paused! $subject; }
        })*
    };
}

macro_rules! paused {
    ($subject:ty; $($theme:ident :: $demand:ident;)*) => {
        $(
            #[tokio::test(start_paused = true)]
            async fn $demand() {
                let subject = <$subject as Subject>::start().await;
                suite::$theme::$demand(&subject).await;
            }
        )*
    };
}

conformance!(embedded = Simulated<0>, nats = Simulated<1>, dynamodb = Simulated<2>);
