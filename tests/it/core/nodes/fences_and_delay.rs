//! R6, R8: lock-delays, fences and leases of sessions, among several nodes.

use std::sync::Arc;

use tenure::lease::{
    Behavior, Elsewhere, FencePlan, FenceResult, Input, Moment, Nonce, Policies, Request, Revoke,
    SessionOver, SessionRef,
};

use super::*;

const DELAY_MS: u64 = 20_000;

/// A key under a policy that `a` holds, at home at A.
fn held(policies: &Arc<Policies>) -> (World, Who) {
    let mut world = pair();
    for node in &mut world.nodes {
        node.context.policies = policies.clone();
    }
    let holder = world.done(A, acquire("a"));
    world.news(B);
    (world, holder)
}

/// The same, and its tenure expired at A, which B heard.
fn expired(policies: &Arc<Policies>) -> (World, Who) {
    let (mut world, holder) = held(policies);
    world.run_until(2 * TTL_MS, |world| world.owner().is_none());
    world.news(B);
    (world, holder)
}

fn waiting(world: &World, name: &str) -> Ask {
    acquire(name).waiting_until(world.clock(B) + ms(500_000))
}

#[test]
fn another_node_opens_a_key_when_the_lock_delay_of_its_home_is_over() {
    let (mut world, _) = expired(&ruled(DELAY_MS as u32, None));
    let end = world.record().written + ms(DELAY_MS);
    let b = waiting(&world, "b");
    let b = world.home_unreachable(B, b);
    // Its home answers nobody meanwhile, but lives.
    world.run_until(2 * DELAY_MS, |_| !b.waits());
    b.grant();
    assert!(world.clock(A) >= end);
    assert!(world.clock(A).since(end) < ms(400), "{:?}", world.clock(A).since(end));
}

#[test]
fn the_lock_delay_of_a_dead_home_is_waited_for() {
    let (mut world, _) = expired(&ruled(DELAY_MS as u32, None));
    let end = world.record().written + ms(DELAY_MS);
    world.crash(A);
    let b = waiting(&world, "b");
    let b = world.home_unreachable(B, b);
    world.run_until(2 * DELAY_MS, |_| !b.waits());
    assert!(world.is_terminal(A));
    b.grant();
    assert!(world.clock(A) >= end);
    assert!(world.clock(A).since(end) < ms(400));
}

#[test]
fn a_place_of_the_old_owner_does_not_cut_the_lock_delay() {
    let (mut world, _) = expired(&ruled(DELAY_MS as u32, None));
    let place = waiting(&world, "a").reclaiming().place();
    let place = world.done(A, place);
    assert!(place.waits(), "{place:?}");
}

#[test]
fn an_old_owner_revives_its_lease_at_another_node() {
    let (mut world, holder) = expired(&ruled(DELAY_MS as u32, None));
    alive(&world.done(B, heartbeat(holder.proof())));
    assert_eq!(world.home(), world.incarnation(B));
}

#[test]
fn a_fence_is_run_by_the_home_alone_while_that_lives() {
    let (mut world, _) = expired(&ruled(0, Some(before_grant(&["power"]))));
    let b = waiting(&world, "b");
    let b = world.home_unreachable(B, b);
    world.run(10 * NODE_TTL_MS);
    assert_eq!((world.nodes[A].fences.len(), world.nodes[B].fences.len()), (1, 0));
    assert!(b.waits());
    world.report(A, FenceResult::Confirmed);
    world.news(B);
    world.run(NODE_TTL_MS);
    b.grant();
}

#[test]
fn the_fence_of_a_dead_home_is_run_by_the_node_that_finds_it() {
    let (mut world, holder) = expired(&ruled(0, Some(before_grant(&["power"]))));
    assert_eq!(world.nodes[A].fences.len(), 1);
    world.crash(A);
    let b = waiting(&world, "b");
    let b = world.home_unreachable(B, b);
    world.run_until(10 * NODE_TTL_MS, |world| !world.nodes[B].fences.is_empty());
    assert!(world.is_terminal(A) && b.waits());
    assert_eq!(world.nodes[B].fences[0].token.0, holder.token());
    world.report(B, FenceResult::Confirmed);
    b.grant();
    assert_eq!(world.events(), ["granted", "expired", "fencing", "fenced", "granted"]);
}

