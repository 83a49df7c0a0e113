//! The store, the nodes, and the door.

use std::time::Duration;

use super::{
    entry::{CRITICAL, WARNING, count, millis, of_node, of_store},
    facts::Facts,
};
use crate::{api::Attention, lease::NodeState, store::Health, telemetry::recent::Interruption};

/// A node that was found dead is told of for this long.
const DEAD_FOR: Duration = Duration::from_secs(3600);
/// Tenures that end later than this after their deadlines end late: the alert `TenureExpiryLate` says so too.
const LATE: Duration = Duration::from_secs(1);
/// Lines that the audit log lost are told of for this long.
const LOST_FOR: Duration = Duration::from_secs(600);
/// Expiries of the last five minutes are many if they are so many at least, and so many times as many as before.
const MANY: u64 = 10;
const TIMES: u64 = 3;
const LATEST: usize = 5;
/// How many minutes before those must be known.
const BEFORE: usize = 10;

/// What needs a person, of the store, the nodes and the door.
pub fn attention(facts: &Facts) -> Vec<Attention> {
    let mut found = Vec::new();
    found.extend(health(facts));
    found.extend(nodes(facts));
    found.extend(interruptions(facts));
    found.extend(late(facts));
    found.extend(many(facts));
    found.extend(audit(facts));
    found.extend(audit_gaps(facts));
    found.extend(door(facts));
    found
}

/// The command that shows what the runbook says of an alert.
fn runbook(alert: &str) -> String {
    format!("tenure help runbook {alert}")
}

fn health(facts: &Facts) -> Vec<Attention> {
    let mut found = Vec::new();
    match &facts.health {
        Health::Ready => {}
        Health::Degraded(why) => {
            let says = format!("the store accepts no writes, so nothing is granted: {why}");
            let help = Some(runbook("TenureStoreNotReady"));
            found.push(Attention { help, ..of_node("store-not-ready", CRITICAL, says) });
        }
        Health::Frozen(why) => {
            let says = format!("the store went backwards, so nothing is granted: {why}");
            let help = Some(runbook("TenureStoreFrozen"));
            found.push(Attention { help, ..of_node("store-frozen", CRITICAL, says) });
        }
    }
    if facts.is_stopping {
        let says = "this node is stopping: it accepts no more work".to_owned();
        found.push(of_node("stopping", WARNING, says));
    } else if !facts.may_promise && facts.health == Health::Ready {
        let says = "this node could not renew its record in the store, and may promise nothing";
        let help = Some("check the connection between this node and the store".to_owned());
        let entry = of_node("node-may-not-promise", CRITICAL, says.to_owned());
        found.push(Attention { help, ..entry });
    }
    found
}

fn nodes(facts: &Facts) -> Vec<Attention> {
    let mut found = Vec::new();
    for node in &facts.nodes {
        let (record, url) = (&node.record, &*node.record.url);
        let is_recent = facts.now.since(node.since) < DEAD_FOR;
        if record.state == NodeState::Dead && !url.is_empty() && is_recent && !facts.lives(url) {
            let says = format!("the node {url} is dead; other nodes adopt its leases");
            let help = Some(format!("start the node at {url} again, unless it is gone for good"));
            let entry = of_store("node-dead", WARNING, says);
            let entry = Attention { help, node: Some(url.to_owned()), ..entry };
            found.push(facts.since(node.since, entry));
        }
        if facts.other_rules.contains(&record.incarnation) {
            let says = format!("the node {url} has other policies or plugins than this one");
            let help = "give all nodes the same settings, and reload them with SIGHUP";
            let help = Some(help.to_owned());
            let entry = of_store("rules-differ", WARNING, says);
            found.push(Attention { help, node: Some(url.to_owned()), ..entry });
        }
    }
    for node in facts.nodes.iter().filter(|it| facts.other_access.contains(&it.record.incarnation))
    {
        let url = &*node.record.url;
        let says = format!("the node {url} has another access file than this one");
        let help = "give all nodes the same access file and the same files of keys";
        let entry = of_store("access-differs", WARNING, says);
        found.push(Attention { help: Some(help.to_owned()), node: Some(url.to_owned()), ..entry });
    }
    for url in &facts.shared_addresses {
        let says = format!("several living nodes advertise {url}: calls for one reach the other");
        let help = Some("set node.advertise_url of each node to its own address".to_owned());
        let entry = of_store("address-shared", WARNING, says);
        found.push(Attention { help, node: Some(url.to_string()), ..entry });
    }
    found
}

