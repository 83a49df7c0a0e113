//! A wire between a store and its server that can be cut, or made to keep answers back.

use std::sync::Arc;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::watch,
};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Wire {
    Whole,
    /// No connection is kept or made.
    Cut,
    /// What the server says waits.
    Deaf,
}

pub(crate) struct Proxy {
    port: u16,
    wire: Arc<watch::Sender<Wire>>,
}

impl Proxy {
    pub(crate) async fn start(server: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let wire = Arc::new(watch::Sender::new(Wire::Whole));
        let server = server.trim_start_matches("nats://").to_owned();
        let state = Arc::clone(&wire);
        tokio::spawn(async move {
            loop {
                let (client, _) = listener.accept().await.unwrap();
                if *state.borrow() == Wire::Cut {
                    continue;
                }
                let Ok(server) = TcpStream::connect(&server).await else { continue };
                let ((from_client, to_client), (from_server, to_server)) =
                    (client.into_split(), server.into_split());
                tokio::spawn(carry(from_client, to_server, state.subscribe(), false));
                tokio::spawn(carry(from_server, to_client, state.subscribe(), true));
            }
        });
        Self { port, wire }
    }

    pub(crate) fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    pub(crate) fn cut(&self) {
        self.wire.send_replace(Wire::Cut);
    }

    pub(crate) fn deafen(&self) {
        self.wire.send_replace(Wire::Deaf);
    }

    pub(crate) fn mend(&self) {
        self.wire.send_replace(Wire::Whole);
    }
}

async fn carry(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut wire: watch::Receiver<Wire>,
    answers: bool,
) {
    let mut buffer = vec![0; 64 << 10];
    loop {
        let read = tokio::select! {
            read = from.read(&mut buffer) => read,
            _ = wire.wait_for(|wire| *wire == Wire::Cut) => return,
        };
        let Ok(length @ 1..) = read else { return };
        if answers {
            let heard = wire.wait_for(|wire| *wire != Wire::Deaf).await;
            if heard.is_ok_and(|wire| *wire == Wire::Cut) {
                return;
            }
        }
        if to.write_all(&buffer[..length]).await.is_err() {
            return;
        }
    }
}
