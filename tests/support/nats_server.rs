//! Real NATS servers for tests: one, or a cluster of three on loopback. They are killed, by their own
//! process ids, when the value is dropped.

#![allow(dead_code, reason = "each test binary uses what it needs")]

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    net::{SocketAddr, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use crate::support::ports::free_port;

/// How long servers get to be ready, in steps of [`STEP`].
const STEPS: u32 = 600;
const STEP: Duration = Duration::from_millis(50);

/// When the server syncs its files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sync {
    /// With every write: an acknowledged write survives a power failure.
    Always,
    /// Every two minutes, its default.
    Default,
}

/// Where the server program is: `NATS_SERVER`, or else `.tools/bin/nats-server`.
///
/// # Panics
/// When there is none: a test that needs it fails, it does not pass unseen.
pub fn program() -> PathBuf {
    let path = std::env::var_os("NATS_SERVER").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join(".tools/bin/nats-server"),
        PathBuf::from,
    );
    assert!(path.is_file(), "{} is missing; `make nats` fetches it", path.display());
    path
}

/// One server process, and the directory that it keeps its files in.
pub struct Server {
    dir: PathBuf,
    own_dir: bool,
    port: u16,
    child: Option<Child>,
}

fn temp_dir() -> PathBuf {
    let (pid, port) = (std::process::id(), free_port());
    let dir = std::env::temp_dir().join(format!("tenure-nats-{pid}-{port}"));
    fs::create_dir_all(&dir).expect("a directory for the server");
    dir
}

fn store_block(dir: &Path, sync: Sync) -> String {
    let sync = if sync == Sync::Always { "sync_interval: always" } else { "" };
    format!("jetstream {{\n  store_dir: {:?}\n  {sync}\n}}\n", dir.join("data"))
}

impl Server {
    /// A single server that syncs every write.
    pub fn start() -> Self {
        Self::start_with(Sync::Always, "")
    }

    /// A single server; `more` is added to its configuration.
    pub fn start_with(sync: Sync, more: &str) -> Self {
        let (dir, port) = (temp_dir(), free_port());
        let config = format!("listen: \"127.0.0.1:{port}\"\n{}{more}\n", store_block(&dir, sync));
        let mut server = Self { dir, own_dir: true, port, child: None };
        server.configure(&config);
        server.run();
        server
    }

    fn configure(&self, config: &str) {
        fs::write(self.dir.join("server.conf"), config).expect("the server's configuration");
    }

