//! What a pool learns of its keys, in which order it is told.

use super::*;
use crate::actor::pools::fact::Delays;
use crate::lease::{
    Change, ChangeKind, Epoch, Guard, MassFailure, Owner, PoolControls, Revision, Said,
};

const DELAY: Duration = Duration::from_secs(30);
const DELAYS: Delays = Delays { lock_delay: DELAY, rejoin: Duration::ZERO };

/// Applies these changes of one key at intervals of one second, and returns the key's state.
fn hear(kinds: &[ChangeKind]) -> Place {
    let (mut pool, key) = (Pool::default(), Key::new("a").expect("a key"));
    for (seq, kind) in (1..).zip(kinds) {
        let token = Token::of(Epoch(1), Revision(1));
        let (owner, previous) = (None, None);
        let (reason, actor, session) = (None, None, None);
        let change = Change { kind: *kind, seq, owner, token, previous, reason, actor, session };
        let fact = Fact::of_change(&change, DELAYS).expect("it says who has the key");
        pool.learn(&key, fact, None, Moment::ZERO + Duration::from_secs(seq));
    }
    pool.keys.remove(&key).expect("the key is known")
}

fn open_at(place: &Place, second: u64) -> Option<u64> {
    place.open_for(Moment::ZERO + Duration::from_secs(second)).map(|open| open.as_secs())
}

/// A store that went backwards has older tokens, and they hold once changes were missed.
#[test]
fn what_is_read_after_a_gap_replaces_what_was_known() {
    let (mut pool, key) = (Pool::default(), Key::new("a").expect("a key"));
    let fact = |by: By, (epoch, revision), seq, asked| Fact {
        by,
        token: Token::of(Epoch(epoch), Revision(revision)),
        seq,
        asked,
        shut: false,
        cooling: Cooling::Over,
    };
    let held =
        |pool: &Pool, member: u128| pool.counts.get(&Nonce(member)).map_or(0, |count| count.held);
    let (lost, free) = (By::Session(Nonce(2)), By::Nobody);
    pool.learn(&key, fact(lost, (1, 9), 4, true), None, Moment::ZERO);
    pool.learn(&key, fact(free, (1, 3), 2, false), None, Moment::ZERO);
    assert_eq!((held(&pool, 2), pool.unheld_keys()), (1, 0), "a late record changes nothing");
    pool.missed_changes();
    pool.begin_indexing(None, None);
    pool.learn(&key, fact(free, (1, 3), 2, false), None, Moment::ZERO);
    pool.end_indexing();
    assert_eq!((held(&pool, 2), pool.unheld_keys(), pool.keys.len()), (0, 1, 1));
    assert!(pool.handed_over.is_empty(), "the request is forgotten too");
    // In one reading, the newest of what the feed and the records say holds.
    let next = fact(By::Session(Nonce(3)), (2, 5), 3, false);
    pool.learn(&key, next, None, Moment::ZERO);
    pool.learn(&key, fact(free, (1, 3), 2, false), None, Moment::ZERO);
    assert_eq!((held(&pool, 3), pool.unheld_keys()), (1, 0));
    // A gap that hid nothing changes nothing, and nobody has to look again.
    let opened = pool.opened();
    pool.missed_changes();
    pool.learn(&key, next, None, Moment::ZERO);
    assert_eq!((held(&pool, 3), pool.opened()), (1, opened));
}

/// The answer to a request comes after the feed told that the next member has the key.
#[test]
fn a_request_counts_for_the_tenure_that_was_asked_for_alone() {
    let (mut pool, key) = (Pool::default(), Key::new("a").expect("a key"));
    let fact = |by: u128, token, seq, asked| Fact {
        by: By::Session(Nonce(by)),
        token: Token::of(Epoch(1), Revision(token)),
        seq,
        asked,
        shut: false,
        cooling: Cooling::Over,
    };
    let asked_of =
        |pool: &Pool, member: u128| pool.counts.get(&Nonce(member)).map_or(0, |count| count.asked);
    pool.learn(&key, fact(1, 1, 1, false), None, Moment::ZERO);
    pool.asked(&key, fact(1, 1, 1, false).token);
    assert_eq!(asked_of(&pool, 1), 1);
    pool.learn(&key, fact(1, 1, 2, true), None, Moment::ZERO);
    assert_eq!(asked_of(&pool, 1), 1);
    pool.learn(&key, fact(2, 2, 3, false), None, Moment::ZERO);
    pool.asked(&key, fact(1, 1, 1, false).token);
    assert_eq!([1, 2].map(|member| asked_of(&pool, member)), [0, 0]);
    let free = Fact { by: By::Nobody, ..fact(2, 2, 4, false) };
    pool.learn(&key, free, None, Moment::ZERO);
    pool.asked(&key, free.token);
    assert!(!pool.keys[&key].fact.asked);
}

