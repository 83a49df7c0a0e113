//! The yardstick of the NATS store: bare compare-and-set publishes to the same server, as many at a
//! time as there are connections.

use std::time::Duration;

use anyhow::{Context as _, Result};
use async_nats::{
    HeaderMap,
    header::NATS_EXPECTED_LAST_SUBJECT_SEQUENCE,
    jetstream::{self, stream},
};
use futures_util::future::join_all;

use crate::stopwatch::{nonce, tick};

/// About the size of a lease's message.
const PAYLOAD: [u8; 256] = [b'x'; 256];
/// As many versions of a subject as a bucket keeps.
const KEPT: i64 = 16;

/// Publishes for `span` with `writers` writers, each to a subject of its own; gives the rate per second.
pub async fn rate(url: &str, writers: usize, span: Duration) -> Result<f64> {
    let client = async_nats::connect(url).await.with_context(|| format!("--raw-nats {url}"))?;
    let context = jetstream::new(client);
    let name = format!("tenure-load-{}", nonce());
    let stream = stream::Config {
        name: name.clone(),
        subjects: vec![format!("{name}.>")],
        storage: stream::StorageType::File,
        max_messages_per_subject: KEPT,
        ..stream::Config::default()
    };
    context.create_stream(stream).await.context("a stream to measure with")?;
    let until = tick() + span;
    let written =
        join_all((0..writers).map(|n| write(&context, format!("{name}.{n}"), until))).await;
    let removed = context.delete_stream(&name).await;
    let written: Result<Vec<u64>> = written.into_iter().collect();
    removed.context("the stream to measure with stays behind")?;
    Ok(written?.into_iter().sum::<u64>() as f64 / span.as_secs_f64())
}

async fn write(
    context: &jetstream::Context,
    subject: String,
    until: std::time::Instant,
) -> Result<u64> {
    let (mut written, mut last) = (0, 0);
    while tick() < until {
        let mut headers = HeaderMap::new();
        headers.insert(NATS_EXPECTED_LAST_SUBJECT_SEQUENCE, last.to_string());
        let payload = PAYLOAD.to_vec().into();
        let sent = context.publish_with_headers(subject.clone(), headers, payload).await?;
        last = sent.await?.sequence;
        written += 1;
    }
    Ok(written)
}
