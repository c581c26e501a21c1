//! The application of the test with real pods. `greeter` answers every HTTP request on port 8080 with the greeting that it
//! was started with, `GREETING` of its environment: like most programs it reads its configuration once, so a new one
//! takes a restart. `greeter pause` does nothing, for as long as it is let: it holds a pod's network.
//!
//! Nothing but the standard library, so that its image is one small static file.
#![allow(clippy::print_stderr, reason = "its log")]
#![allow(
    clippy::disallowed_methods,
    reason = "what it says comes from its environment: that is what it is for"
)]

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::process::ExitCode;
use std::time::Duration;
use std::{env, io, thread};

fn main() -> ExitCode {
    if env::args().nth(1).is_some_and(|argument| argument == "pause") {
        loop {
            thread::park();
        }
    }
    let greeting = env::var("GREETING").unwrap_or_else(|_| "nobody told me what to say".to_owned());
    match serve(&greeting) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("greeter: {error}");
            ExitCode::FAILURE
        }
    }
}

fn serve(greeting: &str) -> io::Result<()> {
    let listener = TcpListener::bind("0.0.0.0:8080")?;
    eprintln!("greeter: saying {greeting:?} on {}", listener.local_addr()?);
    for stream in listener.incoming() {
        // A caller who went away is no reason to stop.
        if let Err(error) = stream.and_then(|stream| answer(stream, greeting)) {
            eprintln!("greeter: {error}");
        }
    }
    Ok(())
}

/// Reads a request to the end of its head, and answers it, whatever it asked.
fn answer(mut stream: TcpStream, greeting: &str) -> io::Result<()> {
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    for line in BufReader::new(&stream).lines().take(100) {
        if line?.is_empty() {
            break;
        }
    }
    let length = greeting.len() + 1;
    write!(stream, "HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\n")?;
    write!(stream, "Content-Length: {length}\r\nConnection: close\r\n\r\n{greeting}\n")
}
