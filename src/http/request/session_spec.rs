//! Reads the specification of a session.

use std::{collections::BTreeMap, fmt::Display, ops::RangeInclusive};

use crate::{
    api::{
        BeatBody, BehaviorName, HealthCheck, SessionBody,
        limits::{
            CHECK_FAIL_AFTER, CHECK_INTERVAL_MS, CHECK_TIMEOUT_MS, MAX_CAPACITY,
            MAX_CHECK_ADDRESS_BYTES, MAX_CHECK_COMMAND_BYTES, MAX_CHECK_URL_BYTES,
        },
    },
    http::answer::Problem,
    lease::{
        Announced, Behavior, Check, CheckKind, Key, Labels, MAX_ADDRESS_BYTES, MAX_CHECKS,
        MAX_LOCK_DELAY_MS, MAX_VERSION_BYTES, SessionSpec, labels_of,
        load::Load,
        reports::{MAX_LOAD, Report, load_of},
    },
    manager::{Limits, Target},
};

/// Reads one check of a session.
struct CheckReader<'a> {
    limits: &'a Limits,
    /// Its place in the list of checks.
    at: usize,
}

impl CheckReader<'_> {
    fn wrong(&self, field: &str, detail: impl Display) -> Problem {
        Problem::field(&format!("checks[{}].{field}", self.at), detail)
    }

    /// Refuses a target that checks may not connect to. A host name is checked each time it is resolved.
    fn reachable(&self, field: &str, target: &Target) -> Result<(), Problem> {
        match target.literal() {
            Some(address) if !self.limits.reach.allows(address) => {
                let detail = "names an address that checks of this coordinator may not connect to (checks.allow)";
                Err(self.wrong(field, detail))
            }
            _ => Ok(()),
        }
    }

    fn http(&self, url: &str) -> Result<CheckKind, Problem> {
        let known = ["http://", "https://"].iter().any(|scheme| url.starts_with(scheme));
        // The URL parser would drop some control characters.
        let fits = known && !url.contains(char::is_control) && url.len() <= MAX_CHECK_URL_BYTES;
        let target = reqwest::Url::parse(url).ok().and_then(|url| Target::of_url(&url));
        let target = target.filter(|_| fits).ok_or_else(|| {
            let most = MAX_CHECK_URL_BYTES;
            self.wrong("url", format!("must be an http:// or https:// URL of at most {most} bytes"))
        })?;
        self.reachable("url", &target)?;
        Ok(CheckKind::Http(url.into()))
    }

    fn tcp(&self, address: &str) -> Result<CheckKind, Problem> {
        let fits = !address.contains(char::is_control) && address.len() <= MAX_CHECK_ADDRESS_BYTES;
        let target = Target::of_address(address).filter(|_| fits).ok_or_else(|| {
            let most = MAX_CHECK_ADDRESS_BYTES;
            self.wrong("address", format!("must be host:port, of at most {most} bytes"))
        })?;
        self.reachable("address", &target)?;
        Ok(CheckKind::Tcp(address.into()))
    }

    fn exec(&self, command: &[String]) -> Result<CheckKind, Problem> {
        if !self.limits.exec_checks {
            let detail = "is exec, which this coordinator does not allow (limits.exec_checks)";
            return Err(self.wrong("type", detail));
        }
        let most = MAX_CHECK_COMMAND_BYTES;
        let long = command.iter().map(String::len).sum::<usize>() > most;
        if command.first().is_none_or(String::is_empty) || long {
            let detail = format!("must be a program and its arguments, at most {most} bytes");
            return Err(self.wrong("command", detail));
        }
        let control = |c: char| c.is_control() && !matches!(c, '\n' | '\t');
        if command.iter().any(|part| part.contains(control)) {
            return Err(self.wrong("command", "holds a control character"));
        }
        Ok(CheckKind::Exec(command.iter().map(|part| part.as_str().into()).collect()))
    }

    fn within<T: PartialOrd + Display>(
        &self,
        field: &str,
        value: T,
        bounds: &RangeInclusive<T>,
    ) -> Result<T, Problem> {
        if bounds.contains(&value) {
            return Ok(value);
        }
        let (least, most) = (bounds.start(), bounds.end());
        Err(self.wrong(field, format!("is {value}; it must be from {least} to {most}")))
    }
}

