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
    Error, HttpMessage as _, HttpRequest, HttpResponse,
    body::BoxBody,
    dev::{Service, ServiceRequest, ServiceResponse, Transform, forward_ready},
    http::{ConnectionType, Method, header},
};
use futures_util::future::Either;
use pin_project_lite::pin_project;

use super::{
    audit::{self, Recording},
    discard::discard,
    names::Names,
    overload::{Overload, Shedding},
    places::{Seat, Serving},
    traced,
};
use crate::{
    api::Code,
    http::{
        answer::Problem,
        caller::{Ends, Gatekeeper, Within, keeps},
        peer::{Forged, SHED, Seal, Sealed, UNPROVEN},
        percent::path_of,
    },
    telemetry::{
        audit::{AuditLog, LostLines},
        trace::{self, Span, Tracer},
    },
};

/// Decides which requests reach a handler.
#[derive(Clone)]
pub struct Door {
    names: Names,
    seal: Arc<Seal>,
    gatekeeper: Gatekeeper,
    shedding: Option<Shedding>,
    audit: Option<Arc<AuditLog>>,
    tracer: Option<Arc<Tracer>>,
}

impl Door {
    /// Accepts calls under these names, and calls that a node of the same store forwards, from callers that the
    /// gatekeeper admits.
    #[must_use]
    pub fn new(names: Names, seal: Arc<Seal>, gatekeeper: Gatekeeper) -> Self {
        Self { names, seal, gatekeeper, shedding: None, audit: None, tracer: None }
    }

    /// The same, but it sheds load.
    #[must_use]
    pub fn shedding(self, shedding: Shedding) -> Self {
        Self { shedding: Some(shedding), ..self }
    }

    /// Records in this log which calls are refused, and those of administrators.
    #[must_use]
    pub fn audited(self, audit: Option<Arc<AuditLog>>) -> Self {
        Self { audit, ..self }
    }

    /// Traces calls.
    #[must_use]
    pub fn traced(self, tracer: Option<Arc<Tracer>>) -> Self {
        Self { tracer, ..self }
    }

    /// The lines that the audit log lost, if there is one and it lost some.
    #[must_use]
    pub fn lost_audit_lines(&self) -> Option<LostLines> {
        self.audit.as_ref()?.lost()
    }

    /// The ends of the audit log that are gone, if there is one and it lacks some.
    #[must_use]
    pub fn audit_gaps(&self) -> Option<LostLines> {
        self.audit.as_ref()?.gaps()
    }

    /// Writes to the audit log that an order is about to be carried out, if `audit.required` asks for it. Handlers call
    /// this after they have judged the caller's rights, and before they change anything.
    ///
    /// # Errors
    /// The line cannot be kept. The order must not be carried out.
    pub(in crate::http) async fn intends(&self, request: &HttpRequest) -> Result<(), Problem> {
        match &self.audit {
            Some(log) => audit::intends(log, request).await,
            None => Ok(()),
        }
    }

    /// Charges callers for what comes by their streams.
    pub(in crate::http) fn gatekeeper(&self) -> &Gatekeeper {
        &self.gatekeeper
    }

    fn judge(&self, request: &ServiceRequest) -> Result<(), Problem> {
        let within = request.extensions().get::<Within>().cloned();
        let caller = match within {
            // The request that opened the stream passed all this.
            Some(within) => self.gatekeeper.admit_within(request.request(), &within)?,
            None => {
                self.names.judge(request)?;
                match self.seal.open(request.request()) {
                    Ok(None) => {}
                    Ok(Some(sealed)) => drop(request.extensions_mut().insert(sealed)),
                    Err(Forged) => return Err(Problem::forged_header()),
                }
                self.gatekeeper.admit(request.request())?
            }
        };
        request.extensions_mut().insert(caller);
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
        // This runs once for each worker, on the worker's thread.
        let overload = Overload::start(self.shedding.clone());
        future::ready(Ok(Guarded { door: self.clone(), overload, inner: Rc::new(inner) }))
    }
}

/// The service behind a [`Door`].
pub struct Guarded<S> {
    door: Door,
    overload: Rc<Overload>,
    inner: Rc<S>,
}