    fn spawn(&mut self) {
        let log = fs::OpenOptions::new().create(true).append(true).open(self.dir.join("log"));
        let log = log.expect("the server's log");
        let child = Command::new(program())
            .arg("-c")
            .arg(self.dir.join("server.conf"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("the server starts");
        self.child = Some(child);
    }

    /// Starts the server, on the files that it left, and waits until it answers.
    pub fn run(&mut self) {
        self.spawn();
        self.await_answer();
    }

    /// Starts the server without JetStream, so that a test can answer in the place of the stream's leader.
    pub fn run_without_streams(&mut self) {
        let before = fs::read_to_string(self.dir.join("server.conf")).expect("its configuration");
        self.configure(&format!("listen: \"127.0.0.1:{}\"\n", self.port));
        self.run();
        self.configure(&before);
    }

    /// Starts the server with something added to its configuration, for this run alone.
    pub fn run_with(&mut self, more: &str) {
        let before = fs::read_to_string(self.dir.join("server.conf")).expect("its configuration");
        self.configure(&format!("{before}{more}\n"));
        self.run();
        self.configure(&before);
    }

    fn await_answer(&self) {
        for _ in 0..STEPS {
            if self.answers() {
                return;
            }
            pause();
        }
        panic!("the server did not answer:\n{}", self.log());
    }

    /// Whether it answers a client.
    pub fn answers(&self) -> bool {
        let address = SocketAddr::from(([127, 0, 0, 1], self.port));
        let Ok(stream) = TcpStream::connect_timeout(&address, STEP) else { return false };
        let _ = stream.set_read_timeout(Some(Duration::from_secs(1)));
        let mut greeting = String::new();
        BufReader::new(&stream).read_line(&mut greeting).is_ok() && greeting.starts_with("INFO ")
    }

    pub fn addr(&self) -> SocketAddr {
        let url = self.url();
        url.trim_start_matches("nats://").parse().expect("an address")
    }

    /// Where clients connect.
    pub fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    /// What it wrote to its log.
    pub fn log(&self) -> String {
        fs::read_to_string(self.dir.join("log")).unwrap_or_default()
    }

    /// Its process id, while it runs.
    pub fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    /// SIGKILL. Its files stay.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// SIGSTOP: once this returns it answers nothing, and its connections stay.
    ///
    /// # Panics
    /// When it does not stop.
    pub fn pause(&self) {
        self.signal("-STOP");
        let Some(pid) = self.pid() else { return };
        for _ in 0..STEPS {
            if is_stopped(pid) {
                return;
            }
            pause();
        }
        panic!("{pid} does not stop");
    }

    /// SIGCONT.
    pub fn resume(&self) {
        self.signal("-CONT");
    }

    fn signal(&self, signal: &str) {
        if let Some(pid) = self.pid() {
            let sent = Command::new("kill").args([signal, &pid.to_string()]).status();
            assert!(sent.is_ok_and(|status| status.success()), "kill {signal} {pid}");
        }
    }

    /// Where it keeps what was written.
    pub fn data_dir(&self) -> PathBuf {
        self.dir.join("data")
    }

    /// Removes everything that was written. It must not run.
    pub fn wipe(&self) {
        let _ = fs::remove_dir_all(self.data_dir());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
        if self.own_dir {
            let _ = fs::remove_dir_all(&self.dir);
        }
    }
}

/// Three servers that keep three copies.
pub struct Cluster {
    /// The servers.
    pub servers: Vec<Server>,
    dir: PathBuf,
}

impl Cluster {
    /// Starts three servers and waits until they agreed on a leader.
    pub fn start(sync: Sync) -> Self {
        let (dir, ports) = (temp_dir(), [(); 6].map(|()| free_port()));
        let (client_ports, routes) = ports.split_at(3);
        let all: Vec<String> = routes.iter().map(|p| format!("\"nats://127.0.0.1:{p}\"")).collect();
        let mut servers = Vec::new();
        for (at, (port, route)) in client_ports.iter().zip(routes).enumerate() {
            let dir = dir.join(at.to_string());
            fs::create_dir_all(&dir).expect("a directory for the server");
            let config = format!(
                "server_name: s{at}\nlisten: \"127.0.0.1:{port}\"\n{}cluster {{\n  name: c\n  listen: \
                 \"127.0.0.1:{route}\"\n  routes: [{}]\n}}\n",
                store_block(&dir, sync),
                all.join(", "),
            );
            let mut server = Server { dir, own_dir: false, port: *port, child: None };
            server.configure(&config);
            server.spawn();
            servers.push(server);
        }
        let cluster = Self { servers, dir };
        cluster.servers.iter().for_each(Server::await_answer);
        cluster.await_jetstream();
        cluster
    }

    /// All servers, comma separated.
    pub fn url(&self) -> String {
        self.servers.iter().map(Server::url).collect::<Vec<_>>().join(",")
    }

    /// Waits until JetStream answers on the first server that runs.
    pub fn await_jetstream(&self) {
        let running = self.servers.iter().find(|server| server.pid().is_some());
        let server = running.expect("one server runs");
        for _ in 0..STEPS {
            if jetstream_answers(server.port).unwrap_or(false) {
                return;
            }
            pause();
        }
        panic!("the cluster elected no leader:\n{}", server.log());
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.servers.clear();
        let _ = fs::remove_dir_all(&self.dir);
    }
}

/// Asks for the account's state, which only the leader of JetStream gives.
fn jetstream_answers(port: u16) -> std::io::Result<bool> {
    let mut stream = TcpStream::connect(SocketAddr::from(([127, 0, 0, 1], port)))?;
    stream.set_read_timeout(Some(Duration::from_secs(2)))?;
    stream.write_all(
        b"CONNECT {\"verbose\":false}\r\nSUB _INBOX.ready 1\r\nPUB $JS.API.INFO _INBOX.ready 0\r\n\r\n",
    )?;
    let mut lines = BufReader::new(stream).lines();
    while let Some(line) = lines.next().transpose()? {
        if line.starts_with("MSG _INBOX.ready") {
            let body = lines.next().transpose()?.unwrap_or_default();
            return Ok(!body.contains("\"error\""));
        }
    }
    Ok(false)
}

/// Whether all threads of a process are stopped: the signal is sent before they are.
fn is_stopped(pid: u32) -> bool {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { return true };
    let state = |thread: fs::DirEntry| {
        let stat = fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next())
    };
    threads.flatten().all(|thread| matches!(state(thread), None | Some('T' | 't' | 'Z' | 'X')))
}

#[allow(clippy::disallowed_methods, reason = "a test's own thread may wait")]
fn pause() {
    std::thread::sleep(STEP);
}
