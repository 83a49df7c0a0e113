//! Runs the checks of a session at its home node. A session whose check failed is revoked: it is promised nothing more,
//! and ends when what it was promised has run out, even if its heartbeats arrive.

use std::{
    io,
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError, Weak},
    time::Duration,
};

use reqwest::{
    Url,
    dns::{Addrs, Name, Resolve, Resolving},
    redirect::Policy,
};
use rustls::ClientConfig;

use super::sessions::Session;
use crate::{
    actor::{
        environment::reach::{Failed, Reach, Target, look_up},
        mail::{Mail, Reply},
        world::World,
    },
    lease::{Call, Check, CheckKind, Key, Request, Revoke},
    plugin::{FailureKind, chain, excerpt},
    tls,
};

/// What the heartbeats of a session report about its work.
#[derive(Default)]
pub(in crate::actor) struct Beat(Mutex<(Box<str>, u64)>);

impl Beat {
    pub fn progressed(&self, progress: &str) {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if *last.0 != *progress {
            *last = (progress.into(), last.1 + 1);
        }
    }

    /// How often the reported progress changed.
    fn steps(&self) -> u64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).1
    }
}

/// Runs the checks of a session for as long as this value lives.
pub(in crate::actor) struct HealthChecks(Vec<tokio::task::AbortHandle>);

impl Drop for HealthChecks {
    fn drop(&mut self) {
        self.0.iter().for_each(tokio::task::AbortHandle::abort);
    }
}

impl HealthChecks {
    /// Starts the checks. Returns `None` for a session without checks.
    pub fn begin(world: &Arc<World>, session: &Arc<Session>) -> Option<Self> {
        let begin = |check: &Check| {
            let (world, session) = (Arc::downgrade(world), Arc::downgrade(session));
            actix::spawn(watch(world, session, check.clone())).abort_handle()
        };
        let tasks: Vec<_> = session.spec.checks.iter().map(begin).collect();
        (!tasks.is_empty()).then_some(Self(tasks))
    }
}

async fn watch(world: Weak<World>, session: Weak<Session>, check: Check) {
    let mut failures = 0;
    let mut steps = 0;
    loop {
        tokio::time::sleep(Duration::from_millis(check.interval_ms)).await;
        let (Some(world), Some(session)) = (world.upgrade(), session.upgrade()) else { return };
        let verdict = match &check.kind {
            CheckKind::Progress => {
                let now = session.beat.steps();
                let idle = now == std::mem::replace(&mut steps, now);
                if idle { Err((FailureKind::Unchanged, String::new())) } else { Ok(()) }
            }
            kind => {
                // The time spent waiting for a place does not count as a failure of the check.
                let _place = world.sessions.checks.take(&session.owner).await;
                let limit = Duration::from_millis(check.timeout_ms);
                let tried = tokio::time::timeout(limit, carry_out(&world, kind)).await;
                tried.unwrap_or_else(|_| Err((FailureKind::TimedOut, String::new())))
            }
        };
        world.metrics.checked(check.kind.as_str(), verdict.is_ok());
        let Err((failure, detail)) = verdict else {
            failures = 0;
            continue;
        };
        failures += 1;
        // At `debug`, because whoever makes a session determines how often this line is written.
        let (kind, detail) = (check.kind.as_str(), excerpt(&detail));
        tracing::debug!(session = %session.digest, check = kind, failures, %failure, detail, "a check failed");
        if failures >= check.fail_after {
            revoke(&world, &session, &format!("check {kind}: {failure}"));
        }
    }
}

/// One round. It ends when its future is dropped.
async fn carry_out(world: &World, kind: &CheckKind) -> Result<(), Failed> {
    // The settings are applied here, because the session may have been made by an earlier run or by another node, under
    // other settings.
    let reach = &world.limits.reach;
    match kind {
        CheckKind::Http(url) => {
            let url = Url::parse(url).map_err(|error| (FailureKind::Failed, error.to_string()))?;
            let vouching = world.vouching_for(&url).await;
            let vouching = vouching.map_err(|why| (FailureKind::Failed, why))?;
            http(reach, url, vouching, look_up).await
        }
        CheckKind::Tcp(address) => tcp(reach, address, look_up).await,
        CheckKind::Exec(_) if !world.limits.exec_checks => {
            let why = "this coordinator runs no programs (limits.exec_checks)".to_owned();
            Err((FailureKind::NotAllowed, why))
        }
        CheckKind::Exec(command) => exec(command).await,
        CheckKind::Progress => Ok(()),
    }
}

/// Resolves every name to the addresses that were judged.
struct Judged(Vec<SocketAddr>);

impl Resolve for Judged {
    fn resolve(&self, _: Name) -> Resolving {
        let addresses: Addrs = Box::new(self.0.clone().into_iter());
        Box::pin(std::future::ready(Ok(addresses)))
    }
}

