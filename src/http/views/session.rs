//! Sessions, and what a heartbeat tells their holders.

use std::collections::BTreeMap;

use crate::{
    api::{BehaviorName, HealthCheck, Holdings, Lease, Notice, Session},
    http::app::App,
    lease::{self, Announced, Behavior, Check, CheckKind, Key, Labels, Token},
    manager::{Preparation, SessionAlive, SessionView},
};

impl Notice {
    /// All that a heartbeat of the session is told.
    pub(in crate::http) fn all(alive: SessionAlive) -> Vec<Self> {
        let text = |key: Key| key.as_str().to_owned();
        let draining = alive.asks.all.map(|deadline_ms| Self::Draining { deadline_ms });
        let replaced = alive.asks.replaced.then_some(Self::Replaced);
        let revoked = |(key, token): (Key, Token)| Self::Revoked { key: text(key), token: token.0 };
        let asked = |(key, token, deadline_ms): (Key, Token, u64)| Self::HandoverRequested {
            key: text(key),
            token: token.0,
            deadline_ms,
        };
        let revoked = alive.revoked.into_iter().map(revoked);
        let asked = alive.asks.leases.into_iter().map(asked);
        let prepare = |it: Preparation| Self::HandoverPrepare {
            key: text(it.key),
            token: it.token.0,
            value: it.value.filter(|_| !it.ready).map(Into::into),
            from: it.from.0.into(),
            address: it.from.1.map(Into::into),
            deadline_ms: it.left_ms,
            prepared: it.ready,
        };
        let prepare = alive.asks.prepare.into_iter().map(prepare);
        let of_session = replaced.into_iter().chain(draining);
        of_session.chain(revoked).chain(asked).chain(prepare).collect()
    }
}

impl HealthCheck {
    fn of(check: &Check) -> Self {
        let Check { interval_ms, timeout_ms, fail_after, .. } = *check;
        match &check.kind {
            CheckKind::Http(url) => {
                Self::Http { url: url.to_string(), interval_ms, timeout_ms, fail_after }
            }
            CheckKind::Tcp(address) => {
                Self::Tcp { address: address.to_string(), interval_ms, timeout_ms, fail_after }
            }
            CheckKind::Exec(command) => {
                let command = command.iter().map(ToString::to_string).collect();
                Self::Exec { command, interval_ms, timeout_ms, fail_after }
            }
            CheckKind::Progress => Self::Progress { interval_ms, fail_after },
        }
    }
}

impl Session {
    pub(in crate::http) fn of(app: &App, session: &SessionView) -> Self {
        let SessionView { digest, view, spec, holdings } = session;
        let announced = Announced::of_value(view.value.as_deref());
        let shown = Lease::of(app, &Key::of_session(*digest), view);
        Self {
            digest: digest.to_string(),
            owner: shown.owner.unwrap_or_default(),
            ttl_ms: view.ttl_ms.unwrap_or(0),
            expires_in_ms: view.expires_in_ms,
            behavior: match spec.behavior {
                Behavior::Release => BehaviorName::Release,
                Behavior::Delete => BehaviorName::Delete,
            },
            lock_delay_ms: spec.lock_delay_ms,
            pool: spec.pool.as_deref().map(Into::into),
            rejoin_window_ms: spec
                .pool
                .as_deref()
                .and_then(|pool| app.manager.rejoin_window_ms(pool)),
            weight: spec.weight,
            capacity: spec.capacity,
            version: announced.version.map(Into::into),
            address: announced.address.map(Into::into),
            labels: labels_shown(&announced.labels),
            ready: !announced.unready,
            checks: spec.checks.iter().map(HealthCheck::of).collect(),
            leases: holdings.map(Holdings::from),
            node: shown.node,
            created_at: shown.acquired_at,
        }
    }
}

/// The labels of a member in an answer.
pub fn labels_shown(labels: &Labels) -> BTreeMap<String, String> {
    labels.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
}

impl From<lease::Holdings> for Holdings {
    fn from(holdings: lease::Holdings) -> Self {
        Self { count: holdings.count as u64, digest: format!("{:016x}", holdings.digest) }
    }
}
