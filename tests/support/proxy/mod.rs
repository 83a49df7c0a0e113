//! A stretch of network before a server: of bytes, which can be cut ([`Proxy`]), or of requests, which can be
//! lost, delayed and counted ([`HttpProxy`]).

mod http;

use std::{
    future::Future,
    io,
    net::SocketAddr,
    sync::{Arc, Mutex},
};

pub use http::{Fate, HttpProxy};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::watch,
    task::JoinHandle,
};

/// What the stretch does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    Open,
    /// Nothing is passed on, and nobody is told. What was sent meanwhile arrives when it opens again.
    Silent,
    /// What the server says waits until it opens again.
    Deaf,
    /// Connections are broken, and new ones too.
    Broken,
}

#[derive(Debug)]
pub struct Proxy {
    pub addr: SocketAddr,
    /// The last is that of new connections. [`Proxy::stick`] adds one.
    ways: Arc<Mutex<Vec<watch::Sender<Way>>>>,
}

impl Proxy {
    /// A way to an address on this machine.
    pub async fn to(target: SocketAddr) -> Self {
        // The way stays as it is when this value is dropped.
        let ways = Arc::new(Mutex::new(vec![watch::Sender::new(Way::Open)]));
        let (addr, _) = listen({
            let ways = ways.clone();
            move |near| {
                let way = ways.lock().expect("no panic").last().expect("one").subscribe();
                async move {
                    if *way.borrow() != Way::Broken {
                        let _ = join(near, target, way).await;
                    }
                }
            }
        })
        .await;
        Self { addr, ways }
    }

    pub fn set(&self, way: Way) {
        self.ways.lock().expect("no panic").last().expect("one").send_replace(way);
    }

    /// The connections of now stay open and pass nothing on any more. New ones work.
    pub fn stick(&self) {
        self.set(Way::Silent);
        self.ways.lock().expect("no panic").push(watch::Sender::new(Way::Open));
    }
}

/// Serves whoever connects, each in a task of its own.
async fn listen<F: Future<Output = ()> + Send + 'static>(
    serve: impl Fn(TcpStream) -> F + Send + 'static,
) -> (SocketAddr, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let addr = listener.local_addr().expect("an address");
    let task = tokio::spawn(async move {
        while let Ok((near, _)) = listener.accept().await {
            tokio::spawn(serve(near));
        }
    });
    (addr, task)
}

async fn join(
    near: TcpStream,
    target: SocketAddr,
    mut way: watch::Receiver<Way>,
) -> io::Result<()> {
    until_open(&mut way, false).await?;
    let far = TcpStream::connect(target).await?;
    near.set_nodelay(true)?;
    far.set_nodelay(true)?;
    let ((near_in, near_out), (far_in, far_out)) = (near.into_split(), far.into_split());
    // When one direction ends, so does the other.
    tokio::select! {
        done = pass(near_in, far_out, way.clone(), false) => done,
        done = pass(far_in, near_out, way, true) => done,
    }
}

/// Waits until bytes may pass.
async fn until_open(way: &mut watch::Receiver<Way>, answers: bool) -> io::Result<()> {
    loop {
        match *way.borrow_and_update() {
            Way::Open => return Ok(()),
            Way::Deaf if !answers => return Ok(()),
            Way::Broken => return Err(io::ErrorKind::ConnectionReset.into()),
            Way::Silent | Way::Deaf => {}
        }
        way.changed().await.map_err(io::Error::other)?;
    }
}

async fn pass(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut way: watch::Receiver<Way>,
    answers: bool,
) -> io::Result<()> {
    let mut buffer = vec![0; 16 << 10];
    loop {
        until_open(&mut way, answers).await?;
        let read = tokio::select! {
            read = from.read(&mut buffer) => read?,
            changed = way.changed() => {
                changed.map_err(io::Error::other)?;
                continue;
            }
        };
        if read == 0 {
            return Ok(());
        }
        // What was read as the way closed waits like everything behind it.
        until_open(&mut way, answers).await?;
        to.write_all(&buffer[..read]).await?;
    }
}