fn interruptions(facts: &Facts) -> impl Iterator<Item = Attention> {
    facts.interruptions.iter().map(|one| {
        let (kind, alert, says) = match one.latest {
            Interruption::ClockJump(gain_ms) => (
                "clock-jumped",
                "TenureClockJump",
                format!(
                    "the wall clock of this node moved by {gain_ms} ms against the node's own clock: the machine was \
                     suspended or moved, or its clock was set"
                ),
            ),
            Interruption::RecordRanOut => (
                "node-lapsed",
                "TenureNodeLapsed",
                "this node did not renew its record in time, and promised nothing for a while".to_owned(),
            ),
            Interruption::FoundDead => (
                "node-lapsed",
                "TenureNodeLapsed",
                "other nodes found this node dead and adopted its leases; it continues as another incarnation".to_owned(),
            ),
        };
        let help = Some(runbook(alert));
        let entry = Attention { help, count: Some(one.count), ..of_node(kind, WARNING, says) };
        facts.since(one.at, entry)
    })
}

fn late(facts: &Facts) -> Option<Attention> {
    let lateness = facts.lateness;
    if lateness.count == 0 || lateness.p99 <= LATE {
        return None;
    }
    let says = format!(
        "one in 100 of the expiries of the last minute at this node was {} ms late or more; no promise is broken, but \
         successors waited",
        millis(lateness.p99)
    );
    let help = Some(runbook("TenureExpiryLate"));
    Some(Attention { help, count: Some(lateness.count), ..of_node("expiry-late", WARNING, says) })
}

fn many(facts: &Facts) -> Option<Attention> {
    let before = facts.expired.len().checked_sub(LATEST).filter(|before| *before >= BEFORE)?;
    let sum = |minutes: &[u32]| minutes.iter().map(|count| u64::from(*count)).sum::<u64>();
    let (earlier, latest) = (sum(&facts.expired[..before]), sum(&facts.expired[before..]));
    let is_more = latest * before as u64 > TIMES * earlier * LATEST as u64;
    if latest < MANY || !is_more {
        return None;
    }
    let says = format!(
        "{latest} tenures expired in the last {LATEST} minutes, and {earlier} in the {before} minutes before: workers \
         die, or cannot send their heartbeats"
    );
    let help = Some("tenure top --by owners --cause expired".to_owned());
    Some(Attention { help, count: Some(latest), ..of_store("expiries-many", WARNING, says) })
}

fn audit(facts: &Facts) -> Option<Attention> {
    let lost = facts.audit.filter(|lost| facts.now.since(lost.latest) < LOST_FOR)?;
    let lines = usize::try_from(lost.count).unwrap_or(usize::MAX);
    let lines = count(lines, "line", "lines");
    let says = format!("the audit log of this node has lost {lines} since the node began");
    let help = Some(format!("free disk space: {}", runbook("TenureAuditLost")));
    let entry = of_node("audit-lost", WARNING, says);
    Some(facts.since(lost.latest, Attention { help, count: Some(lost.count), ..entry }))
}

fn audit_gaps(facts: &Facts) -> Option<Attention> {
    let gaps = facts.audit_gaps?;
    let says = "the audit log of this node lacks lines that were written, or the file that remembers its end is gone: its \
                end was cut off or changed, or a file was removed";
    let help = format!("find out who may write the files: {}", runbook("TenureAuditGap"));
    let entry = of_node("audit-gap", WARNING, says.to_owned());
    let help = Some(help);
    Some(facts.since(gaps.latest, Attention { help, count: Some(gaps.count), ..entry }))
}

fn door(facts: &Facts) -> Option<Attention> {
    let says =
        "callers are not authenticated: whoever reaches the port of this node owns every lease";
    let help = Some("tenure access init, and auth.file; see docs/access.md".to_owned());
    let entry = of_node("open-door", WARNING, says.to_owned());
    facts.open_door.then_some(Attention { help, ..entry })
}
