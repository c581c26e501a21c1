//! Logs: to standard error, as text for people or JSON for machines.

use tracing_subscriber::{EnvFilter, layer::SubscriberExt, util::SubscriberInitExt};

/// The format of log lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum LogFormat {
    /// One JSON object a line.
    #[default]
    Json,
    /// Text for people.
    Text,
}

/// Starts logging. `filter` is a list of `target=level` as in `RUST_LOG`.
///
/// kube logs a whole response body at WARN when it cannot decode the body, Secrets included. The target of
/// these messages stays at ERROR, whatever the filter contains.
pub(crate) fn start_logging(format: LogFormat, filter: &str) {
    let filter = EnvFilter::try_new(format!("{filter},kube_client::client=error"))
        .unwrap_or_else(|_| EnvFilter::new("info,kube_client::client=error"));
    let registry = tracing_subscriber::registry().with(filter);
    let layer = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr()));
    // A second call (in tests) changes nothing.
    let started = match format {
        LogFormat::Json => registry.with(layer.json().flatten_event(true)).try_init(),
        LogFormat::Text => registry.with(layer).try_init(),
    };
    drop(started);
    // A panic's message can quote the value that caused the panic, so only the panic's location is logged.
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        tracing::error!(place, "panicked");
    }));
}
