//! Serves the calls of a stream by the handlers of HTTP.
//!
//! Guarantees: a call passes the door and the handler that the same call by HTTP passes, so both have one meaning and
//! the same documents.

use std::{cell::RefCell, net::SocketAddr, rc::Rc};

use actix_http::Request;
use actix_web::{
    Error, HttpMessage as _,
    body::{BoxBody, MessageBody as _},
    dev::{Payload, ServiceResponse},
    http::{Uri, header},
};
use bytes::Bytes;
use futures_util::future::LocalBoxFuture;

use super::{
    message::Answer,
    operations::{Operation, Parameters},
};
use crate::{
    api::Code,
    http::{
        answer::Problem,
        caller::{Charged, Within},
        following::Following,
        forward::HOME,
    },
};

/// Serves a request within the process.
pub type Serve =
    dyn Fn(Request) -> LocalBoxFuture<'static, Result<ServiceResponse<BoxBody>, Error>>;
/// Makes the service, once for each worker that has a stream.
type Make = dyn Fn() -> LocalBoxFuture<'static, Option<Rc<Serve>>>;

/// What serves the calls of a worker's streams.
pub struct Inside {
    make: Box<Make>,
    made: RefCell<Option<Rc<Serve>>>,
}

impl Inside {
    /// Serves calls by what this makes.
    pub fn new(make: impl Fn() -> LocalBoxFuture<'static, Option<Rc<Serve>>> + 'static) -> Self {
        Self { make: Box::new(make), made: RefCell::new(None) }
    }

    /// What serves calls; `None` if it cannot be made.
    pub async fn serve(&self) -> Option<Rc<Serve>> {
        if let Some(made) = &*self.made.borrow() {
            return Some(made.clone());
        }
        let made = (self.make)().await?;
        *self.made.borrow_mut() = Some(made.clone());
        Some(made)
    }
}

/// Makes the calls of one stream.
pub struct Calls {
    pub serve: Rc<Serve>,
    pub within: Within,
    pub following: Following,
    /// The address of the client.
    pub peer: Option<SocketAddr>,
}

impl Calls {
    /// Makes a call, and answers it. The stream has charged the caller for it.
    pub async fn make(
        self: Rc<Self>,
        id: u64,
        operation: &'static Operation,
        parameters: Parameters,
        body: Bytes,
        charged: Charged,
    ) -> Answer {
        let request = match self.request(operation, parameters, body, charged) {
            Ok(request) => request,
            Err(problem) => return Answer::problem(id, &problem),
        };
        match (self.serve)(request).await {
            Ok(response) => answer(id, response),
            // The door and the handlers answer with documents, and never fail.
            Err(error) => {
                Answer::problem(id, &Problem::of(Code::Internal, error.to_string()).retry(1000))
            }
        }
    }

    fn request(
        &self,
        operation: &Operation,
        parameters: Parameters,
        body: Bytes,
        charged: Charged,
    ) -> Result<Request, Problem> {
        let target = operation.target(parameters)?;
        let uri: Uri = target.parse().map_err(|_| {
            let detail = "the parameters are too long for the target of a request";
            Problem::malformed(detail.into(), None)
        })?;
        let mut request = Request::with_payload(Payload::from(body));
        let head = request.head_mut();
        head.method = operation.method.clone();
        head.uri = uri;
        head.peer_addr = self.peer;
        let caller = self.within.caller.clone().charged(charged);
        request.extensions_mut().insert(Within { caller, uid: self.within.uid });
        request.extensions_mut().insert(self.following.clone());
        Ok(request)
    }
}

fn answer(id: u64, response: ServiceResponse<BoxBody>) -> Answer {
    let status = response.status().as_u16();
    let text = |name: &str| {
        let value = response.headers().get(name);
        value.and_then(|value| value.to_str().ok()).map(str::to_owned)
    };
    let retry_after = text(header::RETRY_AFTER.as_str()).and_then(|seconds| seconds.parse().ok());
    let node = text(HOME).filter(|node| !node.is_empty());
    match response.into_body().try_into_bytes() {
        Ok(body) => Answer { id, status, retry_after, node, body },
        // No operation of a stream has such an answer.
        Err(_) => Answer::problem(id, &Problem::of(Code::Internal, "the answer has no end")),
    }
}
