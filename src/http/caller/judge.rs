//! Finds out who sends a request, and whether it may reach a handler.

use std::{net::IpAddr, sync::Arc, time::Duration};

use actix_web::{
    HttpMessage as _, HttpRequest,
    http::{
        Method,
        header::{self, HeaderValue},
    },
};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD as BASE64};

use super::{
    connection::{Belongs, Ends},
    cookie::Cookies,
    forgeries::Forgeries,
    identity::{PeerCertificate, PeerUid},
    meter::Meter,
    needs::{Need, Pace, need, pace},
    rate::Charged,
    reading::{Caller, Known},
    usage::{Kind, Usage, Usages},
    within::Within,
};
use crate::{
    access::{Access, Credential, Current, JwtProof, Principal},
    clock::Clock,
    http::{
        answer::Problem,
        peer::{PRINCIPAL, was_forwarded},
        percent::path_of,
    },
    telemetry::{Metrics, audit::Acting},
};

/// The path that opens a stream of calls.
const STREAM: &str = "/v1/stream";

/// Decides who may reach a handler.
#[derive(Clone)]
pub struct Gatekeeper {
    access: Option<Arc<Current>>,
    cookies: Arc<Cookies>,
    clock: Arc<dyn Clock>,
    usages: Arc<Usages>,
    meter: Arc<Meter>,
}

impl Gatekeeper {
    /// Admits the principals of this access file; everybody if there is none. Those without a principal may make
    /// `rate_per_address` calls per second; 0: any number.
    #[must_use]
    pub fn new(
        access: Option<Arc<Current>>,
        cookies: Arc<Cookies>,
        clock: Arc<dyn Clock>,
        metrics: Arc<Metrics>,
        rate_per_address: u32,
    ) -> Self {
        let meter = Arc::new(Meter::new(clock.clone(), metrics, rate_per_address));
        Self { access, cookies, clock, usages: Arc::default(), meter }
    }

    /// The caller of a request, if the request may reach a handler.
    pub fn admit(&self, request: &HttpRequest) -> Result<Caller, Problem> {
        let Some(current) = &self.access else {
            return Ok(Caller::anyone().charged(self.meter.charge_address(request)?));
        };
        if let Some(known) = self.remembered(current, request) {
            return self.admit_known(request, known);
        }
        let (access, generation) = current.load_with_generation();
        let need = need(request.method(), path_of(request));
        let found = self.identify(&access, request).and_then(|found| match found {
            Some(shown) if !self.is_in_force(current, &shown) => Err(Problem::unauthenticated()),
            found => Ok(found),
        });
        let Shown { principal, jwt, certificate, credential, is_kept } = match found {
            Ok(Some(shown)) => shown,
            // Always, whatever others at its address do: a holder whose token was replaced must hear of that in time.
            Err(problem) if need != Need::Nothing => return Err(problem),
            nobody => {
                let charged = self.meter.charge_address(request)?;
                return match (need, nobody) {
                    (Need::Account | Need::Right(_), Ok(_)) => Err(Problem::unauthenticated()),
                    _ => Ok(Caller::nobody().charged(charged)),
                };
            }
        };
        let usage = self.usage(request, &principal);
        let usage = usage.inspect_err(|_| acts(request, &principal))?;
        let (current, meter, clock) = (current.clone(), self.meter.clone(), self.clock.clone());
        let known = Known {
            principal,
            jwt,
            certificate,
            shown: credential,
            current,
            generation,
            usage,
            meter,
            clock,
        };
        let known = Arc::new(known);
        if let Some(belongs) = request.conn_data::<Belongs>().filter(|_| is_kept) {
            belongs.remember(shown(request), &known);
        }
        self.admit_known(request, known)
    }

    /// Whether neither the last day of a principal is over, nor the principal or its proof is revoked.
    fn is_in_force(&self, current: &Current, Shown { principal, credential, .. }: &Shown) -> bool {
        let now_ms = self.clock.wall_ms();
        !principal.expired(now_ms) && !current.revokes(&principal.name, credential, now_ms)
    }