/// Sends a GET. A redirect is not followed, for it may lead anywhere: it is a failure, as is any other status.
async fn http(
    reach: &Reach,
    url: Url,
    vouching: ClientConfig,
    lookup: impl AsyncFn(&str, u16) -> io::Result<Vec<SocketAddr>>,
) -> Result<(), Failed> {
    let Some(target) = Target::of_url(&url) else {
        return Err((FailureKind::Failed, "the URL has no host and port".to_owned()));
    };
    let addresses = reach.addresses(&target, lookup).await?;
    let client = tls::http(vouching)
        .redirect(Policy::none())
        .dns_resolver(Arc::new(Judged(addresses)))
        .build();
    let client = client.map_err(|error| (FailureKind::Failed, chain(&error)))?;
    let answer = client.get(url).send().await;
    let answer = answer.map_err(|error| {
        (FailureKind::of_connection(&error), tls::explain(&error.without_url(), "checks.ca"))
    })?;
    let status = answer.status();
    if status.is_success() {
        return Ok(());
    }
    Err((FailureKind::Status(status.as_u16()), String::new()))
}

async fn tcp(
    reach: &Reach,
    address: &str,
    lookup: impl AsyncFn(&str, u16) -> io::Result<Vec<SocketAddr>>,
) -> Result<(), Failed> {
    let Some(target) = Target::of_address(address) else {
        return Err((FailureKind::Failed, "the address is not host:port".to_owned()));
    };
    let addresses = reach.addresses(&target, lookup).await?;
    let connected = tokio::net::TcpStream::connect(&*addresses).await;
    connected.map(drop).map_err(|error| (FailureKind::of_connection(&error), error.to_string()))
}

/// Runs a program in a process group of its own. The group is killed when the future is dropped.
async fn exec(command: &[Box<str>]) -> Result<(), Failed> {
    let Some((program, arguments)) = command.split_first() else { return Ok(()) };
    let arguments = arguments.iter().map(|argument| &**argument);
    let ended = crate::plugin::run_group(program, arguments, [], b"").await;
    let ended = ended.map_err(|why| (FailureKind::CannotStart, why))?;
    if ended.status.success() {
        return Ok(());
    }
    Err((FailureKind::of_exit(ended.status), ended.complaint))
}

fn revoke(world: &Arc<World>, session: &Session, reason: &str) {
    let (caller, _) = Reply::one();
    let order = Revoke {
        reason: reason.into(),
        actor: "tenure".into(),
        immediately: false,
        owner: None,
        token: None,
        floor: None,
    };
    let request = Request::Revoke(Box::new(order));
    let call = Call { caller, received: world.now(), request, owner_unreachable: false };
    let key = Key::of_session(session.digest);
    let _ = world.registry.post(world, key.as_str(), Mail::Call(call));
}

#[cfg(test)]
mod tests {
    use std::{cell::Cell, future::Future};

    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpListener,
    };

    use super::*;
    use crate::settings::CheckTargets;

    fn reach() -> Reach {
        Reach::new(&CheckTargets::Auto, None, false)
    }

    fn run<T>(test: impl Future<Output = T>) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(test)
    }

    /// A port at which every connection is answered with this status, and a counter of connections.
    async fn web(status: &'static str) -> (u16, Arc<Mutex<u32>>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let seen = Arc::new(Mutex::new(0));
        let count = seen.clone();
        tokio::spawn(async move {
            while let Ok((mut socket, _)) = listener.accept().await {
                *count.lock().expect("no panic") += 1;
                let _ = socket.read(&mut [0; 1024]).await;
                let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n");
                let _ = socket.write_all(answer.as_bytes()).await;
            }
        });
        (port, seen)
    }

    #[test]
    fn the_address_that_was_judged_is_connected_to_and_the_name_is_not_looked_up_again() {
        run(async {
            let (port, seen) = web("200 OK").await;
            let (lookups, harmless) = (Cell::new(0), SocketAddr::from(([127, 0, 0, 1], port)));
            // A name server that changes its answer. No other server knows the name.
            let lookup = async |_: &str, port| {
                lookups.set(lookups.get() + 1);
                let evil = SocketAddr::from(([169, 254, 169, 254], port));
                Ok(vec![if lookups.get() % 2 == 1 { harmless } else { evil }])
            };
            let url = Url::parse(&format!("http://Rebound.invalid:{port}/")).expect("a URL");
            let address = format!("rebound.invalid:{port}");
            assert_eq!(http(&reach(), url.clone(), tls::none(), lookup).await, Ok(()));
            assert_eq!(lookups.get(), 1);
            let (kind, _) =
                http(&reach(), url, tls::none(), lookup).await.expect_err("it is not allowed");
            assert_eq!((kind, lookups.get()), (FailureKind::NotAllowed, 2));
            assert_eq!(tcp(&reach(), &address, lookup).await, Ok(()));
            let (kind, _) = tcp(&reach(), &address, lookup).await.expect_err("it is not allowed");
            assert_eq!((kind, lookups.get()), (FailureKind::NotAllowed, 4));
            let seen = *seen.lock().expect("no panic");
            assert!((1..=2).contains(&seen), "{seen} connections");
        });
    }

    #[test]
    fn no_redirect_is_followed() {
        run(async {
            let (inner, seen) = web("200 OK").await;
            for status in [301, 302, 303, 307, 308] {
                let head = format!("{status} x\r\nLocation: http://127.0.0.1:{inner}/");
                let (outer, _) = web(head.leak()).await;
                let url = Url::parse(&format!("http://127.0.0.1:{outer}/")).expect("a URL");
                let failed =
                    http(&reach(), url, tls::none(), look_up).await.expect_err("it is a failure");
                assert_eq!(failed.0, FailureKind::Status(status));
            }
            assert_eq!(*seen.lock().expect("no panic"), 0, "it was followed");
        });
    }
}
