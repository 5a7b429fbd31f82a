//! `crier run`: the service itself, until it is told to stop.

use std::io::{self, Write};
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use super::{DONE, FAILED, USAGE, write_error, write_mistakes};
use crate::app::{self, Overrides, RunError};
use crate::config;
use crate::telemetry::{LogFormat, start_log};

/// What `run` takes.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// The configuration, a YAML file
    #[arg(long, value_name = "FILE", env = "CRIER_CONFIG")]
    config: PathBuf,
    /// The kubeconfig to use [default: KUBECONFIG, ~/.kube/config, then the pod's ServiceAccount]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The kubeconfig's context to use [default: its current context]
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    /// Set the state aside and begin anew: what exists is told again, and deletions from before are not known
    #[arg(long)]
    fresh_state: bool,
    /// What to log: error, warn, info, debug, trace, or directives such as `info,crier::driver=debug`
    #[arg(long, value_name = "LEVEL", default_value = "info", env = "CRIER_LOG")]
    log: String,
    /// How the log looks, on standard error [default: pretty on a terminal, else json]
    #[arg(long, value_name = "FORMAT", env = "CRIER_LOG_FORMAT")]
    log_format: Option<Format>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Format {
    /// Lines for people
    Pretty,
    /// One JSON object a line
    Json,
}

/// Runs the service; returns the exit code.
pub(super) fn run(arguments: Arguments, errors: &mut dyn Write) -> io::Result<u8> {
    let format = arguments.log_format.map(|format| match format {
        Format::Pretty => LogFormat::Pretty,
        Format::Json => LogFormat::Json,
    });
    let config = match config::load(&arguments.config) {
        Ok(config) => config,
        Err(mistakes) => return write_mistakes(&mistakes, errors),
    };
    if let Err(error) = start_log(&arguments.log, format) {
        let hint = "write a level such as info, or directives such as info,crier::driver=debug";
        write_error(&anyhow::Error::new(error).context("--log cannot be read"), Some(hint), errors)?;
        return Ok(USAGE);
    }
    let overrides =
        Overrides { context: arguments.context, kubeconfig: arguments.kubeconfig, fresh_state: arguments.fresh_state };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let ended = runtime.block_on(serve(&config, overrides));
    // What a sink's client still does in the background is not waited for: it was given up by the drain.
    runtime.shutdown_background();
    let error = match ended {
        Ok(()) => return Ok(DONE),
        Err(error) => error,
    };
    let hint = error.downcast_ref::<RunError>().and_then(RunError::hint);
    write_error(&error, hint.as_deref(), errors)?;
    Ok(FAILED)
}

async fn serve(config: &config::Config, overrides: Overrides) -> anyhow::Result<()> {
    let (stop, stopped) = watch::channel(false);
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    tokio::spawn(async move {
        for first in [true, false] {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            if !first {
                tracing::warn!("a second signal: ends at once; what was in flight is told again at the next start");
                std::process::exit(i32::from(FAILED));
            }
            tracing::info!("ends: reads no more, finishes what is in flight, and saves");
            stop.send_replace(true);
        }
    });
    Ok(app::run(config, overrides, stopped).await?)
}
