//! Reads the bodies of requests, strictly.
//!
//! Guarantees: a body is buffered as it arrives, within the bound of its call and the budget of all bodies.

use std::{future::Future, pin::Pin, rc::Rc};

use actix_web::{FromRequest, HttpMessage as _, HttpRequest, dev::Payload, web};
use bytes::Bytes;
use serde::{Deserialize, de::DeserializeOwned};

use super::{
    whole,
    words::{self, quoted},
};
use crate::api::Object;
use crate::http::{
    answer::Problem,
    app::App,
    caller::{Caller, Payer, Within},
    door::{self, BODY_TIMEOUT, Budget, Buffer, FREE, Seat},
    peer::Sealed,
};
use crate::telemetry::audit::{Ordered, Subject};

/// The largest body of a call about one lease or one session, in bytes. It has room for a value of 16 KiB of which each
/// byte is escaped, and as much again for the rest.
pub const SINGLE_BODY_BYTES: usize = 128 * 1024;
/// The largest body of a call about many leases, in bytes.
pub const BATCH_BODY_BYTES: usize = 1024 * 1024;

/// The bounds of a call's body.
pub trait Bounded {
    /// Its largest length in bytes.
    const MOST: usize = SINGLE_BODY_BYTES;
    /// Whether others depend on the call. Such a call is served while other calls are refused.
    const IS_VITAL: bool = false;

    /// What the audit log says that the call is about.
    fn subject(&self) -> Option<Subject> {
        None
    }

    /// What the audit log says that the call orders, and why.
    fn ordered(&self) -> Ordered {
        Ordered::default()
    }
}

/// A JSON body. Unknown and duplicate fields, wrong types and excess content are refused.
///
/// The bytes are kept, so that the call can be forwarded to the lease's home node.
pub struct Body<T>(pub T, pub Bytes);

/// A [`Body`] that may be absent.
pub struct OptionalBody<T>(pub T, pub Bytes);

type Reading<T> = Pin<Box<dyn Future<Output = Result<T, Problem>>>>;

impl<T: Bounded + DeserializeOwned + 'static> FromRequest for Body<T> {
    type Error = Problem;
    type Future = Reading<Self>;

    fn from_request(request: &HttpRequest, payload: &mut Payload) -> Self::Future {
        read::<T, _>(request, payload, |request, bytes| {
            let body: T = parse(&bytes)?;
            let (subject, ordered) = (body.subject(), body.ordered());
            let mut extensions = request.extensions_mut();
            if let Some(subject) = subject {
                extensions.insert(subject);
            }
            if ordered.action.is_some() || ordered.reason.is_some() {
                extensions.insert(ordered);
            }
            drop(extensions);
            Ok(Self(body, bytes))
        })
    }
}

impl<T: Bounded + DeserializeOwned + Default + 'static> FromRequest for OptionalBody<T> {
    type Error = Problem;
    type Future = Reading<Self>;

    fn from_request(request: &HttpRequest, payload: &mut Payload) -> Self::Future {
        read::<T, _>(request, payload, |_, bytes| Ok(Self(parse_optional(&bytes)?, bytes)))
    }
}

/// Parses the content of a [`Body`].
pub fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    read_json::<Object<T>>(bytes, |bytes| explain::<Object<T>>(bytes)).map(|Object(body)| body)
}

/// Parses the content of an [`OptionalBody`].
pub fn parse_optional<T: DeserializeOwned + Default>(bytes: &[u8]) -> Result<T, Problem> {
    if bytes.is_empty() {
        return Ok(T::default());
    }
    let read = read_json::<Option<Object<T>>>(bytes, |bytes| explain::<Object<T>>(bytes))?;
    Ok(read.map_or_else(T::default, |Object(body)| body))
}

fn read_json<T: DeserializeOwned>(
    bytes: &[u8],
    explain: impl Fn(&[u8]) -> Problem,
) -> Result<T, Problem> {
    serde_json::from_slice(bytes).or_else(|_| {
        let rewritten = whole::in_digits(bytes).and_then(|text| serde_json::from_slice(&text).ok());
        rewritten.ok_or_else(|| explain(bytes))
    })
}

