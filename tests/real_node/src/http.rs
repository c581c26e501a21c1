//! One request over plain HTTP: to the application behind its Service, and to `kubectl proxy`.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// What came back.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) code: u16,
    /// As it came, chunks and all.
    pub(crate) body: String,
}

/// Asks on a connection of its own.
pub(crate) fn request(address: &str, method: &str, path: &str, kind: &str, body: &str) -> io::Result<Answer> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(15)))?;
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nAccept: */*\r\n\
         Content-Type: {kind}\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    let answer = String::from_utf8_lossy(&answer);
    let code = answer.split(' ').nth(1).and_then(|code| code.parse().ok());
    let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body).to_owned();
    let code = code.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "no HTTP answer"))?;
    Ok(Answer { code, body })
}

/// The body of `GET /`, if all is well.
pub(crate) fn get(address: &str) -> Result<String, String> {
    match request(address, "GET", "/", "text/plain", "") {
        Ok(Answer { code: 200, body }) => Ok(body.trim().to_owned()),
        Ok(Answer { code, body }) => Err(format!("{code} {body}")),
        Err(error) => Err(error.to_string()),
    }
}
