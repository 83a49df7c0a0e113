//! What an account counts, in whichever order it is told.

use super::*;

const READING: u32 = 3;
const NOW: Moment = Moment(50);

fn holding(marks: &[Mark]) -> Account {
    let mut account = Account::default();
    marks.iter().for_each(|mark| account.granted(*mark, Token(10), READING));
    account
}

#[test]
fn a_key_counts_once_and_another_one_is_refused_at_the_limit() {
    let mut account = holding(&[1]);
    assert!(account.begin(1, 1, NOW), "the principal has it");
    assert!(!account.begin(2, 1, NOW) && account.begin(2, 2, NOW) && account.begin(2, 2, NOW));
    assert_eq!((account.begin(3, 2, NOW), account.used()), (false, 2));
    account.finish(2, None, READING);
    assert_eq!(account.used(), 2, "another call may be granted it");
    account.finish(2, None, READING);
    assert_eq!((account.begin(3, 2, NOW), account.used()), (true, 2));
    account.finish(1, Some(Token(11)), READING);
    assert_eq!(account.held(1), Some(Token(11)));
    account.ended(1, Token(10));
    assert_eq!(account.held(1), Some(Token(11)), "it was reclaimed");
    account.ended(1, Token(11));
    assert_eq!(account.used(), 1);
}

#[test]
fn a_grant_counts_until_its_end_whatever_is_told_first() {
    let told: [fn(&mut Account); 3] = [
        |account| account.granted(1, Token(5), READING),
        |account| account.ended(1, Token(5)),
        |account| account.finish(1, Some(Token(5)), READING),
    ];
    for order in [[0, 1, 2], [0, 2, 1], [2, 0, 1]] {
        let mut account = Account::default();
        assert!(account.begin(1, 1, NOW));
        order.iter().for_each(|at: &usize| told[*at](&mut account));
        assert_eq!(account.used(), 0, "{order:?}");
    }
}

/// The feed is late, and tells of the end of an earlier tenure.
#[test]
fn a_grant_of_this_node_counts_until_the_feed_tells_of_it_and_of_its_end() {
    let mut account = holding(&[1]);
    account.enter(1);
    account.finish(1, Some(Token(12)), READING);
    account.told_of_end(1, Token(10));
    assert_eq!(account.held(1), Some(Token(12)), "the feed has not told of it");
    account.granted(1, Token(12), READING);
    account.enter(1);
    account.told_of_end(1, Token(10));
    assert_eq!(account.held(1), None, "the feed told of it before");
    account.finish(1, Some(Token(12)), READING);
    assert_eq!(account.used(), 0, "the call is told of its grant late");
}

/// A write from before the store went backwards ended the tenure after its record was read. It names an earlier one.
#[test]
fn a_record_that_was_read_before_the_feed_told_of_an_end_does_not_count() {
    for is_found_first in [true, false] {
        let mut account = Account::default();
        account.reading();
        let found = |account: &mut Account| account.found(1, Token(12), READING, true);
        if is_found_first {
            found(&mut account);
        }
        account.told_of_end(1, Token(3));
        account.ended(1, Token(2));
        found(&mut account);
        assert_eq!(account.used(), 0);
        account.granted(1, Token(14), READING);
        found(&mut account);
        account.read(READING);
        assert_eq!(account.held(1), Some(Token(14)));
    }
}

#[test]
fn a_revived_tenure_counts_again() {
    let mut account = holding(&[1]);
    assert!(account.begin(1, 1, NOW));
    account.ended(1, Token(10));
    account.granted(1, Token(10), READING);
    account.finish(1, None, READING);
    assert_eq!(account.held(1), Some(Token(10)));
}

#[test]
fn places_are_what_is_left_and_turn_into_keys() {
    let mut account = holding(&[1, 2]);
    assert_eq!(account.take(10, 5, NOW), 3);
    assert_eq!((account.take(1, 5, NOW), account.begin(9, 5, NOW)), (0, false));
    account.choose(3);
    account.choose(4);
    assert_eq!(account.used(), 5);
    account.finish(3, Some(Token(11)), READING);
    account.choose_anew(4);
    assert_eq!(account.used(), 5);
    account.give_back(2);
    assert_eq!(account.used(), 3);
}

