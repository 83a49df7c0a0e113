//! A coordinator with its data in a directory, for tests that look at one process closely.

use std::{
    net::SocketAddr,
    ops::Deref,
    path::{Path, PathBuf},
    time::Instant,
};

use rustix::process::Signal;
use tempfile::TempDir;

use crate::support::{node::Node, process::Ended};

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
    node: Node,
    dir: Dir,
    sets: Vec<String>,
}

/// What a coordinator leaves when it has ended.
#[derive(Debug)]
pub struct Stopped {
    ended: Ended,
    dir: Dir,
    sets: Vec<String>,
}

impl Deref for Stopped {
    type Target = Ended;

    fn deref(&self) -> &Ended {
        &self.ended
    }
}

fn owned(sets: &[&str]) -> Vec<String> {
    sets.iter().map(|&set| set.to_owned()).collect()
}

fn node(dir: &Path, sets: &[String], environment: &[(&str, &str)]) -> Node {
    node_at([127, 0, 0, 1], dir, sets, environment)
}

fn node_at(ip: [u8; 4], dir: &Path, sets: &[String], environment: &[(&str, &str)]) -> Node {
    // Leases of pools may move as soon as they are granted, unless a test says otherwise.
    let environment = [&[("TENURE_TEST_MIN_AGE_MS", "0")], environment].concat();
    let mut all = vec![format!("store.embedded.data_dir={}", dir.display())];
    all.extend_from_slice(sets);
    let node = Node::at(SocketAddr::from((ip, 0)), "the server", &all, &environment);
    if dir.ends_with(DATA) { node.configured(&dir.with_file_name(CONFIG)) } else { node }
}

impl Server {
    /// A new store, default settings.
    pub fn start() -> Self {
        Self::with(&[])
    }

    /// A new store, and settings (`section.key=value`) that differ from the default.
    pub fn with(sets: &[&str]) -> Self {
        Self::on(Dir::Own(tempfile::tempdir().expect("a directory")), owned(sets))
    }

    /// [`Self::with`], at another address.
    pub fn listening(ip: [u8; 4], sets: &[&str]) -> Self {
        let (started, sets) = (Instant::now(), owned(sets));
        let dir = Dir::Own(tempfile::tempdir().expect("a directory"));
        let mut node = node_at(ip, dir.path(), &sets, &[]);
        let addr = node.listens().unwrap_or_else(|ended| panic!("it ended: {}", ended.said));
        Self { addr, started, node, dir, sets }
    }

    /// A new store, and this settings file.
    pub fn configured(config: &str) -> Self {
        Self::configured_in(config, &[])
    }

    /// [`Self::configured`], and variables of its environment.
    pub fn configured_in(config: &str, environment: &[(&str, &str)]) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        std::fs::write(dir.path().join(CONFIG), config).expect("a settings file");
        let data = dir.path().join(DATA);
        let dir = Dir::Configured { data, _home: dir };
        Self::started(Self::try_on(dir, Vec::new(), environment))
    }

    /// Replaces its settings file, which it has not read yet.
    pub fn configure(&self, config: &str) {
        std::fs::write(self.settings_file(), config).expect("a settings file");
    }

    pub fn settings_file(&self) -> PathBuf {
        self.dir().with_file_name(CONFIG)
    }

    /// A store in this directory, which stays.
    pub fn at(dir: &Path, sets: &[&str]) -> Self {
        Self::on(Dir::Lent(dir.to_owned()), owned(sets))
    }

    /// A new store, and a process that may have so many files open.
    pub fn with_files(files: usize) -> Self {
        let started = Instant::now();
        let dir = Dir::Own(tempfile::tempdir().expect("a directory"));
        let mut node = node(dir.path(), &[], &[]).with_files(files);
        match node.listens() {
            Ok(addr) => Self { addr, started, node, dir, sets: Vec::new() },
            Err(ended) => panic!("the server did not listen; it said:\n{}", ended.said),
        }
    }

    fn on(dir: Dir, sets: Vec<String>) -> Self {
        Self::started(Self::try_on(dir, sets, &[]))
    }

    fn started(tried: Result<Self, Stopped>) -> Self {
        tried.unwrap_or_else(|stopped| {
            panic!("the server did not listen ({:?}); it said:\n{}", stopped.status, stopped.said)
        })
    }

    /// One that may end before it listens, with variables of its environment.
    fn try_on(dir: Dir, sets: Vec<String>, environment: &[(&str, &str)]) -> Result<Self, Stopped> {
        let started = Instant::now();
        let mut node = node(dir.path(), &sets, environment);
        match node.listens() {
            Ok(addr) => Ok(Self { addr, started, node, dir, sets }),
            Err(ended) => Err(Stopped { ended, dir, sets }),
        }
    }

    /// Starts one that must refuse to run.
    pub fn refuse(dir: &Path, sets: &[&str]) -> Ended {
        let mut node = node(dir, &owned(sets), &[]);
        match node.listens() {
            Ok(_) => panic!("it listens; it said:\n{}", node.said()),
            Err(ended) => ended,
        }
    }

    pub fn pid(&self) -> u32 {
        self.node.process().pid()
    }

    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// What it said so far.
    pub fn said(&self) -> String {
        self.node.said()
    }

    /// SIGKILL.
    pub fn kill(mut self) -> Stopped {
        let ended = self.node.kill();
        Stopped { ended, dir: self.dir, sets: self.sets }
    }

    /// Sends it a signal, without waiting.
    pub fn signal(&self, signal: Signal) {
        self.node.signal(signal);
    }

    /// Whether it has ended.
    pub fn has_ended(&mut self) -> bool {
        self.node.process_mut().ended().is_some()
    }

    /// Waits for its end.
    pub fn wait(mut self) -> Stopped {
        let ended = self.node.wait();
        Stopped { ended, dir: self.dir, sets: self.sets }
    }
}

impl Stopped {
    /// Starts it again on the same store.
    pub fn restart(self) -> Server {
        Server::on(self.dir, self.sets)
    }

    /// The same, with variables of its environment; it may end before it listens.
    pub fn try_restart(self, environment: &[(&str, &str)]) -> Result<Server, Self> {
        Server::try_on(self.dir, self.sets, environment)
    }

    pub fn dir(&self) -> &Path {
        self.dir.path()
    }
}
