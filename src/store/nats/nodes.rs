//! The nodes' records.

use std::{collections::BTreeSet, sync::Arc};

use async_nats::{HeaderMap, jetstream::stream::Stream};
use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt, stream};
use tokio::time::timeout;

use super::{
    super::{FoundNode, NodeOutcome, StoreError},
    core::Core,
    link::{Last, Link, Sent, unavailable},
    message::malformed,
    meta::removal_headers,
    subject::Name,
};
use crate::lease::{NodeRecord, Nonce, Revision};

/// How many records are read at once.
const READS: usize = 64;

/// One node's record, from the stream's leader.
pub(super) async fn read(link: &Link, node: Nonce) -> Result<Option<FoundNode>, StoreError> {
    let last = link.last(&link.subjects.node(node)).await?.filter(|last| !last.removal);
    Ok(last.map(|Last { revision, payload, .. }| FoundNode {
        incarnation: node,
        revision,
        // Another node's record under this name says nothing about this node.
        record: NodeRecord::decode(&payload)
            .and_then(|r| if r.incarnation == node { Ok(r) } else { Err(malformed()) }),
    }))
}

/// Every node's record. The names come from the stream's leader, as the records do.
pub(super) async fn scan(link: &Link) -> Result<Vec<FoundNode>, StoreError> {
    let names = async {
        let mut listed = link.stream.info_with_subjects(link.subjects.all_nodes()).await?;
        let mut nodes = BTreeSet::new();
        while let Some((subject, _)) = listed.try_next().await? {
            if let Name::Node(Some(node)) = link.subjects.name(&subject) {
                nodes.insert(node);
            }
        }
        Ok::<_, async_nats::jetstream::context::RequestError>(nodes)
    };
    let nodes = timeout(link.timeout, names).await;
    let nodes = nodes.map_err(|_| unavailable("the server did not list the nodes in time"))?;
    let nodes = nodes.map_err(unavailable)?;
    let reads = nodes.into_iter().map(|node| read(link, node));
    let found: Vec<_> = stream::iter(reads).buffered(READS).try_collect().await?;
    Ok(found.into_iter().flatten().collect())
}

/// Writes a node's record. Sends it a second time only if the first was refused because of the mark of a removal.
pub(super) async fn write(
    core: Arc<Core>,
    mut expected: Revision,
    node: NodeRecord,
) -> NodeOutcome {
    let subject = core.link.subjects.node(node.incarnation);
    let mut bytes = Vec::with_capacity(256);
    node.encode_into(&mut bytes);
    let payload = Bytes::from(bytes);
    loop {
        match send(&core, &subject, expected, HeaderMap::new(), payload.clone()).await {
            Sent::Stored(revision) => return NodeOutcome::Committed(revision),
            Sent::Refused(why) => return NodeOutcome::Refused(why),
            Sent::Unknown(why) => return NodeOutcome::Unknown(why),
            Sent::WrongLast if expected != Revision::ABSENT => return NodeOutcome::Conflict,
            Sent::WrongLast => match core.link.last(&subject).await {
                Ok(Some(Last { revision, removal: true, .. })) => expected = revision,
                _ => return NodeOutcome::Conflict,
            },
        }
    }
}

/// Removes a node's record. A mark takes its place, and is then removed too.
pub(super) async fn forget(
    core: Arc<Core>,
    node: Nonce,
    expected: Revision,
) -> Result<(), StoreError> {
    let subject = core.link.subjects.node(node);
    match send(&core, &subject, expected, removal_headers(), Bytes::new()).await {
        Sent::Stored(mark) => {
            let swept = sweep(&core.link.stream, &subject, mark);
            // At worst, a mark of a few bytes stays behind.
            let _ = timeout(core.link.timeout, swept).await;
            Ok(())
        }
        Sent::WrongLast => match read(&core.link, node).await? {
            // Another node has removed it.
            None => Ok(()),
            Some(_) => Err(unavailable("the node's record has changed meanwhile")),
        },
        Sent::Refused(why) | Sent::Unknown(why) => Err(why),
    }
}

/// Removes what a subject had up to a sequence. Later writes are not touched.
pub(super) async fn sweep(stream: &Stream<()>, subject: &str, last: Revision) -> bool {
    stream.purge().sequence(last.0 + 1).filter(subject).await.is_ok()
}

async fn send(
    core: &Core,
    subject: &str,
    expected: Revision,
    headers: HeaderMap,
    payload: Bytes,
) -> Sent {
    core.metrics.node_writes.increment(1);
    let sent = core.link.publish(subject.to_owned(), expected, headers, payload).await;
    if let Sent::Stored(revision) = &sent {
        core.saw(revision.0);
    }
    sent
}