#[test]
fn a_reading_finds_what_was_missed_and_drops_what_is_over() {
    let mut account = holding(&[1, 2, 3]);
    assert!(account.begin(3, 9, NOW));
    account.reading();
    account.found(1, Token(10), READING + 1, true);
    account.found(4, Token(12), READING + 1, true);
    // This one ended after its record was read, and that one before.
    account.found(5, Token(12), READING + 1, true);
    account.ended(5, Token(12));
    account.ended(6, Token(13));
    account.found(6, Token(13), READING + 1, true);
    // One is granted meanwhile, to which an older record belongs.
    account.granted(7, Token(20), READING + 1);
    account.found(7, Token(14), READING + 1, true);
    account.read(READING + 1);
    assert_eq!([1, 4, 7].map(|mark| account.held(mark)), [10, 12, 20].map(|t| Some(Token(t))));
    assert_eq!(account.used(), 4, "a call for the third is in progress");
    account.finish(3, None, READING + 1);
    assert_eq!(account.used(), 3);
}

/// A store that went backwards has older tokens, and the end of such a tenure is the end of the last one.
#[test]
fn a_reading_replaces_a_tenure_that_the_store_forgot() {
    let mut account = Account::default();
    account.granted(1, Token(20), READING);
    account.granted(2, Token(21), READING);
    account.reading();
    account.found(1, Token(10), READING + 1, true);
    account.granted(2, Token(30), READING + 1);
    account.found(2, Token(11), READING + 1, true);
    account.read(READING + 1);
    assert_eq!([1, 2].map(|mark| account.held(mark)), [10, 30].map(|t| Some(Token(t))));
    account.ended(1, Token(10));
    account.ended(2, Token(30));
    assert_eq!(account.used(), 0);
}

#[test]
fn an_offered_key_counts_until_the_offer_is_over() {
    let mut account = holding(&[1]);
    account.enter(1);
    account.offered(1, Token(10), NOW);
    account.finish(1, None, READING);
    account.ended(1, Token(10));
    let early = Moment(NOW.0 - 1);
    assert_eq!((account.begin(2, 1, early), account.used()), (false, 1));
    assert_eq!((account.take(2, 1, early), account.used()), (0, 1));
    assert_eq!((account.take(1, 2, NOW), account.used()), (1, 2), "nobody looks at it yet");
    account.give_back(1);
    assert_eq!((account.begin(2, 1, NOW), account.used()), (true, 1));
}

#[test]
fn the_first_offer_that_is_over_makes_room_and_the_others_count() {
    let mut account = holding(&[1, 2]);
    for (mark, over) in [(1, Moment(70)), (2, Moment(60))] {
        account.offered(mark, Token(10), over);
        account.ended(mark, Token(10));
    }
    assert!(!account.begin(3, 2, NOW));
    assert!(account.begin(3, 2, Moment(60)) && !account.begin(4, 2, Moment(69)));
    assert!(account.begin(4, 2, Moment(70)));
}

#[test]
fn a_later_grant_ends_an_offer_whatever_is_told_first() {
    let offered: fn(&mut Account) = |account| account.offered(1, Token(10), Moment::NEVER);
    // The feed tells of the transfer, and of a grant to another principal.
    let told: [fn(&mut Account); 2] =
        [|account| account.ended(1, Token(10)), |account| account.ended(1, Token(12))];
    for steps in
        [[offered, told[0], told[1]], [told[0], offered, told[1]], [told[0], told[1], offered]]
    {
        let mut account = holding(&[1]);
        account.enter(1);
        steps.iter().for_each(|step| step(&mut account));
        account.finish(1, None, READING);
        assert_eq!(account.used(), 0);
    }
    let mut account = holding(&[1]);
    offered(&mut account);
    account.granted(1, Token(10), READING);
    account.ended(1, Token(10));
    assert_eq!(account.used(), 1, "the feed told late of the tenure that made the offer");
    account.granted(1, Token(12), READING);
    account.ended(1, Token(12));
    assert_eq!(account.used(), 0, "the principal took it itself");
}
