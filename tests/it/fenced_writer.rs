//! A fenced resource, end to end: a worker that is paused for longer than its lease wakes up, writes, and
//! its row does not land. Real processes, a real coordinator, a real PostgreSQL; `examples/fenced_writer.rs`
//! is the worker.

#![allow(
    clippy::disallowed_methods,
    reason = "the checker stands outside and reads the clock that its clients would read"
)]

use std::{
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
};

use crate::support::harness::{PATIENCE, Server, kinds};
use rustix::process::{Pid, Signal, kill_process};
use tokio_postgres::Client;

const TTL_MS: u64 = 3_000;
const WORK_MS: u64 = 500;

/// Takes the rights of an owner away, whose role is called like it: no new connections, and the end of
/// those there are. What is left then fails the fence.
const SHUT_OUT: &str = r#"#!/bin/sh
"$PSQL" --no-psqlrc --quiet --tuples-only --no-align --set ON_ERROR_STOP=1 \
    --set owner="$TENURE_OWNER" "$DATABASE" <<'SQL' | grep -qx 0
ALTER ROLE :"owner" NOLOGIN;
SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE usename = :'owner' \g /dev/null
SELECT count(*) FROM pg_stat_activity WHERE usename = :'owner';
SQL
"#;

/// The worker, as cargo builds it beside the tests.
fn program() -> PathBuf {
    let path = Path::new(env!("CARGO_BIN_EXE_tenure")).with_file_name("examples/fenced_writer");
    assert!(
        path.is_file(),
        "{} is missing; `cargo build --examples --features testing` makes it",
        path.display()
    );
    path
}

struct Worker {
    child: Child,
    said: Receiver<String>,
}

