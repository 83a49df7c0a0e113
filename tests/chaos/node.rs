//! A coordinator at a place of its own in the network.

use std::path::{Path, PathBuf};

use rustix::process::Signal;
use serde_json::Value;

use crate::{
    clock::{ms, within},
    disk::Disk,
    net::Net,
    stores::{Kind, Servers},
};

use crate::support::process::Process;

/// How long a node may answer after it last renewed its record.
pub const NODE_TTL_MS: u64 = 3_000;
/// How long it may take until it is ready: opening a store that was hurt, on a busy machine.
const START_MS: u64 = 180_000;

pub struct Node {
    pub place: String,
    pub url: String,
    args: Vec<String>,
    pub process: Option<Process>,
    wall_offset: PathBuf,
    /// What its embedded store is on.
    pub disk: Option<Disk>,
    http: reqwest::Client,
}

/// Settings as flags.
fn flags(sets: &[String]) -> impl Iterator<Item = String> {
    sets.iter().flat_map(|set| ["--set".to_owned(), set.clone()])
}

impl Node {
    pub fn new(n: usize, servers: &Servers, net: &Net, dir: &Path) -> Self {
        let place = format!("node{n}");
        let listen = format!("{}:7373", net.addr(&place));
        let url = format!("http://{listen}");
        let disk = (servers.kind == Kind::Embedded).then(|| Disk::mount(&dir.join(&place)));
        let mut sets = servers.settings(disk.as_ref());
        sets.push(format!("node.advertise_url={url}"));
        sets.push(format!("node.ttl={NODE_TTL_MS}ms"));
        sets.push(format!("node.witness={}", dir.join(format!("{place}.witness")).display()));
        sets.push("telemetry.log=warn,tenure=info".to_owned());
        sets.push("server.workers=1".to_owned());
        let args =
            ["serve", "--listen", &listen].map(str::to_owned).into_iter().chain(flags(&sets));
        let http = reqwest::Client::builder().no_proxy().timeout(ms(5_000)).build();
        Self {
            args: args.collect(),
            process: None,
            wall_offset: dir.join(format!("{place}.offset")),
            disk,
            http: http.expect("a client"),
            url,
            place,
        }
    }

    pub fn launch(&mut self, net: &Net) {
        assert!(self.process.is_none(), "{} runs", self.place);
        let mut command = net.command(&self.place, env!("CARGO_BIN_EXE_tenure"));
        command.args(&self.args).envs(environment());
        command.env("TENURE_TEST_WALL_OFFSET", &self.wall_offset);
        self.process = Some(Process::start(&self.place, &mut command));
    }

    /// Waits until it is ready.
    pub async fn ready(&mut self) {
        let url = format!("{}/readyz", self.url);
        let http = self.http.clone();
        let process = self.process.as_mut().expect("it was launched");
        let mut last = String::new();
        let is_ready = within(ms(START_MS), async || {
            if let Some(status) = process.ended() {
                panic!("the node ended with {status}; it said:\n{}", process.said());
            }
            match http.get(&url).send().await {
                Ok(answer) if answer.status().is_success() => true,
                Ok(answer) => {
                    last = answer.text().await.unwrap_or_default();
                    false
                }
                Err(why) => {
                    last = why.to_string();
                    false
                }
            }
        })
        .await;
        assert!(is_ready, "{} is not ready: {last}", self.place);
    }

    /// Why it is not ready; empty when it is.
    pub async fn unready(&self) -> String {
        match self.http.get(format!("{}/readyz", self.url)).send().await {
            Ok(answer) if answer.status().is_success() => String::new(),
            Ok(answer) => answer.text().await.unwrap_or_default(),
            Err(why) => why.to_string(),
        }
    }

    pub fn kill(&mut self) {
        self.process.take().expect("it runs").kill();
    }

    /// SIGTERM, and waits for its end.
    pub async fn stop(&mut self) {
        let mut process = self.process.take().expect("it runs");
        process.signal(Signal::TERM);
        let mut status = None;
        let ended = within(ms(START_MS), async || {
            status = process.ended();
            status.is_some()
        })
        .await;
        assert!(ended, "{} does not end", self.place);
        let status = status.expect("it ended");
        assert!(status.success(), "{} ended with {status}", self.place);
    }

    /// Sets its wall clock, by so much beside the machine's.
    pub fn set_wall(&self, offset_ms: i64) {
        let part = self.wall_offset.with_extension("part");
        std::fs::write(&part, offset_ms.to_string()).expect("written");
        std::fs::rename(&part, &self.wall_offset).expect("in its place");
    }

    pub async fn post(&self, path: &str, body: &Value) -> Result<(u16, Value), String> {
        let answer = self.http.post(format!("{}{path}", self.url)).json(body).send().await;
        let answer = answer.map_err(|why| why.to_string())?;
        Ok((answer.status().as_u16(), answer.json().await.unwrap_or_default()))
    }

    /// The sum of all series that start so; 0 when it does not answer.
    pub async fn metric(&self, series: &str) -> u64 {
        let Ok(answer) = self.http.get(format!("{}/metrics", self.url)).send().await else {
            return 0;
        };
        let text = answer.text().await.unwrap_or_default();
        let values = text.lines().filter(|line| line.starts_with(series));
        values.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum::<f64>() as u64
    }

    /// The program's other commands, as an operator gives them at this node's place.
    pub fn tenure(&self, net: &Net, args: &[&str]) -> Result<String, String> {
        let mut command = net.command(&self.place, env!("CARGO_BIN_EXE_tenure"));
        let sets: Vec<_> = self.args.iter().skip(3).collect();
        let done = command.args(args).args(sets).envs(environment()).output().expect("it starts");
        let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        if done.status.success() { Ok(said(&done.stdout)) } else { Err(said(&done.stderr)) }
    }
}

fn environment() -> [(&'static str, &'static str); 3] {
    [
        ("AWS_ACCESS_KEY_ID", "none"),
        ("AWS_SECRET_ACCESS_KEY", "none"),
        ("AWS_REGION", "eu-central-1"),
    ]
}