#[test]
fn a_late_fence_of_a_dead_home_is_run_while_its_lease_is_adopted() {
    let (mut world, _) = expired(&ruled(0, Some(after_grant(&["power"]))));
    let b = world.done(A, acquire("b"));
    world.news(B);
    assert_eq!(world.nodes[A].fences.len(), 1);
    world.crash(A);
    world.run_until(4 * NODE_TTL_MS, |world| world.is_terminal(A));
    world.wake(B);
    assert_eq!(world.nodes[B].fences.len(), 1);
    world.report(B, FenceResult::Confirmed);
    assert_eq!(world.home(), world.incarnation(B));
    alive(&world.done(B, heartbeat(b.proof())));
    let c = waiting(&world, "c");
    let c = world.done(B, c);
    world.run_until(6 * TTL_MS, |_| !c.waits());
    c.grant();
}

#[test]
fn a_report_that_comes_after_the_lease_went_elsewhere_changes_nothing() {
    let (mut world, _) = expired(&ruled(0, Some(after_grant(&["power"]))));
    let b = world.done(A, acquire("b"));
    // A sleeps, is found dead, and goes on as another; B adopted the lease meanwhile.
    world.nodes[A].up = false;
    world.run(3 * NODE_TTL_MS);
    assert!(world.is_terminal(A));
    world.news(B);
    alive(&world.done(B, heartbeat(b.proof())));
    let adopted = world.cell.revision();
    world.nodes[A].up = true;
    world.renew(A);
    world.renew(A);
    world.watch(A);
    world.news(A);
    world.input(A, Input::Stale(Elsewhere::Unheard));
    world.settle(A);
    world.report(A, FenceResult::Confirmed);
    assert_eq!(world.cell.revision(), adopted, "it is B's to write");
    assert_eq!(world.home(), world.incarnation(B));
}

#[test]
fn a_node_that_may_not_promise_neither_fences_nor_confirms() {
    let (mut world, _) = expired(&ruled(0, Some(before_grant(&["power"]))));
    world.outage = true;
    world.run(2 * NODE_TTL_MS);
    let before = world.cell.revision();
    world.report(A, FenceResult::Confirmed);
    assert_eq!(world.cell.revision(), before);
    world.outage = false;
    world.run(4 * NODE_TTL_MS);
    let at = usize::from(world.nodes[A].fences.is_empty());
    assert!(!world.nodes[at].fences.is_empty(), "it is run again");
    world.report(at, FenceResult::Confirmed);
    assert_eq!(world.events(), ["granted", "expired", "fencing", "fenced"]);
}

#[test]
fn a_fence_on_release_is_written_for_a_home_that_cannot_be_reached() {
    let plan = FencePlan { on_release: true, ..before_grant(&["power"]) };
    let (mut world, holder) = held(&ruled(0, Some(plan)));
    world.home_unreachable(B, release(holder.proof()));
    assert_eq!(world.nodes[B].fences.len(), 1);
    assert_eq!(world.nodes[A].fences.len(), 0);
    world.report(B, FenceResult::Confirmed);
    world.done(B, acquire("b")).grant();
}

const SESSION: Nonce = Nonce(0x5e55);

/// A lease that a session keeps, granted by A, which B knows.
fn kept() -> (World, Who) {
    let mut world = pair();
    let session_ref =
        SessionRef { session: SESSION, lock_delay_ms: None, behavior: Behavior::Release };
    let holder = world.done(A, acquire("a").kept_by(session_ref));
    world.news(B);
    (world, holder)
}