    /// Who the last call of the connection was of, if this call shows the same, and the same file is in force.
    fn remembered(&self, current: &Current, request: &HttpRequest) -> Option<Arc<Known>> {
        let belongs = request.conn_data::<Belongs>().filter(|_| !was_forwarded(request))?;
        let known = belongs.remembered(shown(request))?;
        (known.generation == current.generation() && !known.is_over()).then_some(known)
    }

    /// The caller of a call within a stream. The stream has shown the principal, and ends as soon as the principal is no
    /// longer who it was. It has charged the call, which is judged like one of its own.
    pub fn admit_within(&self, request: &HttpRequest, within: &Within) -> Result<Caller, Problem> {
        if let Some(known) = within.caller.as_known() {
            known.lasts()?;
            let fits = fits(request, &known.principal);
            fits.inspect_err(|_| acts(request, &known.principal))?;
        }
        Ok(within.caller.clone())
    }

    /// Charges a message of this length in a stream of this caller, who calls from this address.
    pub fn charge_message(
        &self,
        caller: &Caller,
        peer: Option<IpAddr>,
        pace: Pace,
        bytes: usize,
    ) -> Result<Charged, Problem> {
        let charged = match caller.as_known() {
            Some(known) => {
                known.lasts()?;
                self.meter.charge_at(pace, &known.principal, &known.usage)
            }
            None => self.meter.charge_peer(peer),
        };
        charged.inspect(|charged| caller.clone().charged(charged.clone()).sends(bytes))
    }

    /// Counts a message of this length that is refused for its caller's rate, or has to be parsed to know its rate.
    /// Returns for how long its stream must not be read: refusals cost something too.
    pub fn pause_after(
        &self,
        caller: &Caller,
        peer: Option<IpAddr>,
        bytes: usize,
    ) -> Option<Duration> {
        match caller.as_known() {
            Some(known) => self.meter.pause_of(&known.principal, &known.usage, bytes),
            None => self.meter.pause_of_peer(peer, bytes),
        }
    }

    /// Charges a call of a principal, which must have a right that the call needs.
    fn admit_known(&self, request: &HttpRequest, known: Arc<Known>) -> Result<Caller, Problem> {
        let charged = self.charge(request, &known);
        let charged = charged.inspect_err(|_| acts(request, &known.principal))?;
        Ok(Caller::known(known).charged(charged))
    }

    /// What the call of a principal is charged to.
    fn charge(&self, request: &HttpRequest, known: &Known) -> Result<Charged, Problem> {
        let charged = self.meter.charge(request, &known.principal, &known.usage)?;
        fits(request, &known.principal)?;
        Ok(charged)
    }

    /// What the principal of a call uses. From now on the call's connection is the principal's, unless another node
    /// forwards the call.
    fn usage(
        &self,
        request: &HttpRequest,
        principal: &Arc<Principal>,
    ) -> Result<Arc<Usage>, Problem> {
        let pace = pace(request.method(), path_of(request)).filter(|_| !was_forwarded(request));
        let (Some(pace), Some(belongs)) = (pace, request.conn_data::<Belongs>()) else {
            return Ok(self.usages.of(&principal.name));
        };
        if let Some(usage) = belongs.usage_of(principal) {
            return Ok(usage);
        }
        let usage = self.usages.of(&principal.name);
        match belongs.count_for(principal, &usage) {
            Ok(()) => Ok(usage),
            Err(_) if pace == Pace::Keeps => {
                // The connections that count may be those of a network that is gone. No lease is lost for them.
                request.extensions_mut().insert(Ends);
                Ok(usage)
            }
            Err(most) => {
                self.meter.refused(Kind::Connections.limit());
                Err(Problem::over_connections(&principal.name, most))
            }
        }
    }

