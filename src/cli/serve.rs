//! `tenure serve`: runs a coordinator until it is told to stop.

use anyhow::Context as _;
use sd_notify::NotifyState;
use tokio::signal::unix::{SignalKind, signal};

use super::{Exit, Failure, SettingsArgs, coordinator::Coordinator};
use crate::{
    http,
    manager::engine,
    settings::{LogFormat, Plugin, PluginKind, Settings},
    telemetry::init_logs,
    worker::company,
};

/// Runs the server.
pub(super) fn run(args: &SettingsArgs) -> Result<Exit, Failure> {
    let loaded = args.load()?;
    loaded.check_files()?;
    let settings = loaded.settings;
    let json = settings.telemetry.log_format == LogFormat::Json;
    init_logs(&settings.telemetry.log, json, http::CONNECTION_LINES)
        .map_err(|error| Failure::Usage(format!("telemetry.log: {error}")))?;
    log_panics();
    actix::System::new().block_on(serve(args, settings))?;
    Ok(Exit::Done)
}

async fn serve(args: &SettingsArgs, mut settings: Settings) -> anyhow::Result<()> {
    let mut terminate = signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot listen for SIGINT")?;
    let mut hangup = signal(SignalKind::hangup()).context("cannot listen for SIGHUP")?;
    // A fence or a check that outlived this process would run beside that of its successor.
    company::keep();
    let exec = |plugin: &Plugin| matches!(plugin.kind, PluginKind::Exec { .. });
    if settings.limits.exec_checks || settings.plugins.iter().any(exec) {
        // The first of them is not to wait for the guardian in its own time.
        drop(company::badge().await);
    }
    let mut coordinator = Coordinator::start(&settings).await?;
    let (store, place) = (settings.store.kind.as_str(), engine::place(&settings));
    tracing::info!(version = env!("CARGO_PKG_VERSION"), store, place, "serving");
    // Programs that start a server on a free port read this line.
    #[expect(clippy::print_stderr, reason = "also where logs are filtered out")]
    {
        eprintln!("listening on http://{}", coordinator.bound);
    }
    // That nobody listens is no failure: it may not have been started by a service manager.
    let _ = sd_notify::notify(&[NotifyState::Ready]);
    loop {
        tokio::select! {
            ended = coordinator.ended() => return ended.context("the server ended"),
            _ = terminate.recv() => tracing::info!("stopping: SIGTERM"),
            _ = interrupt.recv() => tracing::info!("stopping: SIGINT"),
            Some(()) = hangup.recv() => {
                reload(args, &mut settings, &coordinator);
                continue;
            }
        }
        break;
    }
    let _ = sd_notify::notify(&[NotifyState::Stopping]);
    tokio::select! {
        () = coordinator.stop() => tracing::info!("stopped"),
        _ = terminate.recv() => tracing::warn!("told twice to stop: requests in flight are cut off"),
        _ = interrupt.recv() => tracing::warn!("told twice to stop: requests in flight are cut off"),
    }
    Ok(())
}

/// Reads all layers again, and puts their policies and plugins into force. What else changed waits for a restart; what
/// is wrong changes nothing.
fn reload(args: &SettingsArgs, settings: &mut Settings, coordinator: &Coordinator) {
    let read = args.load().map_err(|faults| faults.0.iter().map(ToString::to_string).collect());
    let applied = read.and_then(|loaded| {
        let changed = loaded.settings.differing(settings);
        let read = loaded.settings;
        let next = settings.with_policies(read.policies, read.plugins)?;
        coordinator.set_policies(&next).map_err(|error| vec![format!("{error:#}")])?;
        Ok::<_, Vec<String>>((next, changed))
    });
    coordinator.count_reload(applied.is_ok());
    match applied {
        Ok((next, changed)) => {
            *settings = next;
            tracing::info!(policies = settings.policies.len(), "settings read again: SIGHUP");
            if !changed.is_empty() {
                let keys = changed.join(", ");
                tracing::warn!(keys, "these settings changed too, and need a restart");
            }
        }
        Err(faults) => {
            for fault in &faults {
                tracing::error!(%fault, "settings read again: SIGHUP");
            }
            tracing::error!(faults = faults.len(), "the settings have faults: the policies stay");
        }
    }
}

/// A panic ends one actor or one connection; the log says where it was.
fn log_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string);
        let what = panic.payload_as_str().unwrap_or("a value that is no text");
        tracing::error!(place, what, "panic");
    }));
}
