//! `crier check`: is this configuration right, and what does it amount to? It connects to nothing and reads no secret.

use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

use super::{DONE, USAGE, write_error, write_mistakes};
use crate::app;
use crate::config::{self, Config, Initial, Route, State};

/// Checks the file; returns the exit code.
pub(super) fn run(file: &Path, output: &mut dyn Write, errors: &mut dyn Write) -> io::Result<u8> {
    match config::load(file) {
        Ok(config) => {
            if let Err(error) = app::plan(&config, &|_| true) {
                let hint = error.hint();
                write_error(&error.into(), Some(hint), errors)?;
                return Ok(USAGE);
            }
            writeln!(output, "{} is fine.\n", file.display())?;
            write_summary(&config, output)?;
            output.flush()?;
            Ok(DONE)
        }
        Err(mistakes) => write_mistakes(&mistakes, errors),
    }
}

fn write_summary(config: &Config, output: &mut dyn Write) -> io::Result<()> {
    let cluster = config.cluster.as_deref().unwrap_or("named by the uid of its kube-system namespace");
    let state = match &config.state {
        State::Directory { path, .. } => path.display().to_string(),
        State::Memory => "in memory, forgotten when the process ends".to_owned(),
    };
    let sinks: Vec<String> =
        config.sinks.iter().map(|sink| format!("{} ({})", sink.name, sink.kind.as_str())).collect();
    writeln!(output, "cluster  {cluster}\nstate    {state}\nsinks    {}\n\nroutes", sinks.join(", "))?;
    for route in &config.routes {
        for single in route.expand() {
            writeln!(output, "  {}", single.name)?;
        }
        writeln!(output, "    {}", describe(route))?;
    }
    Ok(())
}

/// What the single routes of a route have in common.
fn describe(route: &Route) -> String {
    let watch = &route.watch;
    let mut parts = vec![match watch.namespaces.as_slice() {
        [] => "all namespaces".to_owned(),
        [one] => format!("namespace {one}"),
        several => format!("namespaces {}", several.join(", ")),
    }];
    parts.extend(watch.version.iter().map(|version| format!("version {version}")));
    parts.extend(watch.label_selector.iter().map(|selector| format!("labels {selector}")));
    parts.extend(watch.field_selector.iter().map(|selector| format!("fields {selector}")));
    parts.push(format!("payload {}", route.payload.mode.as_str()));
    parts.push(match (route.debounce.quiet, route.debounce.max_wait) {
        (Duration::ZERO, _) => "no debouncing".to_owned(),
        (quiet, max_wait) => format!("quiet {quiet:?}, at most {max_wait:?}"),
    });
    if route.initial == Initial::None {
        parts.push("existing objects are not told".to_owned());
    }
    parts.join("; ")
}
