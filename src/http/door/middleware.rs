//! Checks requests before they reach a handler: the names and origins, the seal of another node, a free place.
//!
//! A claim that a call comes from another node counts only if [`Seal`] proves it.

use std::{
    future::{self, Future},
    pin::Pin,
    rc::Rc,
    sync::Arc,
    task::{Context, Poll, ready},
};

use actix_web::{
    Error, HttpMessage as _, HttpResponse,
    body::BoxBody,
    dev::{Service, ServiceRequest, ServiceResponse, Transform, forward_ready},
    http::{ConnectionType, header},
};
use futures_util::future::Either;
use pin_project_lite::pin_project;

use super::{
    names::Names,
    places::{Seat, Serving},
};
use crate::{
    api::Code,
    http::{
        answer::Problem,
        peer::{Forged, Seal, UNPROVEN},
    },
};

/// Decides which requests reach a handler.
#[derive(Clone)]
pub struct Door {
    names: Names,
    seal: Arc<Seal>,
}

impl Door {
    /// Accepts calls under these names, and calls that a node of the same store forwards.
    #[must_use]
    pub fn new(names: Names, seal: Arc<Seal>) -> Self {
        Self { names, seal }
    }

    fn judge(&self, request: &ServiceRequest) -> Result<(), Problem> {
        self.names.judge(request)?;
        match self.seal.open(request.request()) {
            Ok(None) => {}
            Ok(Some(sealed)) => drop(request.extensions_mut().insert(sealed)),
            Err(Forged) => return Err(Problem::forged_header()),
        }
        Ok(())
    }
}

impl<S> Transform<S, ServiceRequest> for Door
where
    S: Service<ServiceRequest, Response = ServiceResponse<BoxBody>, Error = Error> + 'static,
{
    type Response = S::Response;
    type Error = Error;
    type Transform = Guarded<S>;
    type InitError = ();
    type Future = future::Ready<Result<Guarded<S>, ()>>;

    fn new_transform(&self, inner: S) -> Self::Future {
        future::ready(Ok(Guarded { door: self.clone(), inner: Rc::new(inner) }))
    }
}

/// The service behind a [`Door`].
pub struct Guarded<S> {
    door: Door,
    inner: Rc<S>,
}

impl<S> Service<ServiceRequest> for Guarded<S>
where
    S: Service<ServiceRequest, Response = ServiceResponse<BoxBody>, Error = Error> + 'static,
{
    type Response = S::Response;
    type Error = Error;
    type Future = Either<Served<S::Future>, future::Ready<Result<S::Response, Error>>>;

    forward_ready!(inner);

    fn call(&self, request: ServiceRequest) -> Self::Future {
        let seat = request.conn_data::<Rc<Seat>>();
        let serving = seat.map(Seat::serve);
        let is_refused = seat.is_some_and(|seat| seat.is_reserved()) && !is_vital(request.path());
        let judged = if is_refused {
            Err(Problem::too_many_connections())
        } else {
            self.door.judge(&request)
        };
        match judged {
            Ok(()) => Either::Left(Served { inner: self.inner.call(request), serving }),
            Err(problem) => {
                let is_forged = problem.code == Code::ForgedHeader.as_str();
                let mut response = problem.respond(request.request());
                if serving.is_some_and(|serving| serving.is_last()) {
                    response.head_mut().set_connection_type(ConnectionType::Close);
                }
                if is_forged {
                    let name = header::HeaderName::from_static(UNPROVEN);
                    response.headers_mut().insert(name, header::HeaderValue::from_static("1"));
                }
                keep_nothing(&mut response);
                Either::Right(future::ready(Ok(request.into_response(response))))
            }
        }
    }
}

/// Forbids caching, unless the answer says otherwise: answers hold secrets, and state that is only true now.
fn keep_nothing<B>(response: &mut HttpResponse<B>) {
    let headers = response.headers_mut();
    if !headers.contains_key(header::CACHE_CONTROL) {
        headers.insert(header::CACHE_CONTROL, header::HeaderValue::from_static("no-store"));
    }
}

/// Whether others depend on a call. Such a call is served even when no places are left.
pub fn is_vital(path: &str) -> bool {
    match path {
        "/livez" | "/readyz" | "/metrics" => true,
        "/v1/heartbeat" | "/v1/heartbeats" | "/v1/release" | "/v1/releases" => true,
        _ => path.starts_with("/v1/sessions/") && path.ends_with("/heartbeat"),
    }
}

pin_project! {
    /// The answer to a call that has a place.
    pub struct Served<F> {
        #[pin]
        inner: F,
        serving: Option<Serving>,
    }
}

impl<F, B> Future for Served<F>
where
    F: Future<Output = Result<ServiceResponse<B>, Error>>,
{
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let mut answer = ready!(this.inner.poll(context));
        let is_last = this.serving.take().is_some_and(|serving| serving.is_last());
        if let Ok(response) = &mut answer {
            keep_nothing(response.response_mut());
            if is_last {
                response.response_mut().head_mut().set_connection_type(ConnectionType::Close);
            }
        }
        Poll::Ready(answer)
    }
}
