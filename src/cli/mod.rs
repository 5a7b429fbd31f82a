//! The command line: what there is to call, and what each command prints and returns. It decides nothing; a command
//! writes where it is told to, so that tests read what a user would.

mod audit;
mod check;
mod run;

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::PathBuf;

use clap::{Parser, Subcommand};

use crate::config::Mistakes;

/// The command did what it was asked for.
pub const DONE: u8 = 0;
/// The command failed.
pub const FAILED: u8 = 1;
/// The arguments or the configuration are wrong.
pub const USAGE: u8 = 2;

/// Tells the outside world what changed in Kubernetes.
///
/// crier watches custom resources and publishes their changes as CloudEvents to Kafka, NATS JetStream and webhooks, at
/// least once and in order for each object.
#[derive(Debug, Parser)]
#[command(
    name = "crier",
    version,
    arg_required_else_help = true,
    disable_help_subcommand = true,
    after_help = "Exit codes: 0 done, 1 failed, 2 wrong arguments or configuration."
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Check a configuration and show what it amounts to; connects to nothing
    Check {
        /// The configuration, a YAML file
        file: PathBuf,
    },
    /// Compare what was told with the cluster, by the process that runs; exit code 1 if anything differs
    Audit(audit::Arguments),
    /// Watch what the configuration names and tell its sinks, until SIGTERM
    Run(run::Arguments),
}

/// Runs the command that these arguments name, the program's own name first, and returns the exit code.
pub fn run<A>(arguments: A, output: &mut dyn Write, errors: &mut dyn Write) -> u8
where
    A: IntoIterator,
    A::Item: Into<OsString> + Clone,
{
    let written = match Arguments::try_parse_from(arguments) {
        Ok(Arguments { command: Command::Check { file } }) => check::run(&file, output, errors),
        Ok(Arguments { command: Command::Audit(arguments) }) => audit::run(arguments, output, errors),
        Ok(Arguments { command: Command::Run(arguments) }) => run::run(arguments, errors),
        Err(stop) => explain(&stop, output, errors),
    };
    // Whoever reads has gone away, and nobody is left to tell.
    written.unwrap_or(FAILED)
}

/// Help and version are answers and go to the output; everything else is a mistake.
fn explain(stop: &clap::Error, output: &mut dyn Write, errors: &mut dyn Write) -> io::Result<u8> {
    let text = stop.render();
    if stop.use_stderr() {
        write!(errors, "{text}")?;
        errors.flush()?;
        return Ok(USAGE);
    }
    write!(output, "{text}")?;
    output.flush()?;
    Ok(DONE)
}

/// Every mistake of a configuration, then how many there are.
fn write_mistakes(mistakes: &Mistakes, errors: &mut dyn Write) -> io::Result<u8> {
    let count = mistakes.all().len();
    writeln!(errors, "{mistakes}\n{count} mistake{}", if count == 1 { "" } else { "s" })?;
    errors.flush()?;
    Ok(USAGE)
}

/// What failed, the chain of causes, and what to do.
fn write_error(error: &anyhow::Error, hint: Option<&str>, errors: &mut dyn Write) -> io::Result<()> {
    writeln!(errors, "error: {error}")?;
    for cause in error.chain().skip(1) {
        writeln!(errors, "Caused by: {cause}")?;
    }
    if let Some(hint) = hint {
        writeln!(errors, "hint: {hint}")?;
    }
    errors.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(arguments: &[&str]) -> (u8, String, String) {
        let (mut output, mut errors) = (Vec::new(), Vec::new());
        let code = run(std::iter::once("crier").chain(arguments.iter().copied()), &mut output, &mut errors);
        (code, String::from_utf8(output).unwrap(), String::from_utf8(errors).unwrap())
    }

    #[test]
    fn help_is_an_answer_and_names_every_command() {
        let (code, output, errors) = call(&["--help"]);
        assert_eq!((code, errors.as_str()), (DONE, ""));
        assert!(output.contains("  check  Check a configuration"), "{output}");
        assert!(output.contains("  run    Watch what the configuration names"), "{output}");
        assert!(output.contains("Exit codes: 0 done"), "{output}");
    }

    #[test]
    fn wrong_arguments_are_told_on_the_error_output() {
        for arguments in [&[][..], &["chekc", "x"], &["check"], &["check", "a", "b"]] {
            let (code, output, errors) = call(arguments);
            assert_eq!((code, output.as_str()), (USAGE, ""), "{arguments:?}");
            assert!(errors.contains("Usage: crier"), "{errors}");
        }
    }

    #[test]
    fn a_right_configuration_is_summed_up() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("crier.yaml");
        let text = "
cluster: prod
state: memory
sinks:
  events: { kafka: { brokers: [kafka:9092], topic: \"cr.{resource}\" } }
  out: { stdout: {} }
routes:
  - name: apps
    watch: { resources: [myapps.example.com], namespaces: [team-a, team-b], labelSelector: tier=prod }
    sinks: [events, out]
  - name: maps
    watch: { resources: [configmaps] }
    sinks: [out]
    debounce: { quiet: 0s }
    payload: { mode: reference }
    initial: none
";
        std::fs::write(&path, text).unwrap();
        let (code, output, errors) = call(&["check", path.to_str().unwrap()]);
        let expected = format!(
            "{} is fine.\n\n{}",
            path.display(),
            "cluster  prod
state    in memory, forgotten when the process ends
sinks    events (kafka), out (stdout)

routes
  apps/myapps.example.com/events
  apps/myapps.example.com/out
    namespaces team-a, team-b; labels tier=prod; payload object; quiet 100ms, at most 1s
  maps/configmaps/out
    all namespaces; payload reference; no debouncing; existing objects are not told
"
        );
        assert_eq!((code, output.as_str(), errors.as_str()), (DONE, expected.as_str(), ""));
    }

    #[test]
    fn all_mistakes_are_told_on_the_error_output() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("crier.yaml");
        std::fs::write(&path, "state: memroy\nsinks: { out: { stdout: {} } }\nroute: []\n").unwrap();
        let (code, output, errors) = call(&["check", path.to_str().unwrap()]);
        assert_eq!((code, output.as_str()), (USAGE, ""));
        let lines: Vec<&str> = errors.lines().collect();
        assert_eq!(lines.len(), 7, "{errors}");
        assert_eq!(lines[6], "3 mistakes");
        assert!(lines[0].starts_with(&format!("error: {}:1:1: routes: missing", path.display())), "{errors}");
    }

    #[test]
    fn a_file_that_is_not_there_is_told_by_its_name() {
        let (code, output, errors) = call(&["check", "/nonexistent/crier.yaml"]);
        assert_eq!((code, output.as_str()), (USAGE, ""));
        assert!(errors.starts_with("error: /nonexistent/crier.yaml: the file cannot be read: "), "{errors}");
    }

    #[test]
    fn a_reader_that_went_away_is_a_failure_and_no_panic() {
        struct Closed;
        impl Write for Closed {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::BrokenPipe.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        assert_eq!(run(["crier", "--help"], &mut Closed, &mut Closed), FAILED);
    }
}
