//! A stand-in for a Service: one address, and behind it the replicas of the webhook that are ready.
//!
//! As with kube-proxy, news takes a while: who is not ready any more still gets new connections for some time, and
//! connections that stand are left alone. Where nobody is ready, or the one chosen has gone, a connection is broken off.

use std::io;
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::error::Error;
use crate::ports::Ports;
use crate::probe;

/// How often each replica is asked whether it is ready.
const LOOK: Duration = Duration::from_millis(100);
/// How many replicas there can be.
const REPLICAS: u16 = 2;

/// One address for two replicas of the webhook, while this value lives.
#[derive(Debug)]
pub struct Balancer {
    ports: Ports,
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    members: Vec<Member>,
    turn: AtomicUsize,
    is_over: AtomicBool,
}

#[derive(Debug)]
struct Member {
    webhook: u16,
    admin: u16,
    endpoint: Mutex<Endpoint>,
    connections: AtomicUsize,
}

/// Whether a replica gets connections.
#[derive(Clone, Copy, Debug)]
enum Endpoint {
    Out,
    In,
    /// Until then.
    Leaving(Instant),
}

impl Balancer {
    /// Takes connections from now on. A replica that is not ready any more still gets some for `lag`.
    pub fn open(lag: Duration) -> Result<Balancer, Error> {
        let ports = Ports::reserve()?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, ports.webhook()));
        let listener = listener.map_err(|source| Error::Listen { port: ports.webhook(), source })?;
        let member = |replica| Member {
            webhook: ports.admin(2 * replica),
            admin: ports.admin(2 * replica + 1),
            endpoint: Mutex::new(Endpoint::Out),
            connections: AtomicUsize::new(0),
        };
        let shared = Arc::new(Shared {
            members: (0..REPLICAS).map(member).collect(),
            turn: AtomicUsize::new(0),
            is_over: AtomicBool::new(false),
        });
        let (watching, taking) = (shared.clone(), shared.clone());
        let threads =
            vec![thread::spawn(move || watching.watch(lag)), thread::spawn(move || taking.take(&listener))];
        Ok(Balancer { ports, shared, threads })
    }

    /// The port of the address.
    pub fn port(&self) -> u16 {
        self.ports.webhook()
    }

    /// How many replicas get connections now.
    pub fn ready(&self) -> usize {
        self.shared.members.iter().filter(|member| member.is_in()).count()
    }

    /// How many connections each replica has got so far.
    pub fn connections(&self) -> Vec<usize> {
        self.shared.members.iter().map(|member| member.connections.load(Ordering::Relaxed)).collect()
    }

    /// Where a replica answers reviews, and where probes.
    pub(crate) fn places(&self, replica: u16) -> (u16, u16) {
        let member = &self.shared.members[usize::from(replica)];
        (member.webhook, member.admin)
    }
}

impl Drop for Balancer {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
        // Wakes who waits for a connection.
        drop(TcpStream::connect((Ipv4Addr::LOCALHOST, self.port())));
        for thread in self.threads.drain(..) {
            drop(thread.join());
        }
    }
}

impl Shared {
    fn watch(&self, lag: Duration) {
        while !self.is_over.load(Ordering::Relaxed) {
            for member in &self.members {
                let is_ready = matches!(probe::get(member.admin, "/readyz"), Ok((200, _)));
                let mut endpoint = member.endpoint.lock().unwrap_or_else(PoisonError::into_inner);
                *endpoint = match *endpoint {
                    _ if is_ready => Endpoint::In,
                    Endpoint::In => Endpoint::Leaving(Instant::now() + lag),
                    Endpoint::Leaving(until) if until <= Instant::now() => Endpoint::Out,
                    as_before => as_before,
                };
            }
            thread::sleep(LOOK);
        }
    }

    fn take(&self, listener: &TcpListener) {
        for client in listener.incoming() {
            if self.is_over.load(Ordering::Relaxed) {
                return;
            }
            let Some((client, member)) = client.ok().zip(self.next()) else { continue };
            let Ok(server) = TcpStream::connect((Ipv4Addr::LOCALHOST, member.webhook)) else { continue };
            member.connections.fetch_add(1, Ordering::Relaxed);
            // The peer at its other end hears of a broken connection.
            drop(join(client, server));
        }
    }

    /// Whose turn it is.
    fn next(&self) -> Option<&Member> {
        let there: Vec<&Member> = self.members.iter().filter(|member| member.is_in()).collect();
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        there.get(turn.checked_rem(there.len())?).copied()
    }
}

impl Member {
    fn is_in(&self) -> bool {
        !matches!(*self.endpoint.lock().unwrap_or_else(PoisonError::into_inner), Endpoint::Out)
    }
}

/// Passes on what each says, until both have said all.
fn join(client: TcpStream, server: TcpStream) -> io::Result<()> {
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (from_client, to_server) = (client.try_clone()?, server.try_clone()?);
    thread::spawn(move || pass(from_client, to_server));
    thread::spawn(move || pass(server, client));
    Ok(())
}

fn pass(mut from: TcpStream, mut to: TcpStream) {
    // Whichever way it ends, the other side hears that nothing more comes.
    drop(io::copy(&mut from, &mut to));
    drop(to.shutdown(Shutdown::Write));
}
