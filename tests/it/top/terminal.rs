//! `tenure top` on a terminal that `script` makes.

use std::{
    io::{Read as _, Write as _},
    process::{Child, ChildStdin, Stdio},
    sync::{Arc, Mutex},
};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::screen::Screen;
use crate::{
    cli::user::User,
    support::{clock::eventually, harness::Server},
};

/// What is printed when the program has ended, with its exit code.
const ENDED: &str = "ended with ";

/// A running program.
pub struct Terminal {
    script: Child,
    keys: ChildStdin,
    said: Arc<Mutex<Vec<u8>>>,
    user: User,
    dir: TempDir,
}

/// How it starts.
#[derive(Clone, Copy, Default)]
pub struct Start<'a> {
    /// Commands of the shell before it.
    pub before: &'a str,
    pub options: &'a str,
    pub environment: &'a [(&'a str, &'a str)],
}

impl Terminal {
    /// Starts it on 24 rows of 80 columns.
    pub fn start(server: &Server) -> Self {
        Self::with(server, Start { before: "stty rows 24 cols 80", ..Start::default() })
    }

    pub fn with(server: &Server, start: Start<'_>) -> Self {
        let (user, dir) = (User::new(), tempfile::tempdir().expect("a directory"));
        let Start { before, options, environment } = start;
        let (tenure, address) = (env!("CARGO_BIN_EXE_tenure"), server.addr);
        let top = format!("exec {tenure} --server {address} top --interval 200ms {options}");
        let shell =
            format!("{before}\nsh -c 'echo $$ > pid; {top}'\necho \"{ENDED}$?\"\nstty -a\n");
        let mut command = user.program("script");
        command.args(["-qefc", &shell, "/dev/null"]).current_dir(dir.path());
        command.env("TERM", "xterm").env("SHELL", "/bin/sh").envs(environment.iter().copied());
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut script = command.spawn().expect("script runs");
        let keys = script.stdin.take().expect("stdin is piped");
        let mut out = script.stdout.take().expect("stdout is piped");
        let said = Arc::<Mutex<Vec<u8>>>::default();
        let heard = said.clone();
        std::thread::spawn(move || {
            let mut part = [0; 4096];
            while let Ok(length @ 1..) = out.read(&mut part) {
                heard.lock().expect("no panic").extend_from_slice(&part[..length]);
            }
        });
        Self { script, keys, said, user, dir }
    }

    /// Everything that was written to the terminal.
    pub fn said(&self) -> String {
        String::from_utf8_lossy(&self.said.lock().expect("no panic")).into_owned()
    }

    /// The lines that are visible.
    pub fn lines(&self) -> Vec<String> {
        Screen::after(&self.said()).lines()
    }

    /// Waits until a line begins with this.
    pub async fn shows(&self, begin: &str) {
        let what = format!("a line begins with {begin:?}");
        eventually(&what, async || self.lines().iter().any(|line| line.starts_with(begin))).await;
    }

    /// Waits until a line has this in it.
    pub async fn has(&self, part: &str) {
        let what = format!("a line has {part:?}");
        eventually(&what, async || self.lines().iter().any(|line| line.contains(part))).await;
    }

    pub fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).and_then(|()| self.keys.flush()).expect("keys");
    }

    /// Makes a file that the commands before it wait for.
    pub fn touch(&self, name: &str) {
        std::fs::write(self.dir.path().join(name), "").expect("a file");
    }

    pub fn signal(&self, signal: Signal) {
        let pid = std::fs::read_to_string(self.dir.path().join("pid")).expect("its pid");
        let pid = pid.trim().parse().ok().and_then(Pid::from_raw).expect("a pid");
        kill_process(pid, signal).expect("it runs");
    }

    /// Waits for its end. The exit code; the terminal must be as it was.
    pub async fn ends(&mut self) -> i32 {
        eventually("it ends", async || self.script.try_wait().expect("a status").is_some()).await;
        eventually("its last words", async || self.said().contains("echoctl")).await;
        let said = self.said();
        let (before, after) = said.rsplit_once(ENDED).expect("its end");
        let left = before.rfind("\u{1b}[?1049l").expect("it leaves the screen");
        let entered = before.rfind("\u{1b}[?1049h").expect("it entered the screen");
        assert!(entered < left, "it leaves the screen at last");
        assert!(before.rfind("\u{1b}[?25h") > before.rfind("\u{1b}[?25l"), "a cursor is visible");
        for mode in ["icanon", "echo", "isig"] {
            assert!(after.split_whitespace().any(|word| word == mode), "{mode} in {after}");
        }
        let code: String = after.chars().take_while(char::is_ascii_digit).collect();
        code.parse().expect("an exit code")
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.script.kill();
        let _ = self.script.wait();
        if std::thread::panicking() {
            eprintln!("--- {}:\n{}", self.user.home.path().display(), self.lines().join("\n"));
        }
    }
}