    /// The principal that a request shows to be. `None` if it shows nothing.
    fn identify(&self, access: &Access, request: &HttpRequest) -> Result<Option<Shown>, Problem> {
        let headers = request.headers();
        let mut has_ended = false;
        if was_forwarded(request) {
            // The seal proves that a node of this store asks for this principal.
            let name = headers.get(PRINCIPAL).and_then(|name| BASE64.decode(name).ok());
            let name = name.and_then(|name| String::from_utf8(name).ok());
            let Some(name) = name else { return Err(Problem::unauthenticated()) };
            let known = access.by_name(&name);
            return known.map(Shown::once).map(Some).ok_or_else(|| Problem::unknown_here(&name));
        }
        if let Some(shown) = headers.get(header::AUTHORIZATION) {
            let token = shown.to_str().ok().and_then(bearer);
            let known = token.and_then(|token| self.by_bearer(access, request, token));
            return known.map(Some).ok_or_else(Problem::unauthenticated);
        }
        if let Some(certificate) = request.conn_data::<Arc<PeerCertificate>>()
            && let Some(known) = access.by_certificate(&certificate.names)
        {
            if certificate.holds(self.clock.wall_ms()) {
                let PeerCertificate { names, digest, .. } = &**certificate;
                let credential = Credential::Certificate { names: names.clone(), digest: *digest };
                let certificate = Some(certificate.clone());
                return Ok(Some(Shown { certificate, credential, ..Shown::of(known) }));
            }
            has_ended = true;
        }
        if let Some(uid) = request.conn_data::<PeerUid>()
            && let Some(known) = access.by_uid(uid.0)
        {
            return Ok(Some(Shown::of(known)));
        }
        // Calls by a stream do more than read, although a GET opens it.
        let reads =
            matches!(*request.method(), Method::GET | Method::HEAD) && path_of(request) != STREAM;
        if let Some(cookie) = self.cookies.shown(request).filter(|_| reads) {
            let now = self.clock.wall_ms();
            return Ok(self.cookies.open(access, cookie, now).map(|(known, token)| Shown {
                credential: Credential::Bearer(token),
                ..Shown::once(known)
            }));
        }
        // A certificate that has ended proves nothing. Its caller hears so unless it shows something else.
        if has_ended { Err(Problem::unauthenticated()) } else { Ok(None) }
    }

    /// The principal whose token or JWT this is. Why it is nobody's JWT is in the log alone.
    fn by_bearer(&self, access: &Access, request: &HttpRequest, token: &str) -> Option<Shown> {
        let allowance = Forgeries::of(&self.meter, request);
        match access.by_bearer(token, self.clock.wall_ms(), &allowance) {
            Ok(found) => found.map(|found| Shown {
                jwt: found.jwt,
                credential: Credential::Bearer(found.digest),
                ..Shown::of(found.principal)
            }),
            Err(fault) => {
                tracing::debug!(%fault, "a JWT was refused");
                None
            }
        }
    }
}

/// Who a request shows to be.
struct Shown {
    principal: Arc<Principal>,
    /// What was verified of a JWT.
    jwt: Option<JwtProof>,
    /// The certificate by which it is known.
    certificate: Option<Arc<PeerCertificate>>,
    /// The proof, which could be revoked.
    credential: Credential,
    /// Whether each call of the connection with the same `Authorization`, or none, shows the same.
    is_kept: bool,
}

impl Shown {
    fn of(principal: &Arc<Principal>) -> Self {
        Self {
            principal: principal.clone(),
            jwt: None,
            certificate: None,
            credential: Credential::Other,
            is_kept: true,
        }
    }

    /// What proves something of this request alone.
    fn once(principal: &Arc<Principal>) -> Self {
        Self { is_kept: false, ..Self::of(principal) }
    }
}

/// Whether a principal has a right that a call needs.
fn fits(request: &HttpRequest, principal: &Principal) -> Result<(), Problem> {
    match need(request.method(), path_of(request)) {
        Need::Right(verbs @ [first, ..]) if !verbs.iter().any(|verb| principal.has(*verb)) => {
            Err(Problem::no_right(&principal.name, first.as_str(), "at all"))
        }
        _ => Ok(()),
    }
}

/// What a request shows in `Authorization`.
fn shown(request: &HttpRequest) -> Option<&[u8]> {
    request.headers().get(header::AUTHORIZATION).map(HeaderValue::as_bytes)
}

/// Notes for the audit log whose call is refused before it has a caller.
fn acts(request: &HttpRequest, principal: &Principal) {
    request.extensions_mut().insert(Acting(principal.name.clone()));
}

/// The token in `Bearer TOKEN`.
fn bearer(text: &str) -> Option<&str> {
    let (scheme, token) = text.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(token.trim())
}
