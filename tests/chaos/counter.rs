//! A store of the user's own: registers that are protected by a lease each.
//!
//! Every register is there twice. One checks tokens: it takes no write, and answers no read, under a token
//! below the highest that it saw. The other believes everybody. All writes are "what I read, and one more",
//! so a register has lost updates when its value is below the number of writes that it took.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
};

use serde::{Deserialize, Serialize};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
};

use crate::{
    clock::{ms, now},
    history::{Event, Log},
};

/// What a worker asks.
#[derive(Debug, Serialize, Deserialize)]
pub enum Call {
    Read { key: String, token: u64 },
    Write { key: String, token: u64, checked: Option<u64>, unchecked: u64 },
}

/// Values as they are now; `None` where the token was refused.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Values {
    pub checked: Option<u64>,
    pub unchecked: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Register {
    value: u64,
    taken: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Pair {
    highest: u64,
    checked: Register,
    unchecked: Register,
}

/// What became of all updates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    pub taken: u64,
    pub refused: u64,
    /// Updates that the register with the token check lost.
    pub lost: u64,
    /// Updates that the register without it lost.
    pub lost_unchecked: u64,
}

#[derive(Debug, Default)]
struct Book {
    pairs: BTreeMap<String, Pair>,
    refused: u64,
    reads: BTreeMap<String, u64>,
}

#[derive(Clone, Debug)]
pub struct Counter {
    book: Arc<Mutex<Book>>,
    log: Log,
}

impl Counter {
    /// Serves at an address from now on.
    pub async fn serve(at: SocketAddr, log: Log) -> Self {
        let counter = Self { book: Arc::default(), log };
        let listener = TcpListener::bind(at).await.expect("the counter's address");
        let served = counter.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let counter = served.clone();
                tokio::spawn(async move {
                    let mut stream = BufReader::new(stream);
                    let mut line = String::new();
                    while stream.read_line(&mut line).await.is_ok_and(|read| read > 0) {
                        let values = counter.answer(serde_json::from_str(&line).expect("a call"));
                        let answer = serde_json::to_string(&values).expect("JSON") + "\n";
                        if stream.get_mut().write_all(answer.as_bytes()).await.is_err() {
                            return;
                        }
                        line.clear();
                    }
                });
            }
        });
        counter
    }

    fn answer(&self, call: Call) -> Values {
        let mut book = self.book.lock().unwrap_or_else(PoisonError::into_inner);
        let (key, token) = match &call {
            Call::Read { key, token } | Call::Write { key, token, .. } => (key.clone(), *token),
        };
        let pair = book.pairs.entry(key.clone()).or_default();
        let fits = token >= pair.highest;
        pair.highest = pair.highest.max(token);
        if let Call::Write { checked, unchecked, .. } = call {
            pair.unchecked = Register { value: unchecked, taken: pair.unchecked.taken + 1 };
            let taken = checked.filter(|_| fits);
            if let Some(value) = taken {
                pair.checked = Register { value, taken: pair.checked.taken + 1 };
            }
            let wrote = Event::Wrote { key: key.clone(), token, taken: taken.is_some() };
            self.log.push(now(), wrote);
        }
        let values =
            Values { checked: fits.then_some(pair.checked.value), unchecked: pair.unchecked.value };
        book.refused += u64::from(!fits);
        *book.reads.entry(key).or_default() += 1;
        values
    }

    /// How many calls there were about a key.
    pub fn calls(&self, key: &str) -> u64 {
        let book = self.book.lock().unwrap_or_else(PoisonError::into_inner);
        book.reads.get(key).copied().unwrap_or(0)
    }

    pub fn sums(&self) -> Sums {
        let book = self.book.lock().unwrap_or_else(PoisonError::into_inner);
        let mut sums = Sums { refused: book.refused, ..Sums::default() };
        for pair in book.pairs.values() {
            sums.taken += pair.checked.taken;
            sums.lost += pair.checked.taken.saturating_sub(pair.checked.value);
            sums.lost_unchecked += pair.unchecked.taken.saturating_sub(pair.unchecked.value);
        }
        sums
    }
}

/// A worker's way to the counter.
pub struct Way {
    at: SocketAddr,
    stream: Option<BufReader<TcpStream>>,
}

impl Way {
    pub fn to(at: SocketAddr) -> Self {
        Self { at, stream: None }
    }

    /// Asks; `None` when there was no answer.
    pub async fn ask(&mut self, call: &Call) -> Option<Values> {
        let answer = tokio::time::timeout(ms(10_000), self.try_ask(call)).await.ok().flatten();
        if answer.is_none() {
            self.stream = None;
        }
        answer
    }

    async fn try_ask(&mut self, call: &Call) -> Option<Values> {
        if self.stream.is_none() {
            self.stream = Some(BufReader::new(TcpStream::connect(self.at).await.ok()?));
        }
        let stream = self.stream.as_mut()?;
        let line = serde_json::to_string(call).expect("JSON") + "\n";
        stream.get_mut().write_all(line.as_bytes()).await.ok()?;
        let mut answer = String::new();
        stream.read_line(&mut answer).await.ok()?;
        serde_json::from_str(&answer).ok()
    }
}
