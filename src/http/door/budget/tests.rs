use super::*;

const MIB: usize = 1 << 20;

fn payer(name: &str) -> Payer {
    Payer::Principal(name.into())
}

fn filled(
    budget: &Arc<Budget>,
    name: &str,
    is_vital: bool,
    length: usize,
) -> Result<Buffer, &'static str> {
    let mut buffer = Buffer::new(budget.clone(), payer(name), is_vital);
    for _ in 0..length / 1024 {
        buffer.add(&[7; 1024]).map_err(|problem| problem.code)?;
    }
    Ok(buffer)
}

/// Bodies of one caller, until one is refused, and the refusal.
fn until_refused(budget: &Arc<Budget>, name: &str, is_vital: bool) -> (Vec<Buffer>, &'static str) {
    let mut kept = Vec::new();
    loop {
        match filled(budget, name, is_vital, 100 * 1024) {
            Ok(buffer) => kept.push(buffer),
            Err(code) => return (kept, code),
        }
    }
}

#[test]
fn a_body_counts_for_what_is_kept_of_it_until_it_is_dropped() {
    let budget = Budget::new(4 * MIB);
    let small = filled(&budget, "a", false, FREE).unwrap();
    assert_eq!((budget.used(), small.len()), (0, FREE));
    let large = filled(&budget, "a", false, 512 * 1024).unwrap();
    let used = budget.used();
    assert!((512 * 1024..=512 * 1024 * 5 / 4).contains(&used), "{used}");
    let kept = large.freeze();
    let again = kept.clone();
    drop(kept);
    assert_eq!((budget.used(), again.len()), (used, 512 * 1024));
    drop(again);
    assert_eq!((budget.used(), budget.shares.len()), (0, 0));
}

#[test]
fn a_message_counts_until_it_is_dropped() {
    let budget = Budget::new(2 * MIB);
    let mut counted = Charged::new(budget.clone(), payer("a"));
    counted.add(2 * MIB, false).unwrap();
    let refused = counted.add(1, false).map_err(|problem| problem.code);
    assert_eq!((refused, budget.used()), (Err("too-many-bodies"), 2 * MIB));
    let message = counted.split();
    assert_eq!((counted.bytes(), message.bytes()), (0, 2 * MIB));
    drop(counted);
    assert_eq!(budget.used(), 2 * MIB);
    drop(message);
    assert_eq!((budget.used(), budget.shares.len()), (0, 0));
}

#[test]
fn others_do_not_cost_a_heartbeat() {
    let budget = Budget::new(4 * MIB);
    let (mut one, refused) = until_refused(&budget, "one", false);
    let (other, _) = until_refused(&budget, "other", false);
    assert_eq!(refused, "too-many-bodies");
    assert!(budget.used() <= 4 * MIB && one.len() + other.len() >= 30, "{}", budget.used());
    assert!(filled(&budget, "third", false, FREE).is_ok(), "it is short");
    assert!(filled(&budget, "third", true, 100 * 1024).is_ok(), "there is a reserve");
    one.pop();
    assert!(filled(&budget, "third", false, 100 * 1024).is_ok());
}

#[test]
fn one_payer_has_half_of_the_budget_and_half_of_the_reserve() {
    let budget = Budget::new(16 * MIB);
    let (bodies, refused) = until_refused(&budget, "greedy", false);
    assert_eq!(refused, "too-many-bodies");
    let used = budget.used();
    assert!((7 * MIB..=8 * MIB).contains(&used), "{used}");
    let (beats, _) = until_refused(&budget, "greedy", true);
    let used = budget.used();
    assert!((8 * MIB..=9 * MIB).contains(&used), "{used}");
    let (others, _) = until_refused(&budget, "other", false);
    assert!(others.len() >= 50, "{}", others.len());
    let address = Payer::Address([10, 0, 0, 1].into());
    let mut third = Charged::new(budget.clone(), address);
    assert!(third.add(MIB, false).is_err(), "two payers take the whole budget");
    third.add(MIB / 2, true).expect("and one of them takes half of the reserve");
    drop((bodies, beats, others, third));
    assert_eq!((budget.used(), budget.shares.len()), (0, 0));
}

#[test]
fn the_smallest_budget_has_room_for_the_largest_body() {
    let budget = Budget::new(2 * MIB);
    assert!(filled(&budget, "a", false, MIB).is_ok());
}
