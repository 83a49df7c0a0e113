//! What the server is asked again and again.

use std::time::Duration;

use crate::client::{Client, ClientError, History, LeaseFilter, Leases, Status, Top, TopFilter};

/// How long the screen waits for an answer. The client is more patient, but whoever looks must soon be told.
const PATIENCE: Duration = Duration::from_secs(5);

/// What the screen shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Question {
    pub(super) top: TopFilter,
    pub(super) detail: Option<Detail>,
}

/// What an opened page shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Detail {
    /// What became of this key.
    History(String),
    Leases(LeaseFilter),
}

/// What the server said.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) question: Question,
    pub(super) status: Result<Status, ClientError>,
    pub(super) top: Result<Top, ClientError>,
    /// Only if the question asks for it.
    pub(super) detail: Option<Result<Found, ClientError>>,
}

/// What an opened page shows, as the server said it.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Found {
    History(Box<History>),
    Leases(Leases),
}

/// Asks after a pause.
pub(super) async fn ask(client: Client, question: Question, pause: Duration) -> Answer {
    if !pause.is_zero() {
        tokio::time::sleep(pause).await;
    }
    let (status, top, detail) = tokio::join!(
        in_time(&client, client.status()),
        in_time(&client, client.top(&question.top)),
        detail(&client, question.detail.as_ref())
    );
    Answer { question, status, top, detail }
}

async fn detail(client: &Client, detail: Option<&Detail>) -> Option<Result<Found, ClientError>> {
    Some(match detail? {
        Detail::History(key) => {
            let history = in_time(client, client.history(key, None)).await;
            history.map(|history| Found::History(Box::new(history)))
        }
        Detail::Leases(filter) => in_time(client, client.leases(filter)).await.map(Found::Leases),
    })
}

async fn in_time<T>(
    client: &Client,
    call: impl Future<Output = Result<T, ClientError>>,
) -> Result<T, ClientError> {
    let late = |_| ClientError::NoAnswer { server: client.servers(), silence: PATIENCE };
    tokio::time::timeout(PATIENCE, call).await.map_err(late)?
}
