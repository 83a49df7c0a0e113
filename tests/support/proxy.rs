//! A stretch of network that can be cut.

use std::{io, net::SocketAddr};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::watch,
};

/// What the stretch does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    Open,
    /// Nothing is passed on, and nobody is told. What was sent meanwhile arrives when it opens again.
    Silent,
    /// Connections are broken, and new ones too.
    Broken,
}

#[derive(Debug)]
pub struct Proxy {
    pub addr: SocketAddr,
    way: watch::Sender<Way>,
}

impl Proxy {
    /// A way to an address on this machine.
    pub async fn to(target: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let addr = listener.local_addr().expect("an address");
        let (way, seen) = watch::channel(Way::Open);
        tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                let way = seen.clone();
                if *way.borrow() != Way::Broken {
                    tokio::spawn(async move {
                        let _ = join(near, target, way).await;
                    });
                }
            }
        });
        Self { addr, way }
    }

    pub fn set(&self, way: Way) {
        self.way.send_replace(way);
    }
}

async fn join(
    near: TcpStream,
    target: SocketAddr,
    mut way: watch::Receiver<Way>,
) -> io::Result<()> {
    until_open(&mut way).await?;
    let far = TcpStream::connect(target).await?;
    near.set_nodelay(true)?;
    far.set_nodelay(true)?;
    let ((near_in, near_out), (far_in, far_out)) = (near.into_split(), far.into_split());
    // When one direction ends, so does the other.
    tokio::select! {
        done = pass(near_in, far_out, way.clone()) => done,
        done = pass(far_in, near_out, way) => done,
    }
}

/// Waits until bytes may pass.
async fn until_open(way: &mut watch::Receiver<Way>) -> io::Result<()> {
    loop {
        match *way.borrow_and_update() {
            Way::Open => return Ok(()),
            Way::Broken => return Err(io::ErrorKind::ConnectionReset.into()),
            Way::Silent => {}
        }
        way.changed().await.map_err(io::Error::other)?;
    }
}

async fn pass(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut way: watch::Receiver<Way>,
) -> io::Result<()> {
    let mut buffer = vec![0; 16 << 10];
    loop {
        until_open(&mut way).await?;
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
        until_open(&mut way).await?;
        to.write_all(&buffer[..read]).await?;
    }
}
