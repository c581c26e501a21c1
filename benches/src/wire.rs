//! One connection to the webhook, as the API server keeps one: TLS, HTTP/1.1, one request at a time. It blocks its thread, so
//! that no scheduling of a runtime's comes into the times.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use http::Uri;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::Outcome;

/// Longer than the webhook takes for anything.
const PATIENCE: Duration = Duration::from_secs(35);

/// Where the webhook listens, and whom to trust there.
#[derive(Clone)]
pub(crate) struct Endpoint {
    address: String,
    name: ServerName<'static>,
    tls: Arc<ClientConfig>,
}

impl Endpoint {
    /// From a hook's URL and its `caBundle`, in PEM.
    pub(crate) fn of(url: &str, ca_bundle: &[u8]) -> Outcome<Endpoint> {
        let uri: Uri = url.parse()?;
        let authority = uri.authority().ok_or_else(|| format!("{url} names no host"))?;
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(ca_bundle) {
            roots.add(certificate.map_err(|_| "the caBundle is damaged")?)?;
        }
        Ok(Endpoint {
            address: format!("{}:{}", authority.host(), authority.port_u16().unwrap_or(443)),
            name: ServerName::try_from(authority.host().to_owned())?,
            tls: Arc::new(ClientConfig::builder().with_root_certificates(roots).with_no_client_auth()),
        })
    }

    /// The bytes of a request with a body of JSON.
    pub(crate) fn post(&self, path: &str, body: &[u8]) -> Vec<u8> {
        let (address, length) = (&self.address, body.len());
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\n\
             Accept: application/json\r\nContent-Length: {length}\r\n\r\n"
        );
        [head.as_bytes(), body].concat()
    }

    /// Opens a connection, handshake and all.
    pub(crate) fn connect(&self) -> Outcome<Wire> {
        let socket = TcpStream::connect(&self.address)?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(PATIENCE))?;
        socket.set_write_timeout(Some(PATIENCE))?;
        let session = ClientConnection::new(self.tls.clone(), self.name.clone())?;
        let mut stream = StreamOwned::new(session, socket);
        while stream.conn.is_handshaking() {
            stream.conn.complete_io(&mut stream.sock)?;
        }
        Ok(Wire { stream, read: Vec::new() })
    }
}

/// One TLS connection to the webhook, kept open between requests.
pub(crate) struct Wire {
    stream: StreamOwned<ClientConnection, TcpStream>,
    /// What was read of the answer so far; kept for its room.
    read: Vec<u8>,
}

/// What the webhook answered to one review.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    /// Its HTTP status code.
    pub(crate) status: u16,
    /// The writer may go on; of an answer that is a verdict.
    pub(crate) allowed: bool,
    /// The server closes the connection.
    pub(crate) closes: bool,
}

impl Wire {
    /// Sends a request, and returns its answer as it came, head and all.
    pub(crate) fn text(&mut self, request: &[u8]) -> io::Result<String> {
        self.ask(request)?;
        Ok(String::from_utf8_lossy(&self.read).into_owned())
    }

    /// Sends a request and reads its answer to the end.
    pub(crate) fn ask(&mut self, request: &[u8]) -> io::Result<Answer> {
        // A server that does not want to read a long request says so and hangs up: that answer still counts.
        let sent = self.stream.write_all(request).and_then(|()| self.stream.flush());
        self.read.clear();
        let mut chunk = [0; 8192];
        loop {
            if let Some((answer, end)) = head(&self.read)
                && self.read.len() >= end
            {
                let allowed = contains(&self.read, br#""allowed":true"#);
                return Ok(Answer { allowed, closes: answer.closes || sent.is_err(), ..answer });
            }
            match self.stream.read(&mut chunk) {
                Ok(0) => return Err(sent.err().unwrap_or_else(|| io::ErrorKind::UnexpectedEof.into())),
                Ok(length) => self.read.extend_from_slice(&chunk[..length]),
                Err(error) => return Err(error),
            }
        }
    }
}

/// What an answer's head says, and where the answer ends; none while the head is not complete.
fn head(bytes: &[u8]) -> Option<(Answer, usize)> {
    let body = bytes.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
    let head = std::str::from_utf8(&bytes[..body]).ok()?.to_ascii_lowercase();
    let status = head.split(' ').nth(1)?.parse().ok()?;
    let field = |name: &str| {
        head.lines()
            .find_map(|line| Some(line.split_once(':')?).filter(|(key, _)| *key == name))
            .map(|it| it.1.trim())
    };
    let length: usize = field("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    let closes = field("connection") == Some("close");
    Some((Answer { status, allowed: false, closes }, body + length))
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_ends_where_its_length_says() {
        let answer = b"HTTP/1.1 429 Too Many Requests\r\nContent-Length: 4\r\nConnection: close\r\n\r\nbusy";
        let expected = Answer { status: 429, allowed: false, closes: true };
        assert_eq!(head(answer), Some((expected, answer.len())));
        assert_eq!(head(&answer[..40]), None);
        let (answer, end) = head(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n").unwrap();
        assert_eq!((answer.status, answer.closes, end), (200, false, 40));
    }
}
