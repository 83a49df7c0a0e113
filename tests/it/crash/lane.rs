//! One server after another on one directory, each of them killed under load.

use std::{fmt, io, os::unix::process::ExitStatusExt, pin::pin};

use serde_json::Value;
use tenure::clock::Chance;

use crate::crash::{
    moment::Moment,
    worker::{Notes, Worker, connect},
};
use crate::history::{Counts, Event, carry, check, committed};

use crate::support::{
    clock::now,
    harness::{Connection, PATIENCE, Reply, Server, ms, process::Stopped},
    process::Ended,
};

/// Connections that make the load.
const WORKERS: usize = 8;
/// A log that is compacted every few cycles, and holds several.
const SETTINGS: [&str; 3] =
    ["store.embedded.segment_size=64KiB", "store.embedded.min_log_size=1MiB", "telemetry.log=warn"];
const SIGKILL: i32 = 9;
/// A part of the history that is judged at once, in lines.
const PART: usize = 2_000;

/// What happened in some cycles.
#[derive(Clone, Copy, Debug, Default)]
pub struct Seen {
    pub cycles: u64,
    /// Killed by the clock; at a step; of these, before it listened.
    by_time: u64,
    at_a_step: u64,
    at_a_start: u64,
    counts: Counts,
}

impl Seen {
    pub fn add(&mut self, other: Self) {
        self.cycles += other.cycles;
        self.by_time += other.by_time;
        self.at_a_step += other.at_a_step;
        self.at_a_start += other.at_a_start;
        self.counts = self.counts.and(&other.counts);
    }

    pub fn check_that_there_was_load(&self) {
        let Self { cycles, by_time, at_a_step, at_a_start, counts } = self;
        assert!(*cycles < 50 || (*by_time > 0 && *at_a_step > 0 && *at_a_start > 0), "{self}");
        let Counts { grants, releases, commits, stood, .. } = *counts;
        let least = [grants, releases, commits, stood].into_iter().min();
        assert!(*cycles < 50 || least > Some(0), "there was no load: {self}");
    }
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cycles, by_time, at_a_step, at_a_start, counts } = self;
        write!(
            f,
            "{cycles} cycles: {by_time} killed by the clock, {at_a_step} at a step of the disk, \
             {at_a_start} of them before they served; {counts}"
        )
    }
}

#[derive(Debug)]
pub struct Lane {
    pub seen: Seen,
    chance: Chance,
    notes: Notes,
    workers: Vec<Worker>,
    /// How far the changes were read.
    after: Option<String>,
}

impl Lane {
    pub fn new(seed: u64) -> Self {
        let workers = (0..WORKERS).map(|n| Worker::new(n, seed ^ (n as u64 + 1) << 32)).collect();
        Self {
            seen: Seen::default(),
            chance: Chance::new(seed),
            notes: Notes::default(),
            workers,
            after: None,
        }
    }

    pub async fn run(&mut self, cycles: u64) {
        let mut stopped = Server::with(&SETTINGS).kill();
        for cycle in 0..cycles {
            let moment = Moment::of(cycle, &mut self.chance);
            stopped = self.cycle(stopped, moment).await;
            self.seen.cycles += 1;
        }
        let server = stopped.restart();
        self.look(&server).await.expect("nobody kills this one");
        self.judge();
    }

    /// All that was written down since it was judged.
    fn judge(&mut self) {
        let lines = self.notes.log.take();
        let report = check(&lines);
        assert!(report.violations.is_empty(), "{report}");
        self.seen.counts = self.seen.counts.and(&report.counts);
        for line in carry(&lines) {
            self.notes.log.push(line.t, line.event);
        }
    }