#[test]
fn a_lock_delay_follows_an_expiry_and_the_end_of_a_session_only() {
    use ChangeKind::{Expired, Reclaimed, Released, Revoked, SessionEnded, Transferred};
    for kind in [Released, Revoked, Reclaimed, Transferred] {
        let place = hear(&[kind]);
        assert_eq!([1, 11].map(|at| open_at(&place, at)), [Some(0), Some(10)], "{kind:?}");
    }
    for kind in [Expired, SessionEnded] {
        let place = hear(&[kind]);
        let seen = [1, 30, 31, 41].map(|at| open_at(&place, at));
        assert_eq!(seen, [None, None, Some(0), Some(10)], "{kind:?}");
    }
}

#[test]
fn a_key_is_open_from_when_its_lock_delay_or_its_fence_is_over() {
    use ChangeKind::{Cooled, Expired, Fenced, Fencing, Granted, Released};
    let cooled = hear(&[Expired, Cooled]);
    assert_eq!([1, 2, 12].map(|at| open_at(&cooled, at)), [None, Some(0), Some(10)]);
    let fencing = hear(&[Released, Fencing]);
    assert_eq!(open_at(&fencing, 3_600), None);
    let fenced = hear(&[Released, Fencing, Fenced]);
    assert_eq!([3, 13].map(|at| open_at(&fenced, at)), [Some(0), Some(10)]);
    assert_eq!(open_at(&hear(&[Granted]), 3_600), None);
}

#[test]
fn a_fence_that_ends_before_the_lock_delay_does_not_open_the_key() {
    use ChangeKind::{Cooled, Expired, Fenced, Fencing, SessionEnded};
    for end in [Expired, SessionEnded] {
        let fenced = hear(&[end, Fencing, Fenced]);
        let seen = [3, 30, 31, 41].map(|at| open_at(&fenced, at));
        assert_eq!(seen, [None, None, Some(0), Some(10)], "{end:?}");
        let cooled = hear(&[end, Fencing, Fenced, Cooled]);
        assert_eq!([4, 14].map(|at| open_at(&cooled, at)), [Some(0), Some(10)], "{end:?}");
    }
}

fn member(digest: u128) -> Joined {
    let owner = Owner::new(&format!("w{}", digest % 100)).expect("an owner");
    let (weight, capacity, node, returns) = (1, None, Nonce(0), None);
    let (draining, announced) = (false, Arc::default());
    Joined { owner, weight, capacity, node, draining, returns, announced }
}

/// Keys that are handed over in a frozen pool go to other members, up to the share that a guard leaves them.
#[test]
fn a_guard_counts_in_a_frozen_pool() {
    let mut pool = Pool::default();
    for key in ["a", "b", "c"] {
        pool.handed_over.insert(Key::new(key).expect("a key"), ());
    }
    let frozen = Some(Said::default());
    let guard = Some(Guard { at_ms: 0, members: 4, least: 2, weight: 4, keys: 8 });
    for (guard, may_have) in [(None, [3, 4, 6]), (guard, [2, 2, 3])] {
        let controls = PoolControls { frozen: frozen.clone(), guard, ..PoolControls::default() };
        pool.obey(&controls.into(), true, Moment::ZERO);
        assert_eq!([0, 1, 3].map(|held| pool.limits().of(&member(1), held)), may_have);
    }
}

/// A guard ends when one of three lost members is back. The next loss makes it a mass failure again.
#[test]
fn losses_still_count_after_a_guard_that_ended_because_one_member_is_back() {
    let rule = MassFailure { within_ms: 60_000, percent: 30 };
    let at = |second| Moment::ZERO + Duration::from_secs(second);
    for (by_an_operator, again) in [(false, true), (true, false)] {
        let mut pool = Pool::default();
        (1..=8).for_each(|digest| drop(pool.join(Nonce(digest), member(digest))));
        let lose = |pool: &mut Pool, digest, second| {
            pool.lose(Nonce(digest), rule, 0, at(second));
            pool.leave(Nonce(digest));
            pool.guard().cloned()
        };
        assert_eq!([1, 2].map(|digest| lose(&mut pool, digest, 0)), [None, None]);
        let guard = lose(&mut pool, 3, 1).expect("three of eight");
        let stands = PoolControls { guard: Some(guard), ..PoolControls::default() };
        pool.obey(&stands.into(), true, at(2));
        if !by_an_operator {
            pool.join(Nonce(103), member(103));
            assert!(pool.is_guard_over());
        }
        pool.obey(&PoolControls::default().into(), true, at(3));
        assert_eq!(pool.guard(), None);
        assert_eq!(lose(&mut pool, 4, 4).is_some(), again, "by an operator: {by_an_operator}");
    }
}
