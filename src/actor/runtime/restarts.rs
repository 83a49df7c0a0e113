//! Counts the deaths of actors: one that dies too often lately is not replaced at once.

use std::{collections::VecDeque, hash::Hash, time::Duration};

use crate::{clock::HashMap, lease::Moment};

/// Beyond this many names, those whose last death was long ago are removed.
const REMEMBERED: usize = 1000;

/// The recent deaths of actors, by the actors' names.
pub struct Restarts<N> {
    intensity: usize,
    window: Duration,
    deaths: HashMap<N, VecDeque<Moment>>,
}

impl<N: Eq + Hash + Clone> Restarts<N> {
    /// Permits `intensity` deaths of one name within `window`.
    pub fn new(intensity: usize, window: Duration) -> Self {
        Self { intensity, window, deaths: HashMap::default() }
    }

    /// For how long an actor that died too often rests.
    pub fn rest(&self) -> Duration {
        self.window
    }

    /// Counts a death. Returns whether the actor died too often lately to be replaced at once.
    pub fn exceeds(&mut self, name: &N, now: Moment) -> bool {
        let horizon = now - self.window;
        if self.deaths.len() > REMEMBERED {
            self.deaths.retain(|_, times| times.back().is_some_and(|last| *last > horizon));
        }
        let times = self.deaths.entry(name.clone()).or_default();
        while times.front().is_some_and(|first| *first < horizon) {
            times.pop_front();
        }
        times.push_back(now);
        times.len() > self.intensity
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: u64) -> Moment {
        Moment::ZERO + Duration::from_secs(second)
    }

    #[test]
    fn only_deaths_of_one_name_within_the_window_count() {
        let mut restarts = Restarts::new(2, Duration::from_secs(10));
        let mut exceeds = |name: &'static str, second| restarts.exceeds(&name, at(second));
        assert!(!exceeds("a", 100) && !exceeds("a", 105) && !exceeds("b", 105));
        assert!(exceeds("a", 110), "three within ten seconds");
        assert!(!exceeds("a", 121), "the earlier ones are long ago");
        assert!(!exceeds("b", 121));
    }

    #[test]
    fn names_that_died_long_ago_are_removed() {
        let mut restarts = Restarts::new(1, Duration::from_secs(10));
        for name in 0..=REMEMBERED {
            assert!(!restarts.exceeds(&name, at(100)));
        }
        assert!(!restarts.exceeds(&0, at(200)));
        assert_eq!(restarts.deaths.len(), 1);
    }
}
