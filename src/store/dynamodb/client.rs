//! The client of the table, and the meaning of failed requests.
//!
//! Guarantees:
//! - A request is sent once.
//! - A failure counts as refused only if the request was certainly not carried out.
//!
//! Assumes: an endpoint on a loopback address is a test service that takes any credentials.

use std::{error::Error, future::Future, time::Duration};

use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_sdk_dynamodb::{
    config::{Credentials, SharedCredentialsProvider, retry::RetryConfig, timeout::TimeoutConfig},
    error::{DisplayErrorContext, ProvideErrorMetadata, SdkError},
};
use aws_smithy_http_client::{
    Builder,
    tls::{Provider, rustls_provider::CryptoMode},
};

use super::{error::DynamoOpenError, options::Options};
use crate::lease::is_loopback;

/// How long making a connection may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// The highest number of characters of an error's text that are shown.
const MAX_TEXT: usize = 400;

/// Error codes that mean: try later.
const THROTTLED: [&str; 7] = [
    "ThrottlingException",
    "Throttling",
    "ProvisionedThroughputExceededException",
    "RequestLimitExceeded",
    "LimitExceededException",
    "TransactionConflictException",
    "ReplicatedWriteConflictException",
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FailureKind {
    /// The condition of the write does not hold.
    Condition,
    /// Not carried out: never sent, or rejected.
    Refused,
    /// Not carried out, and never will be: the item is too large.
    TooLarge,
    /// Not carried out: too many requests.
    Throttled,
    /// Not carried out: the table does not exist.
    Gone,
    /// Carried out, or not: the outcome is unknown.
    Unknown,
}

#[derive(Debug)]
pub(super) struct Failure<E> {
    pub kind: FailureKind,
    pub why: String,
    pub service: Option<E>,
}

/// The clients of DynamoDB and of its streams, for one table.
#[derive(Clone, Debug)]
pub(super) struct Client {
    pub db: aws_sdk_dynamodb::Client,
    pub streams: aws_sdk_dynamodbstreams::Client,
    pub table: String,
    pub timeout: Duration,
}

impl Client {
    /// Makes the clients from the settings. What the settings leave out comes from the usual chain of AWS.
    pub async fn new(options: &Options) -> Result<Self, DynamoOpenError> {
        let local = options.endpoint.as_deref().is_some_and(is_stand_in);
        let http = if local {
            // Plain HTTP needs neither certificates nor a proxy.
            Builder::new().build_http()
        } else {
            let provider = Provider::Rustls(CryptoMode::Ring);
            Builder::new().tls_provider(provider).build_https()
        };
        let timeouts = TimeoutConfig::builder().connect_timeout(CONNECT_TIMEOUT).build();
        let mut loader = aws_config::defaults(BehaviorVersion::latest())
            .http_client(http)
            .retry_config(RetryConfig::disabled())
            .timeout_config(timeouts);
        if let Some(region) = &options.region {
            loader = loader.region(Region::new(region.clone()));
        } else if local {
            loader = loader.region(Region::new(
                std::env::var("AWS_REGION").unwrap_or_else(|_| "us-east-1".to_owned()),
            ));
        }
        if let Some(endpoint) = &options.endpoint {
            loader = loader.endpoint_url(endpoint);
        }
        if local && std::env::var_os("AWS_ACCESS_KEY_ID").is_none() {
            let any = Credentials::new("local", "local", None, None, "tenure");
            loader = loader.credentials_provider(SharedCredentialsProvider::new(any));
        }
        let config: SdkConfig = loader.load().await;
        if config.region().is_none() {
            return Err(DynamoOpenError::NoRegion);
        }
        Ok(Self {
            db: aws_sdk_dynamodb::Client::new(&config),
            streams: aws_sdk_dynamodbstreams::Client::new(&config),
            table: options.table.clone(),
            timeout: options.request_timeout,
        })
    }

    /// Sends one request, once, and waits for its answer as long as the settings allow.
    pub async fn send<T, E>(
        &self,
        what: &str,
        request: impl Future<Output = Result<T, SdkError<E>>>,
    ) -> Result<T, Failure<E>>
    where
        E: ProvideErrorMetadata + Error + Send + Sync + 'static,
    {
        match tokio::time::timeout(self.timeout, request).await {
            Ok(Ok(reply)) => Ok(reply),
            Ok(Err(error)) => Err(classify(what, error)),
            Err(_) => {
                let why = format!("{what}: no answer within {:?}", self.timeout);
                Err(Failure { kind: FailureKind::Unknown, why, service: None })
            }
        }
    }
}

fn is_stand_in(endpoint: &str) -> bool {
    endpoint.starts_with("http://") && is_loopback(endpoint)
}

fn classify<E>(what: &str, error: SdkError<E>) -> Failure<E>
where
    E: ProvideErrorMetadata + Error + Send + Sync + 'static,
{
    let status = error.raw_response().map(|raw| raw.status().as_u16());
    let kind = match &error {
        SdkError::ConstructionFailure(_) => FailureKind::Refused,
        SdkError::DispatchFailure(_) if was_refused(&error) => FailureKind::Refused,
        SdkError::ServiceError(service)
            if is_too_large(service.err().code(), service.err().message()) =>
        {
            FailureKind::TooLarge
        }
        SdkError::ServiceError(service) => kind_of(service.err().code(), status),
        _ => FailureKind::Unknown,
    };
    let said = match &error {
        SdkError::ServiceError(service) => {
            let code = service.err().code().unwrap_or("an error");
            format!("{code}, {}", service.err().message().unwrap_or("without a message"))
        }
        other => DisplayErrorContext(other).to_string(),
    };
    let said: String = said.chars().take(MAX_TEXT).collect();
    Failure { kind, why: format!("{what}: {said}"), service: error.into_service_error_if_any() }
}

/// Whether the service refused an item for its size. No code says so, only the text.
fn is_too_large(code: Option<&str>, message: Option<&str>) -> bool {
    code == Some("ValidationException")
        && message.is_some_and(|message| message.to_ascii_lowercase().contains("item size"))
}

fn kind_of(code: Option<&str>, status: Option<u16>) -> FailureKind {
    match (code, status) {
        (Some("ConditionalCheckFailedException"), _) => FailureKind::Condition,
        (Some("ResourceNotFoundException"), _) => FailureKind::Gone,
        (Some(code), _) if THROTTLED.contains(&code) => FailureKind::Throttled,
        (_, Some(429)) => FailureKind::Throttled,
        (_, Some(400..=499)) => FailureKind::Refused,
        _ => FailureKind::Unknown,
    }
}

/// Whether the connection was refused. Then nobody read the request.
fn was_refused(error: &(dyn Error + 'static)) -> bool {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(io) = error.downcast_ref::<std::io::Error>()
            && io.kind() == std::io::ErrorKind::ConnectionRefused
        {
            return true;
        }
        next = error.source();
    }
    false
}

/// The service's own error, if there is one.
trait IntoService<E> {
    fn into_service_error_if_any(self) -> Option<E>;
}

impl<E> IntoService<E> for SdkError<E> {
    fn into_service_error_if_any(self) -> Option<E> {
        match self {
            Self::ServiceError(context) => Some(context.into_err()),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_certainly_not_carried_out_is_refused() {
        assert_eq!(
            kind_of(Some("ConditionalCheckFailedException"), Some(400)),
            FailureKind::Condition
        );
        assert_eq!(kind_of(Some("ThrottlingException"), Some(400)), FailureKind::Throttled);
        assert_eq!(kind_of(Some("RequestLimitExceeded"), Some(400)), FailureKind::Throttled);
        assert_eq!(kind_of(Some("ResourceNotFoundException"), Some(400)), FailureKind::Gone);
        assert_eq!(kind_of(Some("AccessDeniedException"), Some(400)), FailureKind::Refused);
        assert_eq!(kind_of(None, Some(429)), FailureKind::Throttled);
        assert_eq!(kind_of(Some("InternalServerError"), Some(500)), FailureKind::Unknown);
        assert_eq!(kind_of(None, Some(503)), FailureKind::Unknown);
        assert_eq!(kind_of(None, Some(200)), FailureKind::Unknown);
    }

    #[test]
    fn an_item_that_is_too_large_is_told_from_other_faults_of_a_request() {
        let invalid = Some("ValidationException");
        let large = Some("Item size has exceeded the maximum allowed size");
        assert!(is_too_large(invalid, large));
        assert!(!is_too_large(invalid, Some("The provided key element does not match")));
        assert!(!is_too_large(Some("ThrottlingException"), large));
        assert!(!is_too_large(invalid, None));
    }

    #[test]
    fn only_a_loopback_address_over_plain_http_is_a_stand_in() {
        assert!(is_stand_in("http://127.0.0.1:8000"));
        assert!(!is_stand_in("https://127.0.0.1:8000"));
        assert!(!is_stand_in("http://dynamodb.internal"));
    }
}
