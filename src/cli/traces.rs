//! The exporter of a coordinator's traces.

use std::sync::Arc;

use crate::{
    settings::Settings,
    telemetry::{Metrics, trace::Exporter},
};

/// Starts the exporter, if the settings name a collector. `node` is the name of this coordinator.
///
/// # Errors
/// A file of the settings cannot be used, or the HTTP client cannot be built.
#[cfg(feature = "otel")]
pub(super) fn start(
    settings: &Settings,
    node: String,
    metrics: &Arc<Metrics>,
) -> anyhow::Result<Option<Exporter>> {
    use anyhow::{Context as _, anyhow};

    use crate::{
        clock::{SystemClock, SystemEntropy},
        settings::{Telemetry, read_headers},
        telemetry::trace::ExportOptions,
        tls::{self, Roots},
    };

    let Telemetry { otlp_endpoint, otlp_headers_file, otlp_ca, trace_ratio, service_name, .. } =
        &settings.telemetry;
    if otlp_endpoint.is_empty() {
        return Ok(None);
    }
    let headers = if otlp_headers_file.as_os_str().is_empty() {
        reqwest::header::HeaderMap::new()
    } else {
        let file = otlp_headers_file.display();
        read_headers(otlp_headers_file)
            .map_err(|why| anyhow!("telemetry.otlp_headers_file names {file}, which {why}"))?
    };
    let tls = if otlp_endpoint.starts_with("https://") {
        tls::client(Roots::of(otlp_ca)).context("telemetry.otlp_ca")?
    } else {
        tls::none()
    };
    let options = ExportOptions {
        url: format!("{}/v1/traces", otlp_endpoint.trim_end_matches('/')),
        headers,
        tls,
        service: service_name.clone(),
        node,
        ratio: *trace_ratio,
    };
    let (clock, entropy) = (Arc::new(SystemClock::new()), Arc::new(SystemEntropy::new()));
    let exporter = Exporter::start(options, clock, entropy, metrics.clone());
    Ok(Some(exporter.context("cannot create the HTTP client for the collector of traces")?))
}

/// There is no exporter in this build, and the settings name no collector: `Loaded::check_build` refuses one.
#[cfg(not(feature = "otel"))]
pub(super) fn start(
    _settings: &Settings,
    _node: String,
    _metrics: &Arc<Metrics>,
) -> anyhow::Result<Option<Exporter>> {
    Ok(None)
}
