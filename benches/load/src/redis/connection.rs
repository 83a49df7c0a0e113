//! A connection to Redis, driven by the task that uses it.

use std::net::SocketAddr;

use anyhow::{Result, ensure};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::resp::{Reply, parse};
use crate::endpoint::Endpoint;

/// Room for what comes at once.
const ROOM: usize = 4 << 10;

/// Where a Redis listens.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// The socket address.
    pub address: SocketAddr,
}

/// One connection.
#[derive(Debug)]
pub struct Connection {
    stream: TcpStream,
    /// What has come and is no whole reply yet.
    received: Vec<u8>,
}

impl Connection {
    /// Sends commands.
    pub async fn send(&mut self, commands: &[u8]) -> Result<()> {
        Ok(self.stream.write_all(commands).await?)
    }

    /// The next reply.
    pub async fn reply(&mut self) -> Result<Reply> {
        loop {
            if let Some((reply, length)) = parse(&self.received)? {
                self.received.drain(..length);
                return Ok(reply);
            }
            self.received.reserve(ROOM);
            let read = self.stream.read_buf(&mut self.received).await?;
            ensure!(read > 0, "Redis has ended the connection");
        }
    }
}

impl Endpoint for Target {
    type Connection = Connection;
    type Request = Vec<u8>;
    type Answer = Reply;

    async fn open(&self) -> Result<Connection> {
        let stream = TcpStream::connect(self.address).await?;
        stream.set_nodelay(true)?;
        Ok(Connection { stream, received: Vec::new() })
    }

    /// One that broke is not kept, and only a call tells whether it has.
    fn is_open(_: &Connection) -> bool {
        true
    }

    async fn call(connection: &mut Connection, request: Vec<u8>) -> Result<Reply> {
        connection.send(&request).await?;
        connection.reply().await
    }
}
