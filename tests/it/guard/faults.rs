//! Three agents on a real coordinator: whatever is done to them, no two are active, and the next one is
//! active in time.

use std::{collections::BTreeMap, time::Duration};

use rustix::process::Signal;

use crate::{
    guard::stage::{Stage, guardian_of, send, uptime},
    support::{clock::wait_for, process::Process},
};

const IDS: [&str; 3] = ["a", "b", "c"];
/// R, F, C: a ttl of 1.6 s.
const TIMES: [&str; 6] = ["-r", "400ms", "-f", "4", "-c", "2"];
const ROUND: u64 = 40;
const TTL: u64 = 4 * ROUND;
/// The time-out of the deactivation.
const OFF: u64 = ROUND;
/// For processes that have to be started on a machine that is busy with other tests.
const ALLOWANCE: u64 = 100;

struct Trio {
    stage: Stage,
    agents: BTreeMap<&'static str, Process>,
}

impl Trio {
    fn new() -> Self {
        let stage = Stage::new();
        let agents = IDS.map(|id| (id, stage.agent(id, &TIMES))).into();
        let trio = Self { stage, agents };
        trio.stage.wait_active(&IDS);
        // The others are to be in the queue.
        std::thread::sleep(Duration::from_millis(600));
        trio
    }

    fn agent(&self, id: &str) -> &Process {
        &self.agents[id]
    }

    /// One that is to end.
    fn take(&mut self, id: &str) -> Process {
        self.agents.remove(id).expect("an agent")
    }

    fn active(&self) -> &'static str {
        let active = self.stage.active();
        assert_eq!(active.len(), 1, "{:#?}", self.stage.log());
        IDS.into_iter().find(|id| active.contains(*id)).expect("one of ours")
    }

    /// Hundredths of a second until another than this is active.
    fn fail_over(&self, what: &str, old: &str, start: u64, most: u64) {
        let others: Vec<_> = IDS.into_iter().filter(|id| *id != old).collect();
        self.stage.wait_active(&others);
        let log = self.stage.log();
        let next = log.iter().rev().find(|stamp| stamp.on).expect("somebody is active");
        let took = next.at.saturating_sub(start);
        println!("{what}: {} after {}0 ms, at most {}0 ms", next.who, took, most);
        assert!(took <= most + ALLOWANCE, "{what}: {took}0 ms; {log:#?}");
    }

    /// SIGTERM: all are inactive, and end with 0.
    fn end(self) {
        for agent in self.agents.values() {
            agent.signal(Signal::TERM);
        }
        for (id, agent) in self.agents {
            assert_eq!(agent.wait().status.code(), Some(0), "agent {id}");
        }
        assert!(self.stage.active().is_empty());
        self.stage.judge();
    }
}

#[test]
fn an_agent_that_is_killed_is_replaced_and_its_service_deactivated_at_once() {
    let mut trio = Trio::new();
    let old = trio.active();
    let start = uptime();
    trio.take(old).kill();
    wait_for("its guardian to deactivate", || {
        trio.stage.log().iter().any(|stamp| !stamp.on && stamp.who == old && stamp.at >= start)
    });
    let off =
        trio.stage.log().into_iter().find(|s| !s.on && s.who == old && s.at >= start).unwrap();
    assert!(off.at - start <= ALLOWANCE, "{}0 ms", off.at - start);
    // The guardian gave the lease back: nobody had to wait for its end.
    trio.fail_over("kill -9", old, start, OFF + ROUND);
    // It comes back, as a standby.
    trio.agents.insert(old, trio.stage.agent(old, &TIMES));
    std::thread::sleep(Duration::from_secs(1));
    assert_ne!(trio.active(), old);
    trio.end();
}

#[test]
fn an_agent_that_is_stopped_is_deactivated_by_its_guardian_before_another_is_active() {
    let trio = Trio::new();
    let old = trio.active();
    let start = uptime();
    trio.agent(old).signal(Signal::STOP);
    trio.fail_over("SIGSTOP", old, start, TTL + ROUND);
    let new = trio.active();
    assert_ne!(new, old);
    trio.agent(old).signal(Signal::CONT);
    std::thread::sleep(Duration::from_millis(1500));
    assert_eq!(trio.active(), new, "it knows that it is over");
    trio.end();
}

#[test]
fn a_coordinator_that_is_gone_ends_the_activity_in_time_and_its_return_begins_another() {
    let mut trio = Trio::new();
    let old = trio.active();
    let start = uptime();
    trio.stage.kill_server();
    wait_for("the deactivation", || trio.stage.active().is_empty());
    let log = trio.stage.log();
    let off = log.iter().rev().find(|stamp| stamp.who == old).expect("it was active");
    println!("coordinator gone: inactive after {}0 ms, at most {TTL}0 ms", off.at - start);
    assert!(off.at - start <= TTL, "{log:#?}");
    std::thread::sleep(Duration::from_secs(1));
    assert!(trio.stage.active().is_empty(), "nobody can have the lease");
    trio.stage.start_server();
    let back = uptime();
    trio.stage.wait_active(&IDS);
    println!("coordinator back: active after {}0 ms", uptime() - back);
    trio.end();
}

#[test]
fn a_service_that_is_not_healthy_is_deactivated_and_moves() {
    let mut trio = Trio::new();
    let old = trio.active();
    let start = uptime();
    trio.stage.touch(&format!("sick-{old}"));
    // F failed rounds, the first up to a round away; the deactivation; C rounds, the first at once.
    trio.fail_over("unhealthy", old, start, 4 * ROUND + OFF + 2 * ROUND);
    let heir = trio.active();
    // A standby that is not healthy takes nothing over.
    let left = IDS.into_iter().find(|id| *id != old && *id != heir).expect("a third");
    let start = uptime();
    trio.take(heir).kill();
    trio.fail_over("killed, with one unhealthy", heir, start, TTL + ROUND);
    assert_eq!(trio.active(), left);
    trio.end();
}

#[test]
fn the_guardian_that_is_killed_takes_the_activity_with_it() {
    let mut trio = Trio::new();
    let old = trio.active();
    let start = uptime();
    let guardian = guardian_of(trio.agent(old).pid()).expect("it has a guardian");
    send(guardian, Signal::KILL);
    trio.fail_over("guardian killed", old, start, OFF + ROUND + ROUND);
    let ended = trio.take(old).wait();
    assert_eq!(ended.status.code(), Some(74));
    assert!(ended.said.contains("ALARM: its guardian is gone"), "{}", ended.said);
    trio.end();
}
