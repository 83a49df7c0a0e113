//! One round of a check: it connects, or runs a program, and says whether it found what it expects.

use std::{io, net::SocketAddr, sync::Arc};

use reqwest::{
    Url,
    dns::{Addrs, Name, Resolve, Resolving},
    redirect::Policy,
};
use rustls::ClientConfig;

use crate::{
    actor::environment::{
        Environment,
        reach::{Failed, Reach, Target, look_up},
    },
    lease::CheckKind,
    plugin::{FailureKind, chain},
    tls,
};

/// One round. It ends when its future is dropped.
pub async fn probe(environment: &Environment, kind: &CheckKind) -> Result<(), Failed> {
    // The settings are applied here, because the session may have been made by an earlier run or by another node, under
    // other settings.
    let limits = &environment.limits;
    match kind {
        CheckKind::Http(url) => {
            let url = Url::parse(url).map_err(|error| (FailureKind::Failed, error.to_string()))?;
            let settings = environment.check_tls.for_url(&url).await;
            let settings = settings.map_err(|why| (FailureKind::Failed, why))?;
            http(&limits.reach, url, settings, look_up).await
        }
        CheckKind::Tcp(address) => tcp(&limits.reach, address, look_up).await,
        CheckKind::Exec(_) if !limits.exec_checks => {
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
    tls_settings: ClientConfig,
    lookup: impl AsyncFn(&str, u16) -> io::Result<Vec<SocketAddr>>,
) -> Result<(), Failed> {
    let Some(target) = Target::of_url(&url) else {
        return Err((FailureKind::Failed, "the URL has no host and port".to_owned()));
    };
    let addresses = reach.addresses(&target, lookup).await?;
    let client = tls::http(tls_settings)
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

#[cfg(test)]
mod tests {
    use std::{cell::Cell, future::Future, sync::Mutex};

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
