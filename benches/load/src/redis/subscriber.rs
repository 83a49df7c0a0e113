//! A subscriber of a channel of Redis.

use anyhow::{Result, bail};

use super::connection::{Connection, Target};
use super::resp::{Reply, command};
use crate::endpoint::Endpoint as _;

/// An open subscription.
#[derive(Debug)]
pub struct Subscriber {
    connection: Connection,
}

impl Subscriber {
    /// Subscribes.
    pub async fn open(target: Target, channel: &str) -> Result<Self> {
        let mut connection = target.open().await?;
        connection.send(&command(&["SUBSCRIBE", channel])).await?;
        match connection.reply().await? {
            Reply::Many(_) => Ok(Self { connection }),
            other => bail!("SUBSCRIBE: {other:?}"),
        }
    }

    /// The text of the next message.
    pub async fn message(&mut self) -> Result<String> {
        // Its kind, its channel, its text.
        if let Reply::Many(mut parts) = self.connection.reply().await?
            && let Some(Reply::Text(text)) = parts.pop()
        {
            return Ok(text);
        }
        bail!("Redis sent no message to a subscriber");
    }
}
