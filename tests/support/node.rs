//! A coordinator as a process of its own.

use std::{net::SocketAddr, path::PathBuf, process::Command, time::Duration};

use rustix::process::Signal;
use serde_json::Value;
use tenure::tls::{self, Roots};

use crate::support::{
    clock::{PATIENCE, ms, within},
    http,
    ports::free_port,
    process::{Ended, Process},
};

/// What it says once it accepts connections, before its address.
const LISTENING: &str = "listening on ";

/// A program that is not optimised, on a machine that does other things, is late without having too much to do. Tests
/// of overload set their own limit, which comes later.
const NO_SHEDDING: &str = "limits.shed_lag=0s";

#[derive(Debug)]
pub struct Node {
    pub url: String,
    args: Vec<String>,
    env: Vec<(String, String)>,
    /// How many files it may have open, where that is less than this process may.
    files: Option<usize>,
    process: Option<Process>,
    name: String,
    /// How long it may take to be ready, and to end.
    patience: Duration,
    http: reqwest::Client,
    /// The file of the authorities that its clients trust, if it speaks TLS.
    ca: Option<PathBuf>,
    /// The token that its clients show, if it is not empty.
    token: String,
}

impl Node {
    /// A client of the same node, in another task.
    pub fn remote(&self) -> Self {
        Self {
            url: self.url.clone(),
            args: Vec::new(),
            env: Vec::new(),
            files: None,
            process: None,
            name: self.name.clone(),
            patience: self.patience,
            http: self.http.clone(),
            ca: self.ca.clone(),
            token: self.token.clone(),
        }
    }

    /// A node with these settings (`section.key=value`), not started yet. It keeps its port over restarts.
    pub fn new(name: &str, sets: &[String], env: &[(&str, &str)]) -> Self {
        Self::at(SocketAddr::from(([127, 0, 0, 1], free_port())), name, sets, env)
    }

    /// [`Self::new`], at this address; with port 0, on any port, which may be another one after a restart.
    pub fn at(listen: SocketAddr, name: &str, sets: &[String], env: &[(&str, &str)]) -> Self {
        let mut args = ["serve", "--listen", &listen.to_string()].map(str::to_owned).to_vec();
        for set in [NO_SHEDDING].into_iter().chain(sets.iter().map(String::as_str)) {
            args.extend(["--set".to_owned(), set.to_owned()]);
        }
        let http = http::builder().timeout(ms(5_000)).build();
        Self {
            url: format!("http://{listen}"),
            args,
            env: env.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect(),
            files: None,
            process: None,
            name: name.to_owned(),
            patience: PATIENCE,
            http: http.expect("a client"),
            ca: None,
            token: String::new(),
        }
    }

    /// It reads this file of settings as well.
    pub fn configured(mut self, file: &std::path::Path) -> Self {
        self.args.extend(["--config".to_owned(), file.display().to_string()]);
        self
    }

    /// Its calls show this token, if it is not empty.
    pub fn with_token(self, token: &str) -> Self {
        Self { token: token.to_owned(), ..self }.called_anew()
    }

    fn called_anew(mut self) -> Self {
        let mut headers = reqwest::header::HeaderMap::new();
        if !self.token.is_empty() {
            let shown = format!("Bearer {}", self.token).parse().expect("a header");
            headers.insert(reqwest::header::AUTHORIZATION, shown);
        }
        let builder = match &self.ca {
            Some(ca) => tls::http(tls::client(Roots::Only(ca)).expect("authorities")),
            None => http::builder(),
        };
        let http = builder.timeout(ms(5_000)).default_headers(headers).build();
        self.http = http.expect("a client");
        self
    }

    /// It may have so many files open.
    pub fn with_files(self, files: usize) -> Self {
        Self { files: Some(files), ..self }
    }

    /// It may take so long to be ready, and to end.
    pub fn patient(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }

    /// It speaks TLS, with a certificate by the authorities of this file.
    pub fn trusted_by(mut self, ca: &std::path::Path) -> Self {
        self.url = self.url.replacen("http://", "https://", 1);
        self.ca = Some(ca.to_owned());
        self.called_anew()
    }

    pub fn launch(&mut self) {
        // What is shipped can be tested as well.
        let program = std::env::var("TENURE_PROGRAM");
        let program = program.as_deref().unwrap_or(env!("CARGO_BIN_EXE_tenure"));
        let command = match self.files {
            None => Command::new(program),
            Some(files) => {
                let mut shell = Command::new("sh");
                shell.args(["-c", &format!("ulimit -n {files} && exec \"$0\" \"$@\""), program]);
                shell
            }
        };
        self.launch_by(command);
    }

    /// Starts it by this command, which takes the program's arguments.
    pub fn launch_by(&mut self, mut command: Command) {
        assert!(self.process.is_none(), "{} runs", self.name);
        command.args(&self.args).envs(self.env.iter().cloned());
        self.process = Some(Process::start(&self.name, &mut command).leaves_nothing());
    }

    /// Starts it, and waits until it accepts connections. Blocks. `Err`: it ended instead, or was ended for its
    /// silence.
    pub fn listens(&mut self) -> Result<SocketAddr, Ended> {
        self.launch();
        let process = self.process.as_mut().expect("it was launched");
        match process.line(LISTENING, PATIENCE) {
            Some(url) => {
                let addr = url.rsplit('/').next().unwrap_or(&url).parse();
                self.url = url;
                Ok(addr.expect("an address"))
            }
            None => Err(self.process.take().expect("it was launched").end()),
        }
    }

