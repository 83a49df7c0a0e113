//! What one workload showed, as a block for people or as one JSON object.

use std::borrow::Cow;
use std::io::Write as _;

use anyhow::Result;
use serde_json::{Value, json};

use crate::args::Format;
use crate::compared::Compared;
use crate::load::{Disk, Faults, Rounds, Summary};
use crate::units::{number, span};

/// The result of one workload at one number of connections.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The workload's name.
    pub workload: String,
    /// Connections that put load on the server.
    pub connections: usize,
    /// Timed rounds, or 1 for a counted run.
    pub rounds: u32,
    /// Seconds per round, or of the counted run.
    pub seconds: f64,
    /// The version that the server names.
    pub server_version: String,
    /// The disk's regime.
    pub disk: Option<Disk>,
    /// Requests per second.
    pub requests_per_s: Option<f64>,
    /// The yardstick's rate, and this workload's share of it.
    pub echo: Option<(f64, f64)>,
    /// Latencies by what they are of; the plain one is `latency`.
    pub latencies: Vec<(Cow<'static, str>, Summary)>,
    /// The workload's own figures, the unit in the name.
    pub figures: Vec<(Cow<'static, str>, f64)>,
    /// The row of the table that compares contenders.
    pub compared: Option<Compared>,
    /// Answers that should not have come.
    pub faults: Faults,
}

impl Outcome {
    /// An outcome without any figure yet.
    pub fn new(workload: &str, connections: usize, server_version: &str) -> Self {
        Self {
            workload: workload.to_owned(),
            connections,
            rounds: 1,
            seconds: 0.0,
            server_version: server_version.to_owned(),
            disk: None,
            requests_per_s: None,
            echo: None,
            latencies: Vec::new(),
            figures: Vec::new(),
            compared: None,
            faults: Faults::default(),
        }
    }

    /// Takes in timed rounds; their units per second are called `units`.
    #[must_use]
    pub fn of_rounds(mut self, rounds: Rounds, units: &'static str) -> Self {
        (self.rounds, self.seconds) = (rounds.count, rounds.seconds);
        self.disk = rounds.disk;
        self.requests_per_s = Some(rounds.requests_per_s);
        self.echo = rounds.echo;
        self.latency("latency", rounds.tally.latencies.summary());
        self.latency("cycle", rounds.tally.cycles.summary());
        self.figure(units, rounds.units_per_s);
        if let Some((raw, share)) = rounds.raw_nats {
            self.figure("raw_nats_publishes_per_s", raw);
            self.figure("share_of_raw_nats", share);
        }
        self.figure("bench_cpu_share", rounds.own_cpu_share);
        self.faults = rounds.tally.faults;
        self
    }

    /// Adds a figure.
    pub fn figure(&mut self, name: impl Into<Cow<'static, str>>, value: f64) {
        self.figures.push((name.into(), value));
    }

    /// Adds a figure that may be unknown.
    pub fn figure_if(&mut self, name: &'static str, value: Option<f64>) {
        self.figures.extend(value.map(|known| (name.into(), known)));
    }

    /// Adds a ratio of medians, and the least and the largest ratio of a round.
    pub fn ratio(&mut self, name: &str, [ratio, least, most]: [f64; 3]) {
        self.figure(name.to_owned(), ratio);
        self.figure(format!("{name}_least"), least);
        self.figure(format!("{name}_most"), most);
    }

    /// Adds latencies, when there are any.
    pub fn latency(&mut self, name: impl Into<Cow<'static, str>>, summary: Option<Summary>) {
        self.latencies.extend(summary.map(|some| (name.into(), some)));
    }

    /// Writes the outcome to standard output, and the first fault to standard error.
    pub fn print(&self, form: Format) -> Result<()> {
        let mut out = std::io::stdout().lock();
        match form {
            Format::Json | Format::Jsonl => writeln!(out, "{}", self.json())?,
            Format::Table => out.write_all(self.table().as_bytes())?,
        }
        out.flush()?;
        if let Some(first) = &self.faults.first {
            eprintln!("{}: {} faults, the first: {first}", self.workload, self.faults.count);
        }
        Ok(())
    }

    fn json(&self) -> Value {
        let mut all = json!({
            "workload": self.workload,
            "connections": self.connections,
            "rounds": self.rounds,
            "seconds": self.seconds,
            "bench_version": env!("CARGO_PKG_VERSION"),
            "server_version": self.server_version,
            "disk": self.disk,
            "requests_per_s": self.requests_per_s,
            "echo_requests_per_s": self.echo.map(|(rate, _)| rate),
            "ratio": self.echo.map(|(_, share)| share),
            "redis_version": self.compared.as_ref().and_then(|it| it.redis_version.as_ref()),
            "errors": self.faults.count,
            "first_error": self.faults.first,
        });
        for (name, summary) in &self.latencies {
            all[&**name] = json!(summary);
        }
        for (name, value) in &self.figures {
            all[&**name] = json!(value);
        }
        all
    }

    fn table(&self) -> String {
        let mut lines = vec![format!(
            "{} · {} connections · {} × {:.1} s",
            self.workload, self.connections, self.rounds, self.seconds
        )];
        if let Some(disk) = &self.disk {
            lines.push(row(
                "disk",
                &format!(
                    "{} (4 KiB fdatasync p50 {}, p99 {}, {}/s)",
                    disk.regime,
                    span(disk.p50_us),
                    span(disk.p99_us),
                    number(disk.syncs_per_s)
                ),
            ));
        }
        if let Some(rate) = self.requests_per_s {
            let share = self.echo.map_or_else(String::new, |(echo, share)| {
                format!("   {:.1} % of echo ({}/s)", share * 100.0, number(echo))
            });
            lines.push(row("requests_per_s", &format!("{}{share}", number(rate))));
        }
        for (name, value) in &self.figures {
            let shown = match name.ends_with("_bytes") && *value >= f64::from(1 << 20) {
                true => format!("{} ({:.1} MiB)", number(*value), value / f64::from(1 << 20)),
                false => number(*value),
            };
            lines.push(row(name, &shown));
        }
        for (name, it) in &self.latencies {
            lines.push(row(
                name,
                &format!(
                    "p50 {}  p99 {}  p99.9 {}  max {}  ({} samples)",
                    span(it.p50_us),
                    span(it.p99_us),
                    span(it.p999_us),
                    span(it.max_us),
                    it.samples
                ),
            ));
        }
        lines.push(row("errors", &self.faults.count.to_string()));
        lines.join("\n") + "\n\n"
    }
}

fn row(name: &str, value: &str) -> String {
    format!("  {name:<34} {value}")
}
