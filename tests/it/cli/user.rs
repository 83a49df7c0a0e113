//! A user of the command line, with a home of his own.

use std::{
    io::{BufRead as _, BufReader},
    process::{Child, ChildStdout, Command, Output, Stdio},
};

use serde_json::Value;
use tempfile::TempDir;

use crate::support::harness::Server;

/// A user whose home directory is empty, and whose environment has no variables of tenure.
pub struct User {
    pub home: TempDir,
}

/// What a command did.
#[derive(Debug)]
pub struct Ran {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Ran {
    fn of(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
        let code = output.status.code().expect("no signal ended it");
        Self { code, out: text(output.stdout), err: text(output.stderr) }
    }

    /// What it printed, if it succeeded.
    #[track_caller]
    pub fn ok(&self) -> &str {
        assert_eq!(self.code, 0, "{self:?}");
        self.out.trim_end()
    }

    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(self.ok()).expect("JSON")
    }

    /// The problem document, if it failed with this code.
    #[track_caller]
    pub fn problem(&self, code: i32) -> Value {
        assert_eq!(self.code, code, "{self:?}");
        serde_json::from_str(&self.err).expect("one JSON document")
    }

    /// Whether it failed with this code and these words.
    #[track_caller]
    pub fn refused(&self, code: i32, words: &str) {
        assert_eq!(self.code, code, "{self:?}");
        assert!(self.err.contains(words), "{words:?} is not in {self:?}");
    }
}

impl User {
    pub fn new() -> Self {
        Self { home: tempfile::tempdir().expect("a directory") }
    }

    /// A program in this user's environment.
    pub fn program(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("TENURE") {
                command.env_remove(name);
            }
        }
        command.env_remove("XDG_CONFIG_HOME").env_remove("NO_COLOR");
        command.env("HOME", self.home.path()).env("USER", "ops").stdin(Stdio::null());
        command
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.program(env!("CARGO_BIN_EXE_tenure"));
        command.args(arguments);
        command
    }

    /// Runs a command that finds its server itself.
    pub fn run(&self, arguments: &[&str]) -> Ran {
        Self::end(self.command(arguments))
    }

    /// Runs a command at this server.
    pub fn at(&self, server: &Server, arguments: &[&str]) -> Ran {
        let url = format!("http://{}", server.addr);
        self.run(&[&["--server", &url], arguments].concat())
    }

    pub fn end(mut command: Command) -> Ran {
        Ran::of(command.output().expect("the program runs"))
    }

    /// Starts a command at this server that does not end by itself.
    pub fn follow(&self, server: &Server, arguments: &[&str]) -> Following {
        let url = format!("http://{}", server.addr);
        let mut command = self.command(&[&["--server", &url], arguments].concat());
        let mut child = command.stdout(Stdio::piped()).spawn().expect("the program runs");
        let lines = BufReader::new(child.stdout.take().expect("a pipe"));
        Following { child, lines }
    }
}

/// A command that runs until this is dropped.
pub struct Following {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Following {
    /// The next line; waits for it.
    pub fn line(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).expect("a line");
        assert!(!line.is_empty(), "it ended: {:?}", self.child.wait());
        line.trim_end().to_owned()
    }

    /// The next line with these words.
    pub fn line_with(&mut self, words: &str) -> String {
        loop {
            let line = self.line();
            if line.contains(words) {
                return line;
            }
        }
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
