//! `tenure serve`: runs a coordinator until SIGTERM or SIGINT.

use anyhow::Context as _;
use rustix::process::Signal;
use sd_notify::NotifyState;
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::mpsc,
};

use super::{
    Exit, Failure, SettingsArgs,
    access_file::AccessFile,
    coordinator::Coordinator,
    settings_file::{Read, SettingsFile},
};
use crate::{
    clock::{Clock as _, SystemClock},
    http,
    manager::engine,
    settings::{LogFormat, Plugin, PluginKind, Settings},
    telemetry::{FileKind, init_logs},
    worker::{company, signals::listen},
};

pub(super) fn run(args: &SettingsArgs) -> Result<Exit, Failure> {
    let loaded = args.load()?;
    loaded.check_files()?;
    let settings = loaded.settings;
    let access = AccessFile::open(&settings)?;
    let json = settings.telemetry.log_format == LogFormat::Json;
    init_logs(&settings.telemetry.log, json, http::CONNECTION_LINES)
        .map_err(|error| Failure::Usage(format!("telemetry.log: {error}")))?;
    log_panics();
    actix::System::new().block_on(serve(args, settings, access))?;
    Ok(Exit::Done)
}

async fn serve(
    args: &SettingsArgs,
    mut settings: Settings,
    access: Option<AccessFile>,
) -> anyhow::Result<()> {
    let mut terminate = listen(Signal::TERM).context("cannot listen for SIGTERM")?;
    let mut interrupt = listen(Signal::INT).context("cannot listen for SIGINT")?;
    let mut hangup = signal(SignalKind::hangup()).context("cannot listen for SIGHUP")?;
    // A fence or a check must not outlive this process: it would run concurrently with its successor's.
    company::keep();
    let exec = |plugin: &Plugin| matches!(plugin.kind, PluginKind::Exec { .. });
    if settings.limits.exec_checks || settings.plugins.iter().any(exec) {
        // Start the guardian now: otherwise its start would use up the time of the first fence or check.
        drop(company::badge().await);
    }
    let mut coordinator = Coordinator::start(&settings, access.as_ref()).await?;
    let (store, place) = (settings.store.kind.as_str(), engine::place(&settings));
    tracing::info!(version = env!("CARGO_PKG_VERSION"), store, place, "serving");
    // Programs that start a server on a free port read this line.
    #[expect(clippy::print_stderr, reason = "printed even if logs are filtered out")]
    {
        eprintln!("listening on {}://{}", coordinator.scheme(), coordinator.bound);
    }
    // A failure is ignored: this process may run without a service manager.
    let _ = sd_notify::notify(&[NotifyState::Ready]);
    let (read, mut reads) = mpsc::unbounded_channel();
    let file = SettingsFile::new(args, coordinator.metrics(), read).follow();
    loop {
        tokio::select! {
            ended = coordinator.ended() => return ended.context("the server ended"),
            () = terminate.recv() => tracing::info!("stopping: SIGTERM"),
            () = interrupt.recv() => tracing::info!("stopping: SIGINT"),
            Some(()) = hangup.recv() => {
                coordinator.reload_files();
                file.reload();
                continue;
            }
            Some(read) = reads.recv() => {
                reload(read, &mut settings, &coordinator);
                continue;
            }
        }
        break;
    }
    let _ = sd_notify::notify(&[NotifyState::Stopping]);
    tokio::select! {
        () = coordinator.stop() => tracing::info!("stopped"),
        _ = terminate.recv() => tracing::warn!("second signal: requests in flight are cut off"),
        _ = interrupt.recv() => tracing::warn!("second signal: requests in flight are cut off"),
    }
    Ok(())
}

/// Applies the policies and plugins of settings that were read again. Other changes need a restart. If the settings have
/// faults, nothing changes.
fn reload((read, reason): Read, settings: &mut Settings, coordinator: &Coordinator) {
    let read = read.map_err(|faults| faults.0.iter().map(ToString::to_string).collect());
    let applied = read.and_then(|loaded| {
        let changed = loaded.settings.differing(settings);
        let read = loaded.settings;
        let next = settings.with_policies(read.policies, read.plugins)?;
        coordinator.set_policies(&next).map_err(|error| vec![format!("{error:#}")])?;
        Ok::<_, Vec<String>>((next, changed))
    });
    let files = &coordinator.metrics().files;
    match applied {
        Ok((next, changed)) => {
            files.applied(FileKind::Settings);
            files.need_restart(changed.clone());
            *settings = next;
            tracing::info!(
                policies = settings.policies.len(),
                reason,
                "settings reloaded: {reason}"
            );
            if !changed.is_empty() {
                let keys = changed.join(", ");
                tracing::warn!(keys, "these settings changed too, and need a restart");
            }
        }
        Err(faults) => {
            files.refused(FileKind::Settings, &faults, SystemClock::new().wall_ms());
            for fault in &faults {
                tracing::error!(%fault, reason, "settings not reloaded: {reason}");
            }
            tracing::error!(faults = faults.len(), "the settings have faults: the policies stay");
        }
    }
}

/// Logs where a panic happened. It ends only one actor or one connection.
fn log_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string);
        let what = panic.payload_as_str().unwrap_or("a payload that is not text");
        tracing::error!(place, what, "a panic ended an actor or a connection");
    }));
}
