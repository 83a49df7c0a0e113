//! The probe of one server: whether traffic may be sent to it.

use std::time::Duration;

use super::{
    credentials,
    error::{ClientError, quote},
    handle::Client,
};
use crate::api::reading::Readiness;

impl Client {
    /// Asks a server whether traffic may be sent to it. Of several servers, only the one is asked whose turn it is, and
    /// only once.
    ///
    /// # Errors
    /// No answer within `patience`, or one that is not tenure's.
    pub async fn ready(&self, patience: Duration) -> Result<Readiness, ClientError> {
        let server = self.servers.current();
        let mut url = server.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().push("readyz");
        }
        let request = || self.connections().get(url.clone()).timeout(patience);
        let response = credentials::send(self.credentials.as_ref(), server, request).await?;
        let status = response.status().as_u16();
        let body = response.bytes().await.map_err(ClientError::from_transport)?;
        match (status, serde_json::from_slice(&body)) {
            // A server that is not ready says why.
            (200 | 503, Ok(readiness)) => Ok(readiness),
            (200, Err(error)) => Err(ClientError::NotUnderstood {
                status,
                problem: error.to_string(),
                body: quote(&body),
            }),
            _ => Err(ClientError::refused(status, &body)),
        }
    }
}
