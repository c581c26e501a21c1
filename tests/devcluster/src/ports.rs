//! Loopback ports that no other cluster takes, now or while one of our components is stopped.
//!
//! The usual "bind port 0 and look" would not do: as soon as the port is free again for the component, the
//! kernel may give it to any outgoing connection, and with several clusters side by side it sooner or later
//! does. So ports come in blocks from below the range that the kernel gives away, and a block belongs to
//! the process that listens on its first port, which lasts as long as the owner and is decided by the kernel.

use std::net::{Ipv4Addr, TcpListener};

use ring::rand::{SecureRandom, SystemRandom};

use crate::error::Error;

const FIRST: u16 = 20_000;
const BLOCKS: u16 = 2_400;
const BLOCK: u16 = 4;

/// A block of ports, ours until dropped.
#[derive(Debug)]
pub(crate) struct Ports {
    pub(crate) etcd: u16,
    pub(crate) etcd_peer: u16,
    pub(crate) api_server: u16,
    _claim: TcpListener,
}

impl Ports {
    /// Finds a free block, from a random one on.
    pub(crate) fn reserve() -> Result<Ports, Error> {
        let mut random = [0; 2];
        SystemRandom::new().fill(&mut random).map_err(|_| Error::Random { purpose: "ports" })?;
        let start = u16::from_ne_bytes(random) % BLOCKS;
        (0..BLOCKS)
            .find_map(|offset| claim(FIRST + (start + offset) % BLOCKS * BLOCK))
            .ok_or(Error::NoFreePorts { from: FIRST, to: FIRST + BLOCKS * BLOCK - 1 })
    }
}

fn claim(first: u16) -> Option<Ports> {
    let claim = listen(first)?;
    // A cluster that was kept running no longer listens on the first port, but does on the others.
    let free = (first + 1..first + BLOCK).all(|port| listen(port).is_some());
    free.then_some(Ports { etcd: first + 1, etcd_peer: first + 2, api_server: first + 3, _claim: claim })
}

fn listen(port: u16) -> Option<TcpListener> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).ok()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::Ports;

    #[test]
    fn reservations_never_overlap() {
        let all: Vec<Ports> = (0..50).map(|_| Ports::reserve().unwrap()).collect();
        let ports: BTreeSet<u16> = all.iter().flat_map(|p| [p.etcd, p.etcd_peer, p.api_server]).collect();
        assert_eq!(ports.len(), 150);
    }
}
