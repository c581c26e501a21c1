//! The copyrator binary: command line in, exit code out.

use std::process::ExitCode;

fn main() -> ExitCode {
    // Code that asks for TLS without naming a provider gets this one; a second installation cannot happen
    // here.
    let _ = rustls::crypto::ring::default_provider().install_default();
    copyrator::called(std::env::args_os().collect()).into()
}
