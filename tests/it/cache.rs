//! A cache through a rolling restart: real processes of `examples/cache.rs`, a real coordinator, and clients that send each
//! request to the owner of its shard.

use std::{
    collections::HashMap,
    path::Path,
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use rustix::process::{Pid, Signal, kill_process};
use tenure::{
    client::{Client, Router},
    clock::Chance,
};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::TcpStream,
    task::JoinHandle,
};

use crate::support::{
    clock::{sleep_ms, within},
    dice::Dice,
    harness::{Server, ms},
};

const SHARDS: usize = 16;
const ITEMS: usize = 150;
const MEMBERS: usize = 3;
const CLIENTS: usize = 4;
/// How long the members may take to have their shares.
const SETTLE_MS: u64 = 60_000;

struct Member(Child);

impl Member {
    fn start(server: &Server, owner: &str, is_cold: bool) -> Self {
        let program = Path::new(env!("CARGO_BIN_EXE_tenure")).with_file_name("examples/cache");
        assert!(program.is_file(), "`cargo build --examples --features testing` makes the example");
        let mut command = Command::new(program);
        command.args(["--server", &format!("http://{}", server.addr), "--owner", owner]);
        if is_cold {
            command.arg("--cold");
        }
        Self(command.stdout(Stdio::null()).spawn().expect("the member starts"))
    }

    /// Drains it, and waits until it has ended.
    async fn drain(mut self) {
        let pid = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw).expect("a pid");
        kill_process(pid, Signal::TERM).expect("it runs");
        let ended = within(ms(SETTLE_MS), async || self.0.try_wait().expect("a child").is_some());
        assert!(ended.await, "the member hands everything over and ends");
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[derive(Default)]
struct Counts {
    hits: AtomicU64,
    misses: AtomicU64,
}

impl Counts {
    fn take(&self) -> (u64, u64) {
        (self.hits.swap(0, Ordering::Relaxed), self.misses.swap(0, Ordering::Relaxed))
    }
}

type Connections = HashMap<String, BufReader<TcpStream>>;

/// Asks the owner of the shard; `None` if there is none, or if it is another one by now.
async fn ask(router: &Router, open: &mut Connections, shard: usize, item: usize) -> Option<bool> {
    let shard = format!("cache/{shard}");
    let address = router.lookup(&shard)?.address()?.to_owned();
    if !open.contains_key(&address) {
        let stream = TcpStream::connect(&address).await.ok()?;
        open.insert(address.clone(), BufReader::new(stream));
    }
    let stream = open.get_mut(&address)?;
    let mut line = String::new();
    let said = async {
        stream.write_all(format!("get {shard} item-{item}\n").as_bytes()).await?;
        stream.read_line(&mut line).await
    };
    if said.await.unwrap_or(0) == 0 {
        open.remove(&address);
        return None;
    }
    match line.split_once(' ') {
        Some(("hit", _)) => Some(true),
        Some(("miss", _)) => Some(false),
        _ => None,
    }
}

/// A client that asks for items for as long as it runs, each again until an owner answers.
async fn client(router: Arc<Router>, counts: Arc<Counts>, seed: u64) {
    let (mut dice, mut open) = (Chance::new(seed), Connections::new());
    loop {
        let (shard, item) = (dice.index(SHARDS), dice.index(ITEMS));
        let hit = loop {
            match ask(&router, &mut open, shard, item).await {
                Some(hit) => break hit,
                None => sleep_ms(2).await,
            }
        };
        let count = if hit { &counts.hits } else { &counts.misses };
        count.fetch_add(1, Ordering::Relaxed);
        sleep_ms(2).await;
    }
}

async fn settled(server: &Server, members: usize) {
    let settled = within(ms(SETTLE_MS), async || {
        let pool = server.get("/v1/pools/cache").await.ok();
        let all = pool["members"].as_array().expect("members");
        let is_even = all.iter().all(|member| member["held"] == member["share"]);
        all.len() == members && is_even && pool["free"] == 0 && pool["keys"] == SHARDS as u64
    });
    assert!(settled.await, "{:#}", server.get("/v1/pools/cache").await.ok());
}

/// The part of all requests that were hits while each member was replaced by a new one, in percent.
async fn hit_rate(is_cold: bool) -> f64 {
    let server = Server::configured(
        "[[policy]]\nprefix = \"cache/\"\npool = \"cache\"\nbalance = true\nwarmup_timeout = \"20s\"\n",
    );
    let mut members: Vec<Member> =
        (0..MEMBERS).map(|at| Member::start(&server, &format!("old-{at}"), is_cold)).collect();
    settled(&server, MEMBERS).await;
    let server_url = format!("http://{}", server.addr);
    let router = Router::follow(Client::new(&server_url).expect("a client"), "cache").await;
    let router = Arc::new(router.expect("a router"));
    let counts = Arc::<Counts>::default();
    // Everything is in the cache before the restart begins.
    let mut open = Connections::new();
    for (shard, item) in (0..SHARDS).flat_map(|shard| (0..ITEMS).map(move |item| (shard, item))) {
        assert!(ask(&router, &mut open, shard, item).await.is_some(), "{shard} {item}");
    }
    let clients: Vec<JoinHandle<()>> = (0..CLIENTS as u64)
        .map(|seed| tokio::spawn(client(router.clone(), counts.clone(), seed)))
        .collect();
    sleep_ms(500).await;
    let (hits, misses) = counts.take();
    assert!(hits > 100 && misses == 0, "{hits} {misses}");
    for at in 0..MEMBERS {
        let next = Member::start(&server, &format!("new-{at}"), is_cold);
        settled(&server, MEMBERS + 1).await;
        members.remove(0).drain().await;
        members.push(next);
        settled(&server, MEMBERS).await;
    }
    let (hits, misses) = counts.take();
    clients.iter().for_each(JoinHandle::abort);
    let rate = 100.0 * hits as f64 / (hits + misses) as f64;
    let how = if is_cold { "cold" } else { "warm" };
    println!("{how}: {hits} hits and {misses} misses in a rolling restart, {rate:.2} % hits");
    rate
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rolling_restart_of_a_cache_costs_next_to_no_hits() {
    let warm = hit_rate(false).await;
    let cold = hit_rate(true).await;
    assert!(warm >= 95.0, "{warm:.2} %");
    assert!(cold < warm - 1.0, "without preparations {cold:.2} %, with them {warm:.2} %");
}
