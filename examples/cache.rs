//! A cache whose members fill a shard before they take it over, so that a rolling restart costs next to no hits.
//!
//! The shards `cache/0` to `cache/15` are a pool whose policy sets `warmup_timeout` (docs/pools.md, "Warm hand-over").
//! Before a shard moves, its next owner copies what its present owner has, from the address that the notice names. Then
//! the shard is handed over, and the next owner serves it from the copy. With `--cold` nothing is copied.
//!
//! ```sh
//! cargo run --example cache -- --server http://127.0.0.1:7373 --owner cache-1
//! ```
//!
//! A member listens for lines: `get SHARD ITEM` is answered with `hit VALUE`, `miss VALUE` (it was loaded from the
//! origin) or `moved` (ask the owner), and `dump SHARD` with all entries and `end`. SIGTERM drains the member.

use std::{
    collections::HashMap,
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use clap::Parser;
use tenure::client::{Client, ClientError, Done, Lease, Preparation, WorkerPool};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, BufWriter},
    net::{TcpListener, TcpStream},
    signal::unix::{SignalKind, signal},
    time::{sleep, timeout},
};

const SHARDS: usize = 16;
/// How long a copy of a shard may take.
const COPY: Duration = Duration::from_secs(10);

/// A member of the cache.
#[derive(Debug, Parser)]
struct Args {
    /// The coordinator.
    #[arg(long, default_value = "http://127.0.0.1:7373")]
    server: String,
    /// The pool.
    #[arg(long, default_value = "cache")]
    pool: String,
    /// Who this is.
    #[arg(long)]
    owner: String,
    /// How long the origin takes to answer, which stands for a database here.
    #[arg(long, default_value_t = 20)]
    origin_ms: u64,
    /// Copies nothing before it takes a shard over.
    #[arg(long)]
    cold: bool,
}

type Entries = HashMap<String, String>;

/// What this member has of each shard.
#[derive(Default)]
struct Shards {
    /// The shards that it serves, each with its lease.
    served: HashMap<String, (Arc<Lease>, Entries)>,
    /// Copies of shards that it is to have.
    copies: HashMap<String, Entries>,
}

struct Cache {
    shards: Mutex<Shards>,
    origin: Duration,
}

impl Cache {
    fn shards(&self) -> MutexGuard<'_, Shards> {
        self.shards.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The entry of a shard, and whether it was there; `None` if another member serves the shard.
    async fn get(&self, shard: &str, item: &str) -> Option<(bool, String)> {
        let known = {
            let shards = self.shards();
            let (lease, entries) = shards.served.get(shard)?;
            lease.valid().then(|| entries.get(item).cloned())?
        };
        if let Some(value) = known {
            return Some((true, value));
        }
        sleep(self.origin).await;
        let value = format!("{shard}/{item}");
        if let Some((_, entries)) = self.shards().served.get_mut(shard) {
            entries.insert(item.to_owned(), value.clone());
        }
        Some((false, value))
    }

    fn dump(&self, shard: &str) -> Entries {
        let shards = self.shards();
        shards.served.get(shard).map(|(_, entries)| entries.clone()).unwrap_or_default()
    }

    /// Copies a shard from the member that has it.
    async fn copy(&self, preparation: &Preparation) -> io::Result<()> {
        let Some(address) = &preparation.address else { return Ok(()) };
        let mut stream = BufReader::new(TcpStream::connect(address).await?);
        stream.write_all(format!("dump {}\n", preparation.key).as_bytes()).await?;
        let (mut entries, mut lines) = (Entries::new(), stream.lines());
        while let Some(line) = lines.next_line().await? {
            match line.split_once(' ') {
                Some((item, value)) => drop(entries.insert(item.to_owned(), value.to_owned())),
                None => {
                    self.shards().copies.insert(preparation.key.clone(), entries);
                    return Ok(());
                }
            }
        }
        Err(io::ErrorKind::UnexpectedEof.into())
    }

    /// Serves a shard until it must be handed over.
    async fn serve(&self, lease: Arc<Lease>) {
        let shard = lease.key().to_owned();
        {
            let mut shards = self.shards();
            let entries = shards.copies.remove(&shard).unwrap_or_default();
            println!("serves {shard} with {} entries", entries.len());
            shards.served.insert(shard.clone(), (lease.clone(), entries));
        }
        lease.handover_requested().await;
        self.shards().served.remove(&shard);
    }

    async fn answer(&self, stream: TcpStream) -> io::Result<()> {
        let (read, write) = stream.into_split();
        let (mut lines, mut out) = (BufReader::new(read).lines(), BufWriter::new(write));
        while let Some(line) = lines.next_line().await? {
            let words: Vec<&str> = line.split(' ').collect();
            match words.as_slice() {
                ["get", shard, item] => {
                    let said = match self.get(shard, item).await {
                        Some((true, value)) => format!("hit {value}\n"),
                        Some((false, value)) => format!("miss {value}\n"),
                        None => "moved\n".to_owned(),
                    };
                    out.write_all(said.as_bytes()).await?;
                }
                ["dump", shard] => {
                    for (item, value) in self.dump(shard) {
                        out.write_all(format!("{item} {value}\n").as_bytes()).await?;
                    }
                    out.write_all(b"end\n").await?;
                }
                _ => out.write_all(b"what?\n").await?,
            }
            out.flush().await?;
        }
        Ok(())
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args = Args::parse();
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?.to_string();
    let origin = Duration::from_millis(args.origin_ms);
    let cache = Arc::new(Cache { shards: Mutex::default(), origin });
    let serving = cache.clone();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let cache = serving.clone();
            tokio::spawn(async move { cache.answer(stream).await });
        }
    });
    run(args, address, cache).await?;
    Ok(())
}

async fn run(args: Args, address: String, cache: Arc<Cache>) -> Result<(), ClientError> {
    let Args { server, pool, owner, cold: is_cold, .. } = args;
    let keys: Vec<String> = (0..SHARDS).map(|shard| format!("{pool}/{shard}")).collect();
    let client = Client::new(&server)?;
    let copying = cache.clone();
    let pool = WorkerPool::new(client, pool)
        .owner(owner)
        .address(address)
        .keys(keys)
        .ttl(Duration::from_secs(5))
        .prepare(move |preparation: Preparation| {
            let cache = copying.clone();
            async move {
                if is_cold {
                    return;
                }
                match timeout(COPY, cache.copy(&preparation)).await {
                    Ok(Ok(())) => println!("copied {} from {}", preparation.key, preparation.from),
                    Ok(Err(why)) => eprintln!("cannot copy {}: {why}", preparation.key),
                    Err(_) => eprintln!("cannot copy {} in time", preparation.key),
                }
            }
        });
    let leaving = pool.drain_handle();
    tokio::spawn(async move {
        if let Ok(mut terminated) = signal(SignalKind::terminate()) {
            terminated.recv().await;
            leaving.drain();
        }
    });
    pool.run(move |lease: Arc<Lease>| {
        let cache = cache.clone();
        async move {
            cache.serve(lease).await;
            Ok::<_, io::Error>(Done)
        }
    })
    .await
}
