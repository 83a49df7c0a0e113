//! The order in which a caller that takes any of several keys tries them.

/// The order of the candidates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CandidateOrder {
    /// Random, so that callers that start at the same time do not collide. The keys that this node is most likely to
    /// own come first, so that nodes do not collide either.
    #[default]
    Random,
    /// The order in which the caller listed them.
    Listed,
    /// The keys that the owner held last come first; the rest is random.
    Sticky,
}

/// Arranges the candidates `0..n`. `shuffle` is a permutation of them that the caller supplies. `formerly_mine` says
/// which of them this owner was the last to hold; `near` says which of them the other nodes try last.
#[must_use]
pub fn arrange(
    order: CandidateOrder,
    shuffle: Vec<usize>,
    formerly_mine: impl Fn(usize) -> bool,
    near: impl Fn(usize) -> bool,
) -> Vec<usize> {
    let by_chance = |candidates: Vec<usize>| {
        let (mut first, rest): (Vec<_>, Vec<_>) = candidates.into_iter().partition(|&c| near(c));
        first.extend(rest);
        first
    };
    match order {
        CandidateOrder::Random => by_chance(shuffle),
        CandidateOrder::Listed => {
            let mut listed = shuffle;
            listed.sort_unstable();
            listed
        }
        CandidateOrder::Sticky => {
            let (mut mine, others): (Vec<_>, Vec<_>) =
                shuffle.into_iter().partition(|&candidate| formerly_mine(candidate));
            mine.extend(by_chance(others));
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
        let order = |order, mine: fn(usize) -> bool, near: fn(usize) -> bool| {
            arrange(order, shuffle.clone(), mine, near)
        };
        assert_eq!(order(CandidateOrder::Sticky, |k| k == 0, |_| true), [0, 3, 1, 2]);
        assert_eq!(order(CandidateOrder::Sticky, |k| k == 0, |k| k == 2), [0, 2, 3, 1]);
        assert_eq!(order(CandidateOrder::Listed, |_| false, |k| k == 3), [0, 1, 2, 3]);
        assert_eq!(order(CandidateOrder::Random, |_| true, |_| true), [3, 1, 0, 2]);
        assert_eq!(order(CandidateOrder::Random, |_| true, |k| k < 2), [1, 0, 3, 2]);
    }
}