impl<S> Service<ServiceRequest> for Guarded<S>
where
    S: Service<ServiceRequest, Response = ServiceResponse<BoxBody>, Error = Error> + 'static,
{
    type Response = S::Response;
    type Error = Error;
    type Future =
        Either<Served<S::Future>, Pin<Box<dyn Future<Output = Result<S::Response, Error>>>>>;

    forward_ready!(inner);

    fn call(&self, request: ServiceRequest) -> Self::Future {
        let seat = request.conn_data::<Rc<Seat>>();
        let serving = seat.map(Seat::serve);
        let is_full =
            seat.is_some_and(|seat| seat.is_reserved()) && !is_vital(path_of(request.request()));
        let judged = if is_full {
            Err(Problem::too_many_connections())
        } else {
            self.door.judge(&request).and_then(|()| self.overload.judge(&request))
        };
        match judged {
            Ok(()) => {
                let audit = self.door.audit.as_ref();
                let recording = audit.map(|log| Recording::of(log, request.request()));
                let ends = request.extensions().contains::<Ends>();
                let tracer = self.door.tracer.as_ref();
                let span = tracer.and_then(|tracer| traced::begin(tracer, request.request()));
                let inner = self.inner.call(request);
                Either::Left(Served { inner, serving, ends, recording, span })
            }
            Err(problem) => {
                let audit = self.door.audit.clone().filter(|_| !is_full);
                Either::Right(Box::pin(refuse(request, problem, serving, audit)))
            }
        }
    }
}

/// Answers a call that reaches no handler.
async fn refuse(
    mut request: ServiceRequest,
    problem: Problem,
    serving: Option<Serving>,
    audit: Option<Arc<AuditLog>>,
) -> Result<ServiceResponse<BoxBody>, Error> {
    let is = |code: Code| problem.code == code.as_str();
    let (is_forged, is_shed) = (is(Code::ForgedHeader), is(Code::Overloaded));
    let is_limited = is(Code::RateLimited) || is(Code::LimitReached);
    let closes = problem.closes;
    // The connection of a known caller stays usable. Whoever is refused for a limit reads the answer at least.
    if is_shed || is_limited || is(Code::Forbidden) {
        let payload = request.take_payload();
        discard(request.request(), payload).await;
    }
    let mut response = problem.respond(request.request());
    if serving.is_some_and(|serving| serving.is_last()) || closes {
        response.head_mut().set_connection_type(ConnectionType::Close);
    }
    let mut mark = |name, value: u8| {
        let name = header::HeaderName::from_static(name);
        response.headers_mut().insert(name, header::HeaderValue::from(u16::from(value)));
    };
    if is_forged {
        mark(UNPROVEN, Seal::newest());
    }
    if is_shed && request.extensions().contains::<Sealed>() {
        mark(SHED, 1);
    }
    keep_nothing(&mut response);
    // Calls beyond a limit could fill the log.
    if let Some(log) = audit.filter(|_| !is_shed && !is_limited) {
        audit::refused(&log, request.request(), &response);
    }
    Ok(request.into_response(response))
}

/// Forbids caching, unless the answer says otherwise: answers hold secrets, and state that is only true now.
fn keep_nothing<B>(response: &mut HttpResponse<B>) {
    let headers = response.headers_mut();
    if !headers.contains_key(header::CACHE_CONTROL) {
        headers.insert(header::CACHE_CONTROL, header::HeaderValue::from_static("no-store"));
    }
}

/// Forbids a browser to take an answer for something else than it is: a page of another origin may embed what it cannot
/// read, as a script or a style.
fn guess_nothing<B>(response: &mut HttpResponse<B>) {
    let nosniff = header::HeaderValue::from_static("nosniff");
    response.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, nosniff);
}

/// Whether others depend on a call. Such a call is served even when no places are left.
pub fn is_vital(path: &str) -> bool {
    matches!(path, "/livez" | "/readyz" | "/metrics") || keeps(path)
}

pin_project! {
    /// The answer to a call that has a place.
    pub struct Served<F> {
        #[pin]
        inner: F,
        serving: Option<Serving>,
        // The connection ends with the answer.
        ends: bool,
        recording: Option<Recording>,
        span: Option<Box<Span>>,
    }
}

impl<F, B> Future for Served<F>
where
    F: Future<Output = Result<ServiceResponse<B>, Error>>,
{
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let polled = match this.span {
            Some(span) => trace::within(span.trace(), || this.inner.poll(context)),
            None => this.inner.poll(context),
        };
        let mut answer = ready!(polled);
        let is_last = this.serving.take().is_some_and(|serving| serving.is_last());
        if let Ok(response) = &mut answer {
            keep_nothing(response.response_mut());
            // A page embeds what its browser can get.
            if response.request().method() == Method::GET {
                guess_nothing(response.response_mut());
            }
            if let Some(recording) = this.recording.take() {
                recording.answered(response);
            }
            if let Some(span) = this.span.take() {
                traced::answered(*span, response);
            }
            if is_last || *this.ends {
                response.response_mut().head_mut().set_connection_type(ConnectionType::Close);
            }
        }
        Poll::Ready(answer)
    }
}
