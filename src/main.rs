//! The copyrator binary: command line in, exit code out.

use std::process::ExitCode;

fn main() -> ExitCode {
    // The default provider for code that uses TLS without naming one. `install_default` can only fail if
    // called twice.
    let _ = rustls::crypto::ring::default_provider().install_default();
    copyrator::called(std::env::args_os().collect()).into()
}
