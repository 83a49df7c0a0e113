//! The certificates that a client showed, judged again for as long as its connection is open.
//!
//! Guarantees: a chain holds while each certificate that its proof needs is within its validity, and while the
//! authorities and revocation lists in effect accept it. A resumed session is judged like a new one: a ticket proves
//! that the chain was accepted once, and not that it still is.
//!
//! Does not guarantee: that a wall clock that is wrong ends a chain in time. Validity is a matter of the wall clock, as in
//! a handshake. A chain whose end a step of the clock brings nearer ends, and one whose end it moves away holds again.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use rustls::pki_types::CertificateDer;

use super::{
    expiry::{Validity, validity},
    served::Served,
};

/// The longest time after a change of authorities or lists until a chain of an idle caller is judged again. Chains are
/// spread over this time, because each judgement verifies signatures on a thread that serves heartbeats.
const SPREAD_MS: u64 = 1000;

/// The facts before a handshake begins.
#[derive(Clone, Copy, Debug)]
pub struct Before {
    /// The number of the authorities and lists in effect.
    pub trust: u64,
    /// The reading of the wall clock, in milliseconds since 1970.
    pub wall_ms: u64,
}

/// The chain of a client, which the handshake verified.
pub struct ClientChain {
    chain: Vec<CertificateDer<'static>>,
    /// The time in which each certificate is valid, in milliseconds since 1970. The second is the first that is too late.
    periods: Vec<(u64, u64)>,
    served: Arc<Served>,
    judged: Mutex<Judged>,
}

/// A judgement, and for how long it stands.
#[derive(Clone, Copy, Debug)]
struct Judged {
    holds: bool,
    trust: u64,
    /// Between these times, no certificate of the chain begins or ends to be valid.
    from_ms: u64,
    until_ms: u64,
}

impl ClientChain {
    /// The chain of a handshake, or of the session that it resumed; `None` if a certificate of it is malformed.
    #[must_use]
    pub fn new(
        chain: &[CertificateDer<'_>],
        served: Arc<Served>,
        before: Before,
        is_resumed: bool,
    ) -> Option<Self> {
        let periods: Option<Vec<Validity>> = chain.iter().map(|der| validity(der)).collect();
        let to_ms = |Validity { from, until }| (ms(from), ms(until.saturating_add(1)));
        let periods: Vec<(u64, u64)> = periods?.into_iter().map(to_ms).collect();
        let chain = chain.iter().map(|der| der.clone().into_owned()).collect();
        // A handshake that resumes a session verifies no validity.
        let (from_ms, until_ms) =
            if is_resumed { (u64::MAX, 0) } else { around(&periods, before.wall_ms) };
        let judged = Judged { holds: true, trust: before.trust, from_ms, until_ms };
        Some(Self { chain, periods, served, judged: Mutex::new(judged) })
    }

    /// Whether the chain proves something at this time.
    pub fn holds(&self, wall_ms: u64) -> bool {
        self.judge(wall_ms).holds
    }

    /// When the judgement of this moment ends to stand, in milliseconds since 1970.
    pub fn until_ms(&self, wall_ms: u64) -> u64 {
        self.judge(wall_ms).until_ms
    }

    /// Resolves after the authorities or lists have changed since the last judgement.
    pub async fn trust_changed(&self) {
        let seen = self.judged.lock().unwrap_or_else(PoisonError::into_inner).trust;
        self.served.trust_changed(seen).await;
        // The end of a signature is as good as random.
        let last = self.chain.first().and_then(|leaf| leaf.last_chunk::<2>());
        let place = u64::from(u16::from_be_bytes(*last.unwrap_or(&[0; 2])));
        tokio::time::sleep(Duration::from_millis((place * SPREAD_MS) >> 16)).await;
    }

    fn judge(&self, wall_ms: u64) -> Judged {
        let mut judged = self.judged.lock().unwrap_or_else(PoisonError::into_inner);
        let trust = self.served.trust();
        let stands = (judged.from_ms..judged.until_ms).contains(&wall_ms);
        if trust == judged.trust && stands {
            return *judged;
        }
        let valid = |(from, until): &(u64, u64)| (*from..*until).contains(&wall_ms);
        // The session was verified under these authorities and lists.
        let is_same = trust == judged.trust && judged.holds;
        let holds = self.periods.first().is_some_and(valid)
            && ((is_same && self.periods.iter().all(valid))
                || self.served.trusts(&self.chain, wall_ms));
        let (from_ms, until_ms) = around(&self.periods, wall_ms);
        *judged = Judged { holds, trust, from_ms, until_ms };
        *judged
    }
}

fn ms(seconds: u64) -> u64 {
    seconds.saturating_mul(1000)
}

/// The span around this time in which no certificate begins or ends to be valid.
fn around(periods: &[(u64, u64)], wall_ms: u64) -> (u64, u64) {
    let edges = || periods.iter().flat_map(|(from, until)| [*from, *until]);
    let from = edges().filter(|edge| *edge <= wall_ms).max().unwrap_or(0);
    let until = edges().filter(|edge| *edge > wall_ms).min().unwrap_or(u64::MAX);
    (from, until)
}
