//! A real PostgreSQL for tests, on files of its own. It is ended, by its own process id, when the value is
//! dropped.

#![allow(dead_code, reason = "each test binary uses what it needs")]

use std::{
    fs,
    os::unix::fs::{PermissionsExt, chown},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};

use crate::support::ports::free_port;

/// The user, and its password.
const USER: &str = "tenure";
const PASSWORD: &str = "hunter2";
/// Who it runs as when the tests run as root, which it refuses to.
const NOBODY: u32 = 65_534;

/// A server with an empty database.
pub struct Server {
    dir: tempfile::TempDir,
    port: u16,
    tls: bool,
    child: Option<Child>,
}

/// Where its programs are: `POSTGRES_BIN`, or else Debian's newest.
///
/// # Panics
/// When there are none: a test that needs them fails, it does not pass unseen.
fn programs() -> PathBuf {
    if let Some(dir) = std::env::var_os("POSTGRES_BIN") {
        return dir.into();
    }
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let version = |path: &PathBuf| {
        path.file_name()?
            .to_str()?
            .parse::<u32>()
            .ok()
            .filter(|_| path.join("bin/postgres").is_file())
    };
    let newest = versions.map(|entry| entry.path()).max_by_key(version);
    let newest = newest.filter(|path| version(path).is_some());
    newest.expect("PostgreSQL is missing; `make debian` fetches it").join("bin")
}

/// Where one of them is.
pub fn program_path(name: &str) -> PathBuf {
    programs().join(name)
}

/// A program of it, as somebody who is not root.
fn program(name: &str) -> Command {
    let path = programs().join(name);
    if !rustix::process::geteuid().is_root() {
        return Command::new(path);
    }
    let mut command = Command::new("setpriv");
    let nobody = NOBODY.to_string();
    command.args(["--reuid", &nobody, "--regid", &nobody, "--clear-groups"]).arg(path);
    command
}

impl Server {
    /// Starts one, and waits until it answers.
    pub async fn start() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let port = free_port();
        let password = dir.path().join("password");
        fs::write(&password, PASSWORD).expect("written");
        if rustix::process::geteuid().is_root() {
            for path in [dir.path(), &password] {
                chown(path, Some(NOBODY), Some(NOBODY)).expect("given away");
            }
        }
        let data = dir.path().join("data");
        let made = program("initdb")
            .args(["--no-sync", "--auth=scram-sha-256", "--username", USER, "--encoding=UTF8"])
            .arg(format!("--pwfile={}", password.display()))
            .arg("--pgdata")
            .arg(&data)
            .current_dir(dir.path())
            .output()
            .expect("initdb runs");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let mut server = Self { dir, port, tls: false, child: None };
        server.run().await;
        server
    }

    /// Starts it on the files that it left.
    pub async fn run(&mut self) {
        let log = fs::File::create(self.dir.path().join("log")).expect("a log");
        let child = program("postgres")
            .arg("-D")
            .arg(self.dir.path().join("data"))
            .args(["-p", &self.port.to_string(), "-c", "listen_addresses=127.0.0.1"])
            .args(["-c", if self.tls { "ssl=on" } else { "ssl=off" }])
            .args(["-c", "fsync=off", "-c", "unix_socket_directories="])
            .current_dir(self.dir.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn();
        self.child = Some(child.expect("the server starts"));
        for _ in 0..600 {
            if tokio_postgres::connect(&self.url(), tokio_postgres::NoTls).await.is_ok() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("{}", fs::read_to_string(self.dir.path().join("log")).unwrap_or_default());
    }

    /// Starts it anew, with TLS by this certificate.
    pub async fn secure(&mut self, certificate: &Path, key: &Path) {
        self.stop();
        for (from, name) in [(certificate, "server.crt"), (key, "server.key")] {
            let path = self.dir.path().join("data").join(name);
            fs::copy(from, &path).expect("copied");
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("private");
            if rustix::process::geteuid().is_root() {
                chown(&path, Some(NOBODY), Some(NOBODY)).expect("given away");
            }
        }
        self.tls = true;
        self.run().await;
    }

    /// Ends it at once: connections break.
    pub fn stop(&mut self) {
        let Some(mut child) = self.child.take() else { return };
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        if let Some(pid) = pid {
            let _ = kill_process(pid, Signal::QUIT);
        }
        let _ = child.wait();
    }

    /// Where it is, with the user's password.
    pub fn url(&self) -> String {
        format!("postgres://{USER}:{PASSWORD}@127.0.0.1:{}/postgres", self.port)
    }

    /// A directory for whatever a test needs.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// A connection of a program that uses the database.
    pub async fn client(&self) -> tokio_postgres::Client {
        let connected = tokio_postgres::connect(&self.url(), tokio_postgres::NoTls).await;
        let (client, connection) = connected.expect("connected");
        tokio::spawn(connection);
        client
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}