fn check(limits: &Limits, at: usize, body: &HealthCheck) -> Result<Check, Problem> {
    let reader = CheckReader { limits, at };
    let (kind, interval_ms, timeout_ms, fail_after) = match body {
        HealthCheck::Http { url, interval_ms, timeout_ms, fail_after } => {
            (reader.http(url)?, *interval_ms, *timeout_ms, *fail_after)
        }
        HealthCheck::Tcp { address, interval_ms, timeout_ms, fail_after } => {
            (reader.tcp(address)?, *interval_ms, *timeout_ms, *fail_after)
        }
        HealthCheck::Exec { command, interval_ms, timeout_ms, fail_after } => {
            (reader.exec(command)?, *interval_ms, *timeout_ms, *fail_after)
        }
        HealthCheck::Progress { interval_ms, fail_after } => {
            (CheckKind::Progress, *interval_ms, *interval_ms, *fail_after)
        }
    };
    let fail_after = reader.within("fail_after", fail_after, &CHECK_FAIL_AFTER)?;
    let interval_ms = reader.within("interval_ms", interval_ms, &CHECK_INTERVAL_MS)?;
    let timeout_ms = match kind {
        // Such a check has no round that takes time.
        CheckKind::Progress => timeout_ms,
        _ => reader.within("timeout_ms", timeout_ms, &CHECK_TIMEOUT_MS)?,
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
        let given = [
            ("weight", body.weight.is_some()),
            ("capacity", body.capacity.is_some()),
            ("version", body.version.is_some()),
            ("address", body.address.is_some()),
            ("ready", body.ready.is_some()),
            ("load_limit", body.load_limit.is_some()),
            ("labels", body.labels.as_ref().is_some_and(|labels| !labels.is_empty())),
        ];
        if let Some((field, _)) = given.into_iter().find(|(_, is_given)| *is_given) {
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

/// Reads what a member says of itself.
pub fn read_announced(body: &SessionBody) -> Result<Announced, Problem> {
    let version = said("version", body.version.as_deref(), MAX_VERSION_BYTES)?;
    let address = said("address", body.address.as_deref(), MAX_ADDRESS_BYTES)?;
    if address.as_deref() == Some("") {
        return Err(Problem::field("address", "must not be empty"));
    }
    let unready = body.ready == Some(false);
    let load_limit = body.load_limit.map(|limit| load("load_limit", "", limit)).transpose()?;
    let labels = body.labels.as_ref().map(labels).transpose()?.unwrap_or_default();
    Ok(Announced { version, address, labels, unready, load_limit, ..Announced::default() })
}

/// Reads the labels that a heartbeat gives a member, if it gives any. Null removes all.
pub fn read_labels(body: &BeatBody) -> Result<Option<Labels>, Problem> {
    let given = body.labels.as_ref();
    given.map(|given| given.as_ref().map_or_else(|| Ok(Labels::new()), labels)).transpose()
}

fn labels(given: &BTreeMap<String, String>) -> Result<Labels, Problem> {
    let pairs = given.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    labels_of(pairs).map_err(|fault| Problem::field("labels", fault))
}

/// The most keys that a heartbeat may name as prepared for.
pub const MAX_PREPARED: usize = 256;

/// Reads the keys that a heartbeat says the member is prepared for.
pub fn read_prepared(body: &BeatBody) -> Result<Vec<Key>, Problem> {
    let named = body.prepared.as_deref().unwrap_or_default();
    if named.len() > MAX_PREPARED {
        let detail = format!("names {} keys; at most {MAX_PREPARED} are allowed", named.len());
        return Err(Problem::field("prepared", detail));
    }
    let key = |name: &String| {
        let of = |fault| Problem::field("prepared", format!("names {name:?}: {fault}"));
        Key::new(name).map_err(of)
    };
    named.iter().map(key).collect()
}

/// Reads the loads that a heartbeat reports, if it reports any.
pub fn read_report(body: &BeatBody) -> Result<Option<Report>, Problem> {
    if body.loads.is_none() && body.load_limit.is_none() {
        return Ok(None);
    }
    let of_key = |(name, given): (&String, &Option<f64>)| {
        let key = Key::new(name)
            .map_err(|fault| Problem::field("loads", format!("names {name:?}: {fault}")))?;
        Ok((key, given.map(|given| load("loads", name, given)).transpose()?))
    };
    let loads = body.loads.iter().flatten().map(of_key).collect::<Result<_, Problem>>()?;
    let limit = |limit: Option<f64>| limit.map(|limit| load("load_limit", "", limit)).transpose();
    Ok(Some(Report { loads, limit: body.load_limit.map(limit).transpose()? }))
}

/// Reads a load of this key, or of all keys if it is empty.
fn load(field: &str, key: &str, load: f64) -> Result<Load, Problem> {
    if (0.0..=MAX_LOAD).contains(&load) {
        return Ok(load_of(load));
    }
    let what = if key.is_empty() { "is".into() } else { format!("gives {key:?} the load") };
    Err(Problem::field(field, format!("{what} {load}; it must be from 0 to {MAX_LOAD}")))
}

fn said(field: &str, text: Option<&str>, most: usize) -> Result<Option<Box<str>>, Problem> {
    let Some(text) = text else { return Ok(None) };
    if text.len() > most {
        let detail = format!("is {} bytes long; at most {most} are allowed", text.len());
        return Err(Problem::field(field, detail));
    }
    if text.contains(char::is_control) {
        return Err(Problem::field(field, "must not have control characters"));
    }
    Ok(Some(text.into()))
}
