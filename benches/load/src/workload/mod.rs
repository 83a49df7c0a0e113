//! What can be measured: one file per workload.

mod access;
mod acquire_release;
mod batch;
mod churn;
mod contended;
pub mod echo;
mod expiry;
mod fanout;
mod heartbeat;
mod heartbeat_stream;
mod held;
mod hold;
mod peers;
mod permits;
mod routers;
mod sessions;
mod start;
mod stream_notice;

use std::fmt;

use anyhow::Result;
use clap::ValueEnum;
use tenure::client::{Acquire, AcquireAny, Owner};

use crate::lab::Lab;
use crate::report::Outcome;
use crate::server::Echo;
use peers::Work;
use routers::Follower;

/// What can be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Workload {
    /// Acquire and release distinct keys, one per request.
    AcquireRelease,
    /// Acquire and release distinct keys, a batch per request.
    AcquireReleaseBatch,
    /// Heartbeats of held leases, one per request.
    Heartbeat,
    /// Heartbeats of held leases, a batch per request.
    HeartbeatBatch,
    /// Heartbeats of held leases by streams, 16 in flight per connection.
    HeartbeatStream,
    /// The same, a batch per call.
    HeartbeatStreamBatch,
    /// Time from a revocation to the notice that its holder gets by a stream.
    StreamNotice,
    /// Time from a change of a key's owner until routers know it, and the time of a lookup.
    Routers,
    /// The same until the bytes reach a connection, without the work of a router.
    RouterStreams,
    /// Heartbeats to a coordinator that asks for nothing, one that asks for a token, and one that asks for TLS as
    /// well, in turns.
    HeartbeatAccess,
    /// Many clients queue for few keys.
    Contended,
    /// Many clients queue for the permits of one key, in turns with plain keys.
    Permits,
    /// Memory of very many held leases.
    Held,
    /// Many leases under few sessions: heartbeats, memory, and a session that ends.
    Sessions,
    /// Leases that expire at one instant.
    Expiry,
    /// Leases whose ends are spread over one second.
    ExpirySpread,
    /// Ownership changes to many event subscribers.
    Fanout,
    /// Time from start to ready with a full store.
    Start,
    /// Size of the store after very many changes.
    Churn,
    /// The bare echo handler alone.
    Echo,
    /// The echo handler that makes each request durable, alone.
    DurableEcho,
    /// Acquire and release distinct keys, in turns with the echoes and with those of `--peers`.
    AcquireReleasePeers,
    /// The same beside a million held leases.
    AcquireReleasePeersFull,
    /// Heartbeats of a thousand held leases, in turns with the echo and with those of `--peers`.
    HeartbeatPeers,
    /// The same of a million held leases.
    HeartbeatPeersFull,
    /// Many clients want few keys, in turns with those of `--peers`.
    ContendedPeers,
    /// Ownership changes to many subscribers, in turns with those of `--peers`.
    FanoutPeers,
    /// Leases that expire at one instant, in turns with those of `--peers`.
    ExpiryPeers,
    /// All of these, but for those beside peers.
    All,
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.to_possible_value().as_ref().map_or("", |value| value.get_name()))
    }
}