fn over() -> Input<Who> {
    Input::SessionOver(SessionOver {
        session: SESSION,
        cause: "expired".into(),
        is_lost: false,
        actor: None,
    })
}

#[test]
fn a_kept_lease_outlives_the_node_that_granted_it_and_ends_at_any_other() {
    let (mut world, holder) = kept();
    world.crash(A);
    world.run(10 * TTL_MS);
    assert!(world.is_terminal(A));
    assert_eq!(world.owner().as_deref(), Some("a"));
    let beat = world.done(B, heartbeat(holder.proof()));
    assert!(matches!(beat.answer(), Answer::KeptBySession(SESSION, _)));
    world.input(B, over());
    world.settle(B);
    assert_eq!(world.events(), ["granted", "session-ended"]);

    let (mut world, _) = kept();
    world.input(B, over());
    world.settle(B);
    assert_eq!(world.events(), ["granted", "session-ended"], "whoever reads it ends it");
}

#[test]
fn for_a_kept_lease_nobody_looks_for_a_home_whose_record_is_gone_but_for_an_order_of_its() {
    for order in [false, true] {
        let (mut world, _) = kept();
        let home = world.home();
        if order {
            let floor = world.clock(A) + ms(TTL_MS);
            ordered(&mut world, A, floor);
        }
        world.crash(A);
        world.records.remove(&home);
        world.start(B, "http://b");
        world.tell(B);
        world.watch(B);
        assert_eq!(world.records.contains_key(&home), order);
        world.input(B, over());
        assert!(world.run_until(200_000, |world| world.owner().is_none()), "it ends all the same");
        assert_eq!(world.events(), ["granted", "session-ended"]);
    }
}

#[test]
fn a_kept_lease_is_pinned_and_revoked_where_it_is_not_at_home() {
    for pinned in [false, true] {
        let (mut world, _) = kept();
        if pinned {
            world.done(B, pin("ops"));
            world.done(B, unpin("ops"));
        }
        let floor = world.clock(B) + ms(TTL_MS);
        let Request::Revoke(order) = revoke() else { unreachable!() };
        let order = Revoke { floor: Some(floor), ..*order };
        let revoked = world.done(B, Request::Revoke(Box::new(order)));
        let Answer::Revoked(left) = revoked.answer() else { panic!("{revoked:?}") };
        assert!(left <= 2 * TTL_MS, "{left}");
        world.run(left - 100);
        assert_eq!(world.owner().as_deref(), Some("a"));
        assert!(world.clock(B) < Moment::NEVER);
        world.run(NODE_TTL_MS);
        assert_eq!(world.owner(), None);
    }
}

/// Revokes the kept lease at a node, its session's promises running until then.
fn ordered(world: &mut World, at: usize, floor: Moment) {
    let Request::Revoke(order) = revoke() else { unreachable!() };
    let order = Revoke { floor: Some(floor), ..*order };
    let revoked = world.done(at, Request::Revoke(Box::new(order)));
    assert!(matches!(revoked.answer(), Answer::Revoked(_)), "{revoked:?}");
}

#[test]
fn an_order_whose_author_died_is_carried_out_by_whoever_orders_it_anew() {
    let (mut world, _) = kept();
    let floor = world.clock(A) + ms(TTL_MS);
    ordered(&mut world, A, floor);
    world.news(B);
    world.crash(A);
    // The session may be at home at B by now, and promised there for a long time.
    world.run(20 * TTL_MS);
    assert!(world.is_terminal(A));
    assert_eq!(world.owner().as_deref(), Some("a"), "no node knows what covers the lease");
    assert!(world.nodes[B].reissued.contains(&SESSION));

    let floor = world.clock(B) + ms(TTL_MS);
    ordered(&mut world, B, floor);
    world.run(TTL_MS - 100);
    assert_eq!(world.owner().as_deref(), Some("a"));
    world.run(NODE_TTL_MS);
    assert_eq!(world.owner(), None);
}
