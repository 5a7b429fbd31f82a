//! The binary: arguments, then a command, then an exit code. It decides nothing.

fn main() {}
