//! In which order a caller that takes any of several keys tries them.

/// The order of the candidates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// Each order equally likely, so that callers that start together do not collide.
    #[default]
    Random,
    /// As the caller listed them.
    Listed,
    /// Those that the owner held last first, the rest at random.
    Sticky,
}

/// Arranges the candidates `0..n`. `shuffle` is an injected permutation of them; `formerly_mine` says
/// which of them the owner was the last to hold.
#[must_use]
pub fn arrange(
    order: Order,
    shuffle: Vec<usize>,
    formerly_mine: impl Fn(usize) -> bool,
) -> Vec<usize> {
    match order {
        Order::Random => shuffle,
        Order::Listed => {
            let mut listed = shuffle;
            listed.sort_unstable();
            listed
        }
        Order::Sticky => {
            let (mut mine, others): (Vec<_>, Vec<_>) =
                shuffle.into_iter().partition(|&candidate| formerly_mine(candidate));
            mine.extend(others);
            mine
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sticky_puts_former_keys_first_and_keeps_the_rest_shuffled() {
        let shuffle = vec![3, 1, 0, 2];
        assert_eq!(arrange(Order::Sticky, shuffle.clone(), |k| k == 0), [0, 3, 1, 2]);
        assert_eq!(arrange(Order::Listed, shuffle.clone(), |_| false), [0, 1, 2, 3]);
        assert_eq!(arrange(Order::Random, shuffle, |_| true), [3, 1, 0, 2]);
    }
}