fn read<T: Bounded, R>(
    request: &HttpRequest,
    payload: &mut Payload,
    parse: impl FnOnce(&HttpRequest, Bytes) -> Result<R, Problem> + 'static,
) -> Reading<R> {
    let mut payload = payload.take();
    let request = request.clone();
    Box::pin(async move {
        let read = async {
            let bytes = gather::<T>(&request, &mut payload);
            let bytes = actix_web::rt::time::timeout(BODY_TIMEOUT, bytes).await;
            let bytes = bytes.unwrap_or_else(|_| Err(Problem::too_slow(BODY_TIMEOUT)));
            if let (Err(_), Some(seat)) = (&bytes, request.conn_data::<Rc<Seat>>()) {
                seat.refuse(payload);
            }
            let bytes = bytes?;
            if !Within::is(&request) {
                Caller::of(&request).sends(bytes.len());
            }
            if request.extensions().get::<Sealed>().is_some_and(|sealed| !sealed.has(&bytes)) {
                return Err(Problem::forged_header());
            }
            parse(&request, bytes)
        };
        // The request does not reach the handler that would put its ids on the answer.
        read.await.map_err(|problem| problem.answering(&request))
    })
}

/// Reads the whole body. A short body that arrives in one piece, like that of a heartbeat, is not copied.
async fn gather<T: Bounded>(
    request: &HttpRequest,
    payload: &mut Payload,
) -> Result<Bytes, Problem> {
    let length = door::length(request);
    if length > T::MOST {
        return Err(Problem::too_large(T::MOST));
    }
    let Some(first) = chunk(request, payload, length).await? else { return Ok(Bytes::new()) };
    if first.len() > T::MOST {
        return Err(Problem::too_large(T::MOST));
    }
    let left = |read: usize| length.saturating_sub(read);
    let mut next = None;
    // A stream has counted its message, which comes in one piece.
    if first.len() <= FREE || Within::is(request) {
        next = chunk(request, payload, left(first.len())).await?;
        if next.is_none() {
            return Ok(first);
        }
    }
    let app = request.app_data::<web::Data<App>>();
    let bodies = app.map_or_else(|| Budget::new(2 * T::MOST), |app| app.bodies.clone());
    let mut buffer = Buffer::new(bodies, Payer::of_request(request), T::IS_VITAL);
    // A piece counts before the next one is waited for.
    buffer.add(&first)?;
    drop(first);
    loop {
        let Some(bytes) = next else {
            next = chunk(request, payload, left(buffer.len())).await?;
            if next.is_none() {
                return Ok(buffer.freeze());
            }
            continue;
        };
        if buffer.len() + bytes.len() > T::MOST {
            return Err(Problem::too_large(T::MOST));
        }
        buffer.add(&bytes)?;
        next = None;
    }
}

/// Reads the next piece of a body, of which `left` bytes are still to come, if that is known.
async fn chunk(
    request: &HttpRequest,
    payload: &mut Payload,
    left: usize,
) -> Result<Option<Bytes>, Problem> {
    let chunk = door::chunk(request, payload, left).await;
    chunk.transpose().map_err(|error| Problem::malformed(error.to_string(), None))
}

/// Says what is wrong with a document that cannot be read as a `T`, and where. It is parsed a second time for this, so
/// that the first parsing can be fast.
pub fn explain<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Problem {
    if bytes.is_empty() {
        return Problem::malformed("the body is empty; a JSON object is expected".into(), None);
    }
    let mut json = serde_json::Deserializer::from_slice(bytes);
    match serde_path_to_error::deserialize::<_, T>(&mut json) {
        Ok(_) => Problem::malformed("there is more after the JSON object".into(), None),
        Err(error) => {
            let path = error.path().to_string();
            let detail = error.into_inner().to_string();
            let missing = quoted(&detail).filter(|_| detail.starts_with("missing"));
            let field = match (path.as_str(), missing) {
                (".", None) => quoted(&detail),
                (".", missing) => missing,
                (path, Some(name)) => Some(format!("{path}.{name}")),
                (path, None) => Some(path.to_owned()),
            };
            Problem::malformed(words::of_body(&detail), field)
        }
    }
}