    /// Waits until it is ready.
    pub async fn ready(&mut self) {
        let url = format!("{}/readyz", self.url);
        let http = self.http.clone();
        let process = self.process.as_mut().expect("it was launched");
        let mut last = String::new();
        let is_ready = within(self.patience, async || {
            if let Some(status) = process.ended() {
                panic!("the node ended with {status}; it said:\n{}", process.said());
            }
            last = unready(&http, &url).await;
            last.is_empty()
        })
        .await;
        assert!(is_ready, "{} is not ready: {last}; it said:\n{}", self.name, process.said());
    }

    /// Why it is not ready; empty when it is.
    pub async fn unready(&self) -> String {
        unready(&self.http, &format!("{}/readyz", self.url)).await
    }

    pub async fn start(&mut self) {
        self.launch();
        self.ready().await;
    }

    /// SIGKILL, and waits.
    pub fn kill(&mut self) -> Ended {
        self.process.take().expect("it runs").end()
    }

    /// Waits for its end.
    pub fn wait(&mut self) -> Ended {
        self.process.take().expect("it runs").wait()
    }

    pub fn process(&self) -> &Process {
        self.process.as_ref().expect("it runs")
    }

    pub fn process_mut(&mut self) -> &mut Process {
        self.process.as_mut().expect("it runs")
    }

    pub fn said(&self) -> String {
        self.process.as_ref().map(Process::said).unwrap_or_default()
    }

    pub fn signal(&self, signal: Signal) {
        self.process.as_ref().expect("it runs").signal(signal);
    }

    /// SIGTERM, and waits for its end.
    pub async fn stop(&mut self) {
        let mut process = self.process.take().expect("it runs");
        process.signal(Signal::TERM);
        let mut status = None;
        let ended = within(self.patience, async || {
            status = process.ended();
            status.is_some()
        })
        .await;
        assert!(ended, "{} does not end; it said:\n{}", self.name, process.said());
        let status = status.expect("it ended");
        assert!(
            status.success(),
            "{} ended with {status}; it said:\n{}",
            self.name,
            process.said()
        );
    }

    /// What it said that names this.
    pub fn said_of(&self, what: &str) -> String {
        let said = self.said();
        let lines = said.lines().filter(|line| line.contains(what) || !line.contains("key="));
        lines.map(|line| format!("    {line}\n")).collect()
    }

    pub async fn get(&self, path: &str) -> Value {
        let answer = self.http.get(format!("{}{path}", self.url)).send().await;
        let answer = answer.unwrap_or_else(|why| panic!("{}: {path}: {why}", self.name));
        let status = answer.status();
        let body = answer.text().await.unwrap_or_default();
        assert!(status.is_success(), "{}: {path}: {status} {body}", self.name);
        serde_json::from_str(&body).unwrap_or(Value::String(body))
    }

    pub async fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        let answer = self.http.post(format!("{}{path}", self.url)).json(body).send().await;
        let answer = answer.unwrap_or_else(|why| panic!("{}: {path}: {why:?}", self.name));
        (answer.status().as_u16(), answer.json().await.unwrap_or_default())
    }

    /// [`Self::post`] of a call that may wait for long.
    pub async fn post_patiently(
        &self,
        path: &str,
        body: &Value,
        patience: Duration,
    ) -> (u16, Value) {
        let request = self.http.post(format!("{}{path}", self.url)).json(body).timeout(patience);
        let answer = request.send().await;
        let answer = answer.unwrap_or_else(|why| panic!("{}: {path}: {why:?}", self.name));
        (answer.status().as_u16(), answer.json().await.unwrap_or_default())
    }

    pub async fn delete(&self, path: &str) -> (u16, Value) {
        let answer = self.http.delete(format!("{}{path}", self.url)).send().await;
        let answer = answer.unwrap_or_else(|why| panic!("{}: {path}: {why}", self.name));
        (answer.status().as_u16(), answer.json().await.unwrap_or_default())
    }

    /// [`Self::post`] to a node that may be dead, or die meanwhile; status 0 when it does.
    pub async fn try_post(&self, path: &str, body: &Value) -> (u16, Value) {
        match self.http.post(format!("{}{path}", self.url)).json(body).send().await {
            Ok(answer) => (answer.status().as_u16(), answer.json().await.unwrap_or_default()),
            Err(_) => (0, Value::Null),
        }
    }

    /// One value of the metrics; the sum of all series that start so.
    pub async fn metric(&self, series: &str) -> f64 {
        let value = self.try_metric(series).await;
        value.unwrap_or_else(|| panic!("{} does not answer", self.name))
    }

    /// [`Self::metric`] of a node that may be dead, or die meanwhile.
    pub async fn try_metric(&self, series: &str) -> Option<f64> {
        let answer = self.http.get(format!("{}/metrics", self.url)).send().await.ok()?;
        let text = answer.error_for_status().ok()?.text().await.ok()?;
        let values = text.lines().filter(|line| line.starts_with(series));
        Some(values.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum())
    }

    /// The settings that it was started with, as flags.
    pub fn sets(&self) -> &[String] {
        &self.args[3..]
    }
}

/// What `/readyz` says at this address, unless it is well.
async fn unready(http: &reqwest::Client, url: &str) -> String {
    match http.get(url).send().await {
        Ok(answer) if answer.status().is_success() => String::new(),
        Ok(answer) => format!("{} {}", answer.status(), answer.text().await.unwrap_or_default()),
        Err(why) => why.to_string(),
    }
}
