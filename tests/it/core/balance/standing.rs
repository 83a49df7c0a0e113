//! Members that leave untaken what they are to have.

use std::time::Duration;

use tenure::lease::{
    Moment,
    balance::{Standing, UNTAKEN},
};

fn at(secs: u64) -> Moment {
    Moment::ZERO + Duration::from_secs(secs)
}

/// For how many of the next seconds it is set aside, looked at once a second, while it takes nothing.
fn aside(standing: &mut Standing, from: u64, for_secs: u64) -> usize {
    let looks = (from..from + for_secs).map(|second| {
        standing.look(0, !standing.is_aside(), true, at(second));
        standing.is_aside()
    });
    looks.filter(|aside| *aside).count()
}

#[test]
fn a_member_that_takes_nothing_is_set_aside_for_longer_each_time() {
    let mut standing = Standing::default();
    let untaken = UNTAKEN.as_secs();
    assert_eq!(aside(&mut standing, 0, untaken), 0, "it has its time");
    let mut now = untaken;
    for span in [60, 240, 600, 600] {
        assert_eq!(aside(&mut standing, now, span), span as usize);
        now += span;
        // One look sets it back, and its time begins with the next.
        assert_eq!(aside(&mut standing, now, untaken + 1), 0, "it is tried again");
        now += untaken + 1;
    }
}

#[test]
fn who_takes_one_or_asks_counts_again_at_once() {
    let untaken = UNTAKEN.as_secs();
    let set_aside = || {
        let mut standing = Standing::default();
        aside(&mut standing, 0, untaken + 1);
        assert!(standing.is_aside());
        standing
    };
    let mut takes = set_aside();
    assert!(takes.look(1, false, true, at(untaken + 2)) && !takes.is_aside());
    let mut asks = set_aside();
    assert!(asks.asks() && !asks.is_aside());
    assert!(!asks.asks(), "it was not aside");
    assert_eq!(aside(&mut asks, untaken + 2, untaken), 0, "and has its time anew");
}

#[test]
fn who_is_short_only_while_nothing_is_free_is_never_set_aside() {
    let mut standing = Standing::default();
    for second in 0..1000 {
        standing.look(0, second % 9 != 0, true, at(second));
        assert!(!standing.is_aside());
    }
    for second in 1000..2000 {
        standing.look(0, true, false, at(second));
        assert!(!standing.is_aside(), "each was taken soon, by whomever");
    }
}
