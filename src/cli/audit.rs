//! `crier audit`: compares what was told with the cluster, by the process that runs, and prints what was found.

use std::io::{self, Write};
use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::{DONE, FAILED, USAGE, write_error, write_mistakes};
use crate::admin::control::{self, ControlAnswer, ControlRequest};
use crate::config::{self, State};
use crate::model::AuditResult;

/// What `audit` takes.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// The configuration that the process runs with
    #[arg(long, value_name = "FILE", env = "CRIER_CONFIG")]
    config: PathBuf,
    /// Only this route, by its name or as name/resource/sink [default: all]
    route: Option<String>,
    /// How the result is printed
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    output: Format,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Lines for people
    Table,
    /// One JSON object
    Json,
}

/// Asks for an audit; the exit code is 1 where something differs, or could not be compared.
pub(super) fn run(arguments: Arguments, output: &mut dyn Write, errors: &mut dyn Write) -> io::Result<u8> {
    let config = match config::load(&arguments.config) {
        Ok(config) => config,
        Err(mistakes) => return write_mistakes(&mistakes, errors),
    };
    let State::Directory { path, .. } = &config.state else {
        let error = anyhow::anyhow!("a process whose state is in memory takes no commands");
        write_error(&error, Some("give it a state directory: `state: { path: ... }`"), errors)?;
        return Ok(USAGE);
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let request = ControlRequest::Audit { route: arguments.route };
    let answer = match runtime.block_on(control::ask(path, &request)) {
        Ok(answer) => answer,
        Err(error) => {
            let what = format!("no process answers at {}", control::socket_path(path).display());
            let hint = "start it by `crier run` with the same configuration, and run this command as the same user";
            write_error(&anyhow::Error::new(error).context(what), Some(hint), errors)?;
            return Ok(FAILED);
        }
    };
    match answer {
        ControlAnswer::Refused { reason } => {
            write_error(&anyhow::anyhow!(reason), None, errors)?;
            Ok(USAGE)
        }
        ControlAnswer::Audit(result) => {
            match arguments.output {
                Format::Json => writeln!(output, "{}", serde_json::to_string_pretty(&result)?)?,
                Format::Table => write_table(&result, output)?,
            }
            output.flush()?;
            Ok(if result.drift() == 0 && result.is_complete() { DONE } else { FAILED })
        }
    }
}

fn write_table(result: &AuditResult, output: &mut dyn Write) -> io::Result<()> {
    for feed in &result.feeds {
        if let Some(error) = &feed.error {
            writeln!(output, "{}: not compared: {error}", feed.feed)?;
            continue;
        }
        writeln!(output, "{}: {} objects, {} differences", feed.feed, feed.objects, feed.drift)?;
        for difference in &feed.differences {
            writeln!(output, "  {}  {}  is told now: {}", difference.route, difference.object, difference.owes)?;
        }
        let named = feed.differences.len() as u64;
        if feed.drift > named {
            writeln!(output, "  and {} more", feed.drift - named)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Difference, FeedAudit};

    #[test]
    fn what_differs_is_named_and_what_could_not_be_compared_too() {
        let difference = Difference { route: "apps/a/b".into(), object: "n/shop".into(), owes: "deleted".into() };
        let result = AuditResult {
            feeds: vec![
                FeedAudit {
                    feed: "myapps.example.com".into(),
                    error: None,
                    objects: 12,
                    drift: 3,
                    differences: vec![difference],
                },
                FeedAudit { feed: "others".into(), error: Some("parked".into()), ..FeedAudit::default() },
            ],
        };
        let mut text = Vec::new();
        write_table(&result, &mut text).unwrap();
        let expected = "myapps.example.com: 12 objects, 3 differences\n  apps/a/b  n/shop  is told now: deleted\n  and 2 more\nothers: not compared: parked\n";
        assert_eq!(String::from_utf8(text).unwrap(), expected);
        assert!(result.drift() == 3 && !result.is_complete());
    }
}