    async fn cycle(&mut self, stopped: Stopped, moment: Moment) -> Stopped {
        let variables = moment.step.as_deref().map(|step| ("TENURE_TEST_KILL_AT", step));
        let stopped = match stopped.try_restart(variables.as_slice()) {
            Ok(server) => self.serve(server, &moment).await,
            Err(stopped) => {
                self.seen.at_a_start += 1;
                self.seen.at_a_step += 1;
                stopped
            }
        };
        let Ended { status, said } = &*stopped;
        assert_eq!(status.signal(), Some(SIGKILL), "{moment:?}, {status:?}; it said:\n{said}");
        assert!(!said.contains("panicked"), "{moment:?}; it said:\n{said}");
        stopped
    }

    /// From its first answer to its end.
    async fn serve(&mut self, mut server: Server, moment: &Moment) -> Stopped {
        if self.look(&server).await.is_ok() {
            let notes = &self.notes;
            let load = self.workers.iter_mut().map(|worker| worker.work(&server, notes));
            // It ends when no connection is left.
            let load = futures_util::future::join_all(load);
            let due = notes.answers.get() + moment.answers;
            let enough = async {
                tokio::time::sleep(moment.at_the_earliest).await;
                while notes.answers.get() < due {
                    tokio::time::sleep(ms(1)).await;
                }
            };
            let (load, enough) = (pin!(load), pin!(enough));
            let done = futures_util::future::select(load, enough);
            // One that is stuck is a failure of its own.
            let ended = tokio::time::timeout(3 * PATIENCE, done).await;
            assert!(ended.is_ok(), "it answers nothing any more");
        }
        // Its connections end a little before it does.
        for _ in 0..20 {
            if moment.step.is_none() || server.has_ended() {
                break;
            }
            tokio::time::sleep(ms(1)).await;
        }
        if server.has_ended() {
            self.seen.at_a_step += 1;
            return server.wait();
        }
        self.seen.by_time += 1;
        server.kill()
    }

    /// What the store shows right after a start: every lease, between two looks at the changes.
    async fn look(&mut self, server: &Server) -> io::Result<()> {
        let mut connection = connect(server).await?;
        if self.after.is_none() {
            let info = get(&mut connection, "/v1/info").await?.ok();
            self.after = Some(format!("{}-0-0", &text(&info["store_id"])[..8]));
        }
        self.read_on(&mut connection).await?;
        let list = get(&mut connection, "/v1/leases?limit=1000").await?.ok();
        for lease in list["leases"].as_array().expect("leases") {
            self.notes.push(shown(lease, server));
        }
        self.read_on(&mut connection).await?;
        self.notes.push(Event::Whole);
        if self.notes.log.len() > PART {
            self.judge();
        }
        Ok(())
    }

    /// The changes after the cursor, to the last.
    async fn read_on(&mut self, connection: &mut Connection) -> io::Result<()> {
        loop {
            let after = self.after.as_deref().unwrap_or_default();
            let path = format!("/v1/events?format=json&after={after}");
            let page: Value = get(connection, &path).await?.ok();
            assert_eq!(page["reset"], false, "the log holds more than a cycle");
            self.after = Some(text(&page["next"]).to_owned());
            let events = page["events"].as_array().expect("events");
            if events.is_empty() {
                return Ok(());
            }
            events.iter().for_each(|event| self.notes.push(committed(event)));
        }
    }
}

/// What is shown of a key right after a start.
fn shown(lease: &Value, server: &Server) -> Event {
    let number = |name: &str| lease[name].as_u64().expect("a number");
    let until = (lease["state"] == "held").then(|| {
        // No promise of the process before can be counted from later than the start of this one.
        let grace = (now() - server.started.elapsed() + ms(number("ttl_ms"))).0;
        // One whose end was lost would have time left.
        if number("expires_in_ms") == 0 { grace } else { grace.max((now() + ms(1)).0) }
    });
    Event::Stood { key: text(&lease["key"]).to_owned(), token: number("token"), until }
}

async fn get(connection: &mut Connection, path: &str) -> io::Result<Reply> {
    connection.send("GET", path, &[], b"").await;
    connection.try_receive().await
}

fn text(value: &Value) -> &str {
    value.as_str().expect("text")
}
