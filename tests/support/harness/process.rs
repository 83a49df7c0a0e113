//! The child process.

use std::{
    io::{BufRead, BufReader, Read},
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::{Arc, Mutex, PoisonError, mpsc},
    time::{Duration, Instant},
};

use tempfile::TempDir;

/// How long a server may take until it listens.
const START: Duration = Duration::from_secs(30);

/// The directory of a store that has a settings file beside it, and that file.
const DATA: &str = "data-of-a-configured-server";
const CONFIG: &str = "tenure.toml";

/// Where a store lives: removed at the end, unless it is somebody else's.
#[derive(Debug)]
pub enum Dir {
    Own(TempDir),
    /// A directory in another one, with a settings file beside it.
    Configured {
        data: PathBuf,
        _home: TempDir,
    },
    Lent(PathBuf),
}

impl Dir {
    pub fn path(&self) -> &Path {
        match self {
            Self::Own(dir) => dir.path(),
            Self::Configured { data, .. } => data,
            Self::Lent(dir) => dir,
        }
    }
}

/// A coordinator that listens.
#[derive(Debug)]
pub struct Server {
    pub addr: SocketAddr,
    /// When it was started: no promise of the process before can end later than a ttl after it.
    pub started: Instant,
    child: Child,
    stderr: Arc<Mutex<String>>,
    dir: Option<Dir>,
    sets: Vec<String>,
}

/// What a coordinator leaves when it has ended.
#[derive(Debug)]
pub struct Stopped {
    pub status: ExitStatus,
    pub stderr: String,
    dir: Dir,
    sets: Vec<String>,
}

/// A coordinator that refused to start.
#[derive(Debug)]
pub struct Refused {
    pub status: ExitStatus,
    pub stderr: String,
}

impl Server {
    /// A new store, default settings.
    pub fn start() -> Self {
        Self::with(&[])
    }

    /// A new store, and settings (`section.key=value`) that differ from the default.
    pub fn with(sets: &[&str]) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        Self::on(Dir::Own(dir), sets.iter().map(|&set| set.to_owned()).collect())
    }

    /// A new store, and this settings file.
    pub fn configured(config: &str) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        std::fs::write(dir.path().join(CONFIG), config).expect("a settings file");
        let data = dir.path().join(DATA);
        Self::on(Dir::Configured { data, _home: dir }, Vec::new())
    }

    /// Replaces its settings file, which it has not read yet.
    pub fn configure(&self, config: &str) {
        std::fs::write(self.dir().with_file_name(CONFIG), config).expect("a settings file");
    }

    /// A store in this directory, which stays.
    pub fn at(dir: &Path, sets: &[&str]) -> Self {
        Self::on(Dir::Lent(dir.to_owned()), sets.iter().map(|&set| set.to_owned()).collect())
    }

    fn on(dir: Dir, sets: Vec<String>) -> Self {
        Self::try_on(dir, sets, &[]).unwrap_or_else(|stopped| {
            let Stopped { status, stderr, .. } = stopped;
            panic!("the server did not listen ({status:?}); it said:\n{stderr}")
        })
    }

    /// One that may end before it listens, with variables of its environment.
    fn try_on(dir: Dir, sets: Vec<String>, environment: &[(&str, &str)]) -> Result<Self, Stopped> {
        let started = Instant::now();
        let mut child = spawn(dir.path(), &sets, environment);
        let pipe = child.stderr.take().expect("stderr is piped");
        let stderr = Arc::new(Mutex::new(String::new()));
        let (listening, listens) = mpsc::channel();
        let heard = stderr.clone();
        let listener = std::thread::spawn(move || listen_to(pipe, &heard, &listening));
        match listens.recv_timeout(START) {
            Ok(addr) => Ok(Self { addr, started, child, stderr, dir: Some(dir), sets }),
            Err(why) => {
                if why == mpsc::RecvTimeoutError::Timeout {
                    let _ = child.kill();
                }
                let status = child.wait().expect("the child ends");
                let _ = listener.join();
                let stderr = stderr.lock().unwrap_or_else(PoisonError::into_inner).clone();
                Err(Stopped { status, stderr, dir, sets })
            }
        }
    }

    /// Starts one that is to refuse.
    pub fn refuse(dir: &Path, sets: &[&str]) -> Refused {
        let sets: Vec<_> = sets.iter().map(|&set| set.to_owned()).collect();
        let mut child = spawn(dir, &sets, &[]);
        let mut stderr = String::new();
        let mut pipe = child.stderr.take().expect("stderr is piped");
        // Ends when the process does; one that wrongly listens ends with the deadline.
        let pid = child.id();
        let (done, over) = mpsc::channel();
        let guard = std::thread::spawn(move || {
            if over.recv_timeout(START).is_err() {
                signal(pid, "KILL");
            }
        });
        pipe.read_to_string(&mut stderr).expect("stderr is UTF-8");
        let status = child.wait().expect("the child ends");
        let _ = done.send(());
        let _ = guard.join();
        Refused { status, stderr }
    }

    #[allow(dead_code, reason = "not every test that has this harness looks at the process")]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn dir(&self) -> &Path {
        self.dir.as_ref().expect("it runs").path()
    }

    /// What it said so far.
    pub fn stderr(&self) -> String {
        self.stderr.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// SIGKILL.
    pub fn kill(mut self) -> Stopped {
        self.child.kill().expect("it runs");
        self.wait()
    }

    /// SIGTERM, or another, without waiting.
    pub fn signal(&self, name: &str) {
        signal(self.child.id(), name);
    }

    /// Whether it has ended.
    #[allow(dead_code, reason = "the tests of crashes use it")]
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().expect("a child").is_some()
    }

    /// Waits for its end.
    pub fn wait(mut self) -> Stopped {
        let status = self.child.wait().expect("the child ends");
        Stopped {
            status,
            stderr: self.stderr(),
            dir: self.dir.take().expect("it ran"),
            sets: std::mem::take(&mut self.sets),
        }
    }
}

