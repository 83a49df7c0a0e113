//! Reads the specification of a session.

use crate::{
    actor::{Limits, Target},
    http::{
        answer::Problem,
        wire::{BehaviorName, CheckSpec, SessionBody},
    },
    lease::{Behavior, Check, CheckKind, MAX_CHECKS, MAX_LOCK_DELAY_MS, SessionSpec},
};

/// The highest capacity that a member of a pool may declare, in keys.
const MAX_CAPACITY: u32 = 1_000_000;
/// The bounds of the interval between two rounds of a check, and of the timeout of one round, in milliseconds.
const CHECK_SPANS: std::ops::RangeInclusive<u64> = 100..=3_600_000;
/// The longest timeout of one round, in milliseconds. A round takes one of the node's slots for checks meanwhile.
const CHECK_TIMEOUT_MAX: u64 = 60_000;

fn span(field: &str, at: usize, value: u64, max: u64) -> Result<u64, Problem> {
    let min = *CHECK_SPANS.start();
    if (min..=max).contains(&value) {
        return Ok(value);
    }
    let detail = format!("is {value}; it must be from {min} to {max}");
    Err(Problem::field(&format!("checks[{at}].{field}"), detail))
}

fn check(limits: &Limits, at: usize, body: &CheckSpec) -> Result<Check, Problem> {
    let wrong =
        |field: &str, detail: &str| Err(Problem::field(&format!("checks[{at}].{field}"), detail));
    // A host name is checked each time it is resolved.
    let reachable = |field: &str, target: &Target| match target.literal() {
        Some(address) if !limits.reach.allows(address) => {
            let detail = "names an address that checks of this coordinator may not connect to (checks.allow)";
            Err(Problem::field(&format!("checks[{at}].{field}"), detail))
        }
        _ => Ok(()),
    };
    let (kind, interval_ms, timeout_ms, fail_after) = match body {
        CheckSpec::Http { url, interval_ms, timeout_ms, fail_after } => {
            let known = ["http://", "https://"].iter().any(|scheme| url.starts_with(scheme));
            // The URL parser would drop some control characters.
            let control = url.contains(char::is_control);
            let target = reqwest::Url::parse(url).ok().and_then(|url| Target::of_url(&url));
            let Some(target) = target.filter(|_| known && !control && url.len() <= 2048) else {
                return wrong("url", "must be an http:// or https:// URL of at most 2048 bytes");
            };
            reachable("url", &target)?;
            (CheckKind::Http(url.as_str().into()), *interval_ms, *timeout_ms, *fail_after)
        }
        CheckSpec::Tcp { address, interval_ms, timeout_ms, fail_after } => {
            let target = Target::of_address(address);
            let control = address.contains(char::is_control);
            let Some(target) = target.filter(|_| !control && address.len() <= 256) else {
                return wrong("address", "must be host:port, of at most 256 bytes");
            };
            reachable("address", &target)?;
            (CheckKind::Tcp(address.as_str().into()), *interval_ms, *timeout_ms, *fail_after)
        }
        CheckSpec::Exec { command, interval_ms, timeout_ms, fail_after } => {
            if !limits.exec_checks {
                return wrong(
                    "type",
                    "is exec, which this coordinator does not allow (limits.exec_checks)",
                );
            }
            let long = command.iter().map(String::len).sum::<usize>() > 4096;
            if command.is_empty() || command[0].is_empty() || long {
                return wrong("command", "must be a program and its arguments, at most 4096 bytes");
            }
            let control = |c: char| c.is_control() && !matches!(c, '\n' | '\t');
            if command.iter().any(|part| part.contains(control)) {
                return wrong("command", "holds a control character");
            }
            let command = command.iter().map(|part| part.as_str().into()).collect();
            (CheckKind::Exec(command), *interval_ms, *timeout_ms, *fail_after)
        }
        CheckSpec::Progress { interval_ms, fail_after } => {
            (CheckKind::Progress, *interval_ms, *interval_ms, *fail_after)
        }
    };
    if !(1..=1000).contains(&fail_after) {
        return wrong("fail_after", &format!("is {fail_after}; it must be from 1 to 1000"));
    }
    let interval_ms = span("interval_ms", at, interval_ms, *CHECK_SPANS.end())?;
    let timeout_ms = match kind {
        // Such a check has no round that takes time.
        CheckKind::Progress => timeout_ms,
        _ => span("timeout_ms", at, timeout_ms, CHECK_TIMEOUT_MAX)?,
    };
    Ok(Check { kind, interval_ms, timeout_ms, fail_after })
}

/// Reads the specification of a session. Refuses checks that the settings do not allow.
pub fn read_spec(limits: &Limits, body: &SessionBody) -> Result<SessionSpec, Problem> {
    if body.lock_delay_ms.is_some_and(|delay| delay > MAX_LOCK_DELAY_MS) {
        let detail = format!("must be from 0 to {MAX_LOCK_DELAY_MS}");
        return Err(Problem::field("lock_delay_ms", detail));
    }
    let capacity = body.capacity.unwrap_or(1);
    if !(1..=MAX_CAPACITY).contains(&capacity) {
        let detail = format!("is {capacity}; it must be from 1 to {MAX_CAPACITY}");
        return Err(Problem::field("capacity", detail));
    }
    if body.pool.is_none() {
        let given = [("weight", body.weight), ("capacity", body.capacity)];
        if let Some((field, _)) = given.into_iter().find(|(_, number)| number.is_some()) {
            return Err(Problem::field(field, "needs a pool: it describes a member of one"));
        }
    }
    if body.checks.len() > MAX_CHECKS {
        let detail = format!("are {}; at most {MAX_CHECKS} are allowed", body.checks.len());
        return Err(Problem::field("checks", detail));
    }
    let checks = body.checks.iter().enumerate().map(|(at, body)| check(limits, at, body));
    Ok(SessionSpec {
        behavior: match body.behavior {
            BehaviorName::Release => Behavior::Release,
            BehaviorName::Delete => Behavior::Delete,
        },
        lock_delay_ms: body.lock_delay_ms,
        pool: body.pool.as_deref().map(Into::into),
        weight: body.weight.unwrap_or(1),
        capacity: body.capacity,
        checks: checks.collect::<Result<_, _>>()?,
    })
}
