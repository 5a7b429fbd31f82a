//! The binary: arguments, then a command, then an exit code. It decides nothing.

use std::io::{stderr, stdout};
use std::process::ExitCode;

fn main() -> ExitCode {
    // Clients of TLS find their cryptography here. It can only fail when there is one already, and nothing ran before.
    let installed = rustls::crypto::ring::default_provider().install_default();
    assert!(installed.is_ok(), "something has installed a TLS provider before main");
    ExitCode::from(crier::cli::run(std::env::args_os(), &mut stdout(), &mut stderr()))
}