impl Workload {
    /// The connections that it is measured with unless told otherwise.
    pub fn default_connections(self) -> &'static [usize] {
        match self {
            Self::AcquireRelease | Self::HeartbeatAccess => &[64, 512],
            Self::AcquireReleasePeers => &[1, 64, 256, 512],
            Self::AcquireReleasePeersFull => &[64, 256, 512],
            Self::HeartbeatPeers | Self::HeartbeatPeersFull => &[64, 256, 1_000],
            Self::Heartbeat | Self::HeartbeatStream => &[64],
            Self::Contended | Self::ContendedPeers | Self::Permits | Self::Sessions => &[64],
            Self::Echo | Self::DurableEcho => &[64],
            Self::Fanout | Self::FanoutPeers => &[100],
            _ => &[4],
        }
    }

    /// Whether others take turns with the coordinator.
    pub fn has_peers(self) -> bool {
        matches!(
            self,
            Self::AcquireReleasePeers
                | Self::AcquireReleasePeersFull
                | Self::HeartbeatPeers
                | Self::HeartbeatPeersFull
                | Self::ContendedPeers
                | Self::FanoutPeers
                | Self::ExpiryPeers
        )
    }

    /// Whether it needs the echo handlers.
    pub fn needs_echo(self) -> bool {
        self.has_peers() || matches!(self, Self::Echo | Self::DurableEcho)
    }

    /// Measures it.
    pub async fn measure(self, lab: &Lab, connections: usize) -> Result<Outcome> {
        let beside_peers = |work, held| peers::measure(lab, connections, work, held);
        match self {
            Self::AcquireRelease => acquire_release::measure(lab, connections).await,
            Self::AcquireReleaseBatch => batch::measure(lab, connections).await,
            Self::Heartbeat => heartbeat::measure(lab, connections, 1).await,
            Self::HeartbeatBatch => {
                let leases = lab.args.batch as usize;
                heartbeat::measure(lab, connections, leases).await
            }
            Self::HeartbeatStream => heartbeat_stream::measure(lab, connections, 1).await,
            Self::HeartbeatStreamBatch => {
                let leases = lab.args.batch as usize;
                heartbeat_stream::measure(lab, connections, leases).await
            }
            Self::StreamNotice => stream_notice::measure(lab, connections).await,
            Self::Routers => routers::measure(lab, connections, Follower::Router).await,
            Self::RouterStreams => routers::measure(lab, connections, Follower::Stream).await,
            Self::HeartbeatAccess => access::measure(lab, connections).await,
            Self::Contended => contended::measure(lab, connections).await,
            Self::Permits => permits::measure(lab, connections).await,
            Self::Sessions => sessions::measure(lab, connections).await,
            Self::Held => held::measure(lab, connections).await,
            Self::Expiry => expiry::measure(lab, connections, expiry::Ends::AtOnce).await,
            Self::ExpirySpread => expiry::measure(lab, connections, expiry::Ends::Spread).await,
            Self::Fanout => fanout::measure(lab, connections).await,
            Self::Start => start::measure(lab, connections).await,
            Self::Echo => echo::measure(lab, connections, Echo::Plain).await,
            Self::DurableEcho => echo::measure(lab, connections, Echo::Durable).await,
            Self::AcquireReleasePeers => beside_peers(Work::Cycles, 0).await,
            Self::AcquireReleasePeersFull => beside_peers(Work::Cycles, held::LEASES).await,
            Self::HeartbeatPeers => beside_peers(Work::Heartbeats, heartbeat::LEASES).await,
            Self::HeartbeatPeersFull => beside_peers(Work::Heartbeats, held::LEASES).await,
            Self::ContendedPeers => beside_peers(Work::HandOffs, 0).await,
            Self::FanoutPeers => peers::fanout::measure(lab, connections).await,
            Self::ExpiryPeers => peers::expiry::measure(lab, connections).await,
            Self::Churn | Self::All => churn::measure(lab, connections).await,
        }
    }
}

/// The body of an acquire.
fn acquire(key: String, owner: &str, ttl_ms: u64) -> Acquire {
    let owner = Owner { owner: owner.to_owned(), ttl_ms: Some(ttl_ms), session: None };
    Acquire { key, owner, ..Acquire::default() }
}

/// The body of an acquire-any of all the `size` keys of batch `batch`.
fn acquire_batch(prefix: &str, batch: u64, size: u32, ttl_ms: u64) -> AcquireAny {
    let first = batch * u64::from(size);
    AcquireAny {
        keys: (first..first + u64::from(size)).map(|n| format!("{prefix}/{n:08}")).collect(),
        owner: Owner { owner: "bench".to_owned(), ttl_ms: Some(ttl_ms), session: None },
        count: Some(size.into()),
        order: Some("listed".to_owned()),
        ..AcquireAny::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_names_the_keys_that_follow_those_of_the_one_before() {
        let body = serde_json::to_string(&acquire_batch("p", 3, 2, 60)).unwrap();
        let wanted = r#"{"keys":["p/00000006","p/00000007"],"owner":"bench","ttl_ms":60,"count":2,"order":"listed"}"#;
        assert_eq!(body, wanted);
    }
}