impl Worker {
    fn start(server: &Server, database: &str, key: &str, owner: &str, bare: bool) -> Self {
        let mut command = Command::new(program());
        command.args(["--server", &format!("http://{}", server.addr), "--database", database]);
        command.args(["--key", key, "--owner", owner, "--ttl-ms", &TTL_MS.to_string()]);
        command.args(["--work-ms", &WORK_MS.to_string()]);
        if bare {
            command.arg("--bare");
        }
        let mut child = command.stdout(Stdio::piped()).spawn().expect("the worker starts");
        let pipe = child.stdout.take().expect("stdout is piped");
        let (tell, said) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(pipe).lines().map_while(Result::ok) {
                let _ = tell.send(line);
            }
        });
        Self { child, said }
    }

    fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw).expect("a pid");
        kill_process(pid, signal).expect("it runs");
    }

    /// The next line that begins so.
    fn says(&self, word: &str) -> String {
        loop {
            let line = self.said.recv_timeout(PATIENCE);
            let line = line.unwrap_or_else(|why| panic!("it does not say {word:?}: {why}"));
            if line.starts_with(word) {
                return line;
            }
        }
    }

    /// Passes over what it said so far.
    fn forget(&self) {
        while self.said.try_recv().is_ok() {}
    }

    /// What it says from now on, to its end.
    fn last_words(&mut self) -> Vec<String> {
        let mut words = Vec::new();
        loop {
            match self.said.recv_timeout(PATIENCE) {
                Ok(line) => words.push(line),
                Err(RecvTimeoutError::Disconnected) => return words,
                Err(RecvTimeoutError::Timeout) => panic!("it goes on: {words:?}"),
            }
        }
    }

    fn token(&self) -> i64 {
        let line = self.says("granted ");
        line.trim_start_matches("granted ").parse().expect("a token")
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A database with a role for each worker, and a coordinator that fences there.
struct World {
    database: crate::support::postgres_server::Server,
    server: Server,
    admin: Client,
}

impl World {
    async fn start() -> Self {
        let database = crate::support::postgres_server::Server::start().await;
        let admin = database.client().await;
        let tables = "CREATE TABLE tenure_fence (key text PRIMARY KEY, token bigint NOT NULL); \
             CREATE TABLE entries (id bigserial PRIMARY KEY, key text, writer text, token bigint)";
        admin.batch_execute(tables).await.expect("tables");
        for role in ["old", "new"] {
            let role = format!(
                "CREATE ROLE {role} LOGIN PASSWORD 'hunter2'; \
                 GRANT SELECT, INSERT, UPDATE ON tenure_fence TO {role}; \
                 GRANT INSERT ON entries TO {role}; GRANT USAGE ON entries_id_seq TO {role}"
            );
            admin.batch_execute(&role).await.expect("a role");
        }
        let url = database.url();
        let psql = crate::support::postgres_server::program_path("psql");
        let config = format!(
            "[[plugin]]\nname = \"accounts\"\nkind = \"postgres\"\nurl = {url:?}\n\n\
             [[plugin]]\nname = \"shut-out\"\nkind = \"exec\"\n\
             command = [\"/bin/sh\", \"-c\", {SHUT_OUT:?}]\n\
             environment = {{ PSQL = {psql:?}, DATABASE = {url:?} }}\n\n\
             [[policy]]\nprefix = \"tokens/\"\nfence = [\"accounts\"]\n\n\
             [[policy]]\nprefix = \"rights/\"\nfence = [\"shut-out\"]\n"
        );
        Self { server: Server::configured(&config), database, admin }
    }

    fn worker(&self, key: &str, owner: &str, bare: bool) -> Worker {
        let url = self.database.url().replace("//tenure:", &format!("//{owner}:"));
        Worker::start(&self.server, &url, key, owner, bare)
    }

    /// Who wrote, in that order, and with which token.
    async fn entries(&self) -> Vec<(String, i64)> {
        let rows = self.admin.query("SELECT writer, token FROM entries ORDER BY id", &[]).await;
        rows.expect("rows").iter().map(|row| (row.get(0), row.get(1))).collect()
    }

    /// Pauses a worker between its look at the lease and its write until another one has taken over and
    /// written, and lets it go on. What it then said, and how many rows of it landed after the other's.
    async fn pause_and_wake(&self, key: &str, bare: bool) -> (Vec<String>, usize) {
        let mut old = self.worker(key, "old", bare);
        let first = old.token();
        old.says("written ");
        let new = self.worker(key, "new", bare);
        new.says("ready");
        // What it said meanwhile is of work that may be done by now.
        old.forget();
        old.says("working");
        old.signal(Signal::STOP);
        let before = self.entries().await;
        assert!(!before.is_empty() && before.iter().all(|row| *row == ("old".into(), first)));
        // Not before the lease of the old one ran out.
        let second = new.token();
        assert!(second > first);
        new.says("written ");
        old.forget();
        old.signal(Signal::CONT);
        let said = old.last_words();
        new.says("written ");
        let after = self.entries().await;
        let taken_over = after.iter().position(|row| row.0 == "new").expect("a row of the new one");
        let late = after[taken_over..].iter().filter(|row| row.0 == "old").count();
        (said, late)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_token_of_a_worker_that_slept_is_refused() {
    let world = World::start().await;
    let (said, late) = world.pause_and_wake("tokens/1", false).await;
    assert_eq!(late, 0, "it wrote after its successor");
    assert!(said.last().is_some_and(|last| last.starts_with("refused ")), "{said:?}");
    let events = world.server.events_of("tokens/1").await;
    assert_eq!(kinds(&events), ["granted", "expired", "fencing", "fenced", "granted"]);
}

/// The new owner's token alone does it, too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_any_fence_the_new_owners_token_shuts_the_old_one_out() {
    let world = World::start().await;
    let (said, late) = world.pause_and_wake("unfenced/1", false).await;
    assert_eq!(late, 0, "it wrote after its successor");
    assert!(said.last().is_some_and(|last| last.starts_with("refused ")), "{said:?}");
    assert_eq!(
        kinds(&world.server.events_of("unfenced/1").await),
        ["granted", "expired", "granted"]
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_tokens_a_fence_before_the_grant_takes_its_rights_away() {
    let world = World::start().await;
    let (said, late) = world.pause_and_wake("rights/1", true).await;
    assert_eq!(late, 0, "it wrote after its successor");
    assert!(said.last().is_some_and(|last| last.starts_with("shut out ")), "{said:?}");
    let again = world.database.url().replace("//tenure:", "//old:");
    let why = tokio_postgres::connect(&again, tokio_postgres::NoTls).await.err().expect("refused");
    let why = why.as_db_error().expect("the server says why").message();
    assert!(why.contains("not permitted to log in"), "{why}");
    let events = world.server.events_of("rights/1").await;
    assert_eq!(kinds(&events), ["granted", "expired", "fencing", "fenced", "granted"]);
}

/// What the others are held against: with neither, the row lands.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_tokens_and_fences_the_row_lands_that_must_not() {
    let world = World::start().await;
    let (_, late) = world.pause_and_wake("unfenced/1", true).await;
    assert!(late > 0, "the pause was too short to show anything");
}
