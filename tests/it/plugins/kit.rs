//! What the tests have in common.

use std::{
    io::Write,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tenure::{
    actor::{Fence, FenceOutcome, NamedPlugin, PluginLimits, Plugins, Report, Topics},
    clock::{Clock, SystemClock},
    lease::{ChangeKind, Key, Nonce, Owner, Token},
    plugin::{self, FenceError, FenceOrder, FencePlugin, Fencing},
    settings::{self, Sources},
    telemetry::{Metrics, Recorder},
};
use tokio::sync::oneshot;

pub use crate::support::clock::{PATIENCE, eventually};

pub fn order(key: &str, token: u64) -> FenceOrder {
    FenceOrder {
        key: Key::new(key).expect("a key"),
        token: Token(token),
        owner: Owner::new("worker \"1\"; $(rm)").expect("an owner"),
        reason: ChangeKind::Expired,
        session: Some(Nonce(0xab)),
        pool: "batch".into(),
        attempt: 2,
        traceparent: None,
    }
}

pub fn clock() -> Arc<dyn Clock> {
    Arc::new(SystemClock::new())
}

/// The plugin of a `[[plugin]]`, through the settings.
pub fn built(section: &str) -> Arc<dyn FencePlugin> {
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    writeln!(file, "[[plugin]]\nname = \"p\"\n{section}").expect("written");
    let none: [(String, String); 0] = [];
    let loaded = Sources::new().environment(none).file(Some(file.path())).load();
    let settings = loaded.unwrap_or_else(|faults| panic!("{faults}")).settings;
    let store = settings::Nats::default();
    plugin::build(&settings.plugins[0], &store, clock()).expect("a plugin")
}

/// Text for TOML.
pub fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Runs a test as a coordinator's main thread would.
pub fn system(test: impl Future<Output = ()>) {
    actix::System::new()
        .block_on(async { tokio::time::timeout(PATIENCE * 2, test).await })
        .expect("in time");
}

/// Plugins with a recorder; everything that they count is in [`Recorder::render`].
pub fn plugins(list: Vec<NamedPlugin>) -> (Plugins, Recorder) {
    let recorder = Recorder::install().expect("a recorder");
    let metrics = Arc::new(Metrics::register("embedded"));
    (Plugins::new(list, Topics::default(), clock(), 7, metrics), recorder)
}

pub fn limits(timeout: Duration, retries: u32, concurrency: usize) -> PluginLimits {
    PluginLimits { timeout, retries, concurrency, log_detail: true }
}

/// Orders, and waits for the outcome.
pub async fn ask(plugins: &Plugins, plugin: &str, budget: Duration) -> FenceOutcome {
    ask_for(plugins, plugin, order("k", 7), budget).await
}

pub async fn ask_for(
    plugins: &Plugins,
    plugin: &str,
    order: FenceOrder,
    budget: Duration,
) -> FenceOutcome {
    let (tell, told) = oneshot::channel();
    let report = Report::new(move |outcome| drop(tell.send(outcome)));
    plugins.order(plugin, Fence { order, budget, report, trace: None });
    tokio::time::timeout(PATIENCE, told).await.expect("a report").expect("exactly one")
}

/// One line of a scrape.
pub fn sample(recorder: &Recorder, series: &str) -> f64 {
    let text = recorder.render();
    let line = text.lines().find_map(|line| line.strip_prefix(series));
    line.unwrap_or_else(|| panic!("{series} in {text}")).trim().parse().expect("a number")
}

/// Does what the test says with the number of each call, from 0.
pub struct Scripted<F>(pub AtomicUsize, pub F);

impl<F> Scripted<F>
where
    F: Fn(usize, FenceOrder) -> Fencing + Send + Sync + 'static,
{
    pub fn plugin(script: F) -> Arc<dyn FencePlugin> {
        Arc::new(Self(AtomicUsize::new(0), script))
    }
}

impl<F> FencePlugin for Scripted<F>
where
    F: Fn(usize, FenceOrder) -> Fencing + Send + Sync + 'static,
{
    fn fence(&self, order: FenceOrder) -> Fencing {
        (self.1)(self.0.fetch_add(1, Ordering::SeqCst), order)
    }
}

pub fn confirm() -> Fencing {
    Box::pin(async { Ok(()) })
}

pub fn fail(why: &'static str) -> Fencing {
    Box::pin(async move { Err(FenceError::new(why)) })
}

pub fn hang() -> Fencing {
    Box::pin(std::future::pending())
}