impl Stopped {
    /// Starts it again on the same store.
    pub fn restart(self) -> Server {
        Server::on(self.dir, self.sets)
    }

    /// The same, with variables of its environment; it may end before it listens.
    #[allow(dead_code, reason = "the tests of crashes use it")]
    pub fn try_restart(self, environment: &[(&str, &str)]) -> Result<Server, Self> {
        Server::try_on(self.dir, self.sets, environment)
    }

    pub fn dir(&self) -> &Path {
        self.dir.path()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.dir.is_none() {
            return;
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            let said = self.stderr();
            let tail = said.len().saturating_sub(16 * 1024);
            let tail = (tail..=said.len()).find(|&at| said.is_char_boundary(at)).unwrap_or(0);
            eprintln!("--- the server said:\n{}---", &said[tail..]);
        }
    }
}

fn spawn(dir: &Path, sets: &[String], environment: &[(&str, &str)]) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tenure"));
    command.args(["serve", "--listen", "127.0.0.1:0", "--data-dir"]).arg(dir);
    if dir.ends_with(DATA) {
        command.arg("--config").arg(dir.with_file_name(CONFIG));
    }
    for set in sets {
        command.arg("--set").arg(set);
    }
    // Leases of pools may move as soon as they are granted.
    command.env("TENURE_TEST_MIN_HOLD_MS", "0");
    command.envs(environment.iter().copied());
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    command.spawn().expect("the program starts")
}

fn listen_to(pipe: impl Read, heard: &Mutex<String>, listening: &mpsc::Sender<SocketAddr>) {
    for line in BufReader::new(pipe).lines().map_while(Result::ok) {
        // A process that is killed may leave half of the line.
        let addr = line.strip_prefix("listening on http://").and_then(|addr| addr.parse().ok());
        if let Some(addr) = addr {
            let _ = listening.send(addr);
        }
        let mut heard = heard.lock().unwrap_or_else(PoisonError::into_inner);
        heard.push_str(&line);
        heard.push('\n');
    }
}

fn signal(pid: u32, name: &str) {
    let command = format!("kill -{name} {pid}");
    let _ = Command::new("sh").args(["-c", &command]).stderr(Stdio::null()).status();
}
