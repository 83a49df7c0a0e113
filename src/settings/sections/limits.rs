//! `[limits]`: bounds on what callers may request and hold.

use std::{ops::RangeInclusive, time::Duration};

use super::super::{
    table::section,
    units::{ByteSize, DAY, in_one_unit},
};

/// The allowed bounds of a ttl.
pub(in crate::settings) const TTLS: RangeInclusive<Duration> =
    Duration::from_millis(10)..=Duration::from_secs(366 * 86_400);
/// The allowed limits on the number of keys.
pub(in crate::settings) const NUMBERS_OF_KEYS: RangeInclusive<u64> = 1..=1_000_000_000;

section! {
    /// The section `[limits]`: bounds on what callers may request and hold.
    pub struct Limits {
        /// Minimum ttl that a caller may request. A shorter one is refused, never clamped.
        ttl_min: Duration = Duration::from_millis(100), in TTLS, if min_above_max;
        /// Maximum ttl that a caller may request. A longer one is refused, never clamped.
        ttl_max: Duration = DAY, in TTLS;
        /// Maximum number of keys in the store, and likewise of sessions. Free keys count, because their token must
        /// never go back. A session counts until five minutes after its end. Coordinators of a shared store that add
        /// keys at the same moment may exceed it slightly.
        keys: u64 = 5_000_000, in NUMBERS_OF_KEYS;
        /// Maximum number of callers that wait in the queue of one key.
        waiters_per_key: usize = 10_000, in 1..=1_000_000;
        /// Maximum number of places in the queues of all keys: one for each key that a caller waits for. A place takes
        /// about 400 bytes. A caller that needs more gets a 429 and can retry. One principal of the access file has at
        /// most half of them.
        waiting_places: usize = 200_000, in 1..=100_000_000;
        /// Maximum number of connections per client address (for IPv6, per /64 network). More are closed at once. 0: no
        /// limit. All callers behind one proxy share it.
        connections_per_address: usize = 0, in 0..=1_000_000;
        /// Maximum number of calls per second from one client address (for IPv6, per /64 network) by callers without a
        /// principal. A call about many leases counts one for each. More are refused with a 429 rate-limited and a
        /// Retry-After. Probes cost nothing. Principals have limits of their own in the access file. 0: no limit.
        rate_per_address: u32 = 0, in 0..=1_000_000;
        /// Maximum memory for the request bodies that are being read or processed. The first 8 KiB of each body do not
        /// count, and heartbeats and releases have an additional eighth. One principal, or one address of callers without
        /// a principal, has at most half of both. A caller that needs more gets a 503 too-many-bodies and can retry.
        body_bytes: ByteSize = ByteSize::mib(64), in ByteSize::mib(2)..=ByteSize::mib(1 << 20);
        /// How late an HTTP worker thread may run, all the time, before it sheds load: it refuses new acquires, new
        /// sessions, lists and event streams with a 503 overloaded and a Retry-After, until it has caught up. It always
        /// serves heartbeats, releases, checks, probes and the orders of administrators. 0s: no limit.
        shed_lag: Duration = Duration::from_millis(50), in Duration::ZERO..=Duration::from_secs(60);
        /// How many writes may wait for the store before load is shed in the same way. 0: no limit.
        shed_writes: usize = 16_384, in 0..=100_000_000;
        /// Maximum weight that a pool member may request, relative to a member of weight 1.
        weight: u32 = 1000, in 1..=1_000_000;
        /// Maximum number of calls in progress for one key, without waiting ones. More are refused and can retry, so
        /// that one busy key does not starve the others.
        inflight_per_key: usize = 1024, in 1..=1_000_000;
        /// Maximum wait that a caller may request.
        wait_max: Duration = Duration::from_secs(600), in Duration::ZERO..=DAY;
        /// Maximum number of subscribers of the event stream.
        subscribers: usize = 2048, in 1..=1_000_000;
        /// Maximum number of open streams (GET /v1/stream). A client that gets none uses plain calls.
        streams: usize = 10_000, in 0..=1_000_000;
        /// Maximum number of calls in flight of one stream. More are refused with a 429, by their ids. Heartbeats and
        /// releases have as many again; beyond that, the coordinator reads no more until one is answered.
        stream_calls: usize = 128, in 1..=10_000;
        /// Whether to grant only keys whose prefix a [[policy]] names. Others are refused with a 400, so that a
        /// mistyped name, or a name generated for each job, leaves no key behind.
        strict_prefixes: bool = false;
        /// Whether a session may name a program that this coordinator runs, as its own user, to check the session.
        /// Anyone who can reach the API can then run any program: leave it off unless that is acceptable.
        exec_checks: bool = false;
    }
}

fn min_above_max(limits: &Limits) -> Option<String> {
    let [min, max] = [limits.ttl_min, limits.ttl_max].map(in_one_unit);
    let above = limits.ttl_min > limits.ttl_max;
    above.then(|| format!("is {min}, more than limits.ttl_max, which is {max}"))
}
