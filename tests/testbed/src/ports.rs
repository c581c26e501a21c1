//! Loopback ports for the operator's processes, the same ones after a restart.
//!
//! As those of devcluster, they lie below the range that the kernel gives to outgoing connections, and a block
//! belongs to the process that listens on its first port.

use std::net::{Ipv4Addr, TcpListener};

use crate::error::Error;

const FIRST: u16 = 30_000;
const BLOCKS: u16 = 300;
const BLOCK: u16 = 8;

/// A block of ports, ours until dropped.
#[derive(Debug)]
pub(crate) struct Ports {
    first: u16,
    _claim: TcpListener,
}

impl Ports {
    pub(crate) fn reserve() -> Result<Ports, Error> {
        let start = u16::try_from(std::process::id() % u32::from(BLOCKS)).unwrap_or(0);
        (0..BLOCKS)
            .find_map(|offset| claim(FIRST + (start + offset) % BLOCKS * BLOCK))
            .ok_or(Error::NoFreePorts)
    }

    /// Where the API server reaches the webhook.
    pub(crate) fn webhook(&self) -> u16 {
        self.first + 1
    }

    /// The plain port of one process: liveness, readiness, metrics.
    pub(crate) fn admin(&self, slot: u16) -> u16 {
        assert!(slot < BLOCK - 2, "a test bed has {} processes at most", BLOCK - 2);
        self.first + 2 + slot
    }
}

fn claim(first: u16) -> Option<Ports> {
    let listen = |port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).ok();
    let claim = listen(first)?;
    let all_free = (first + 1..first + BLOCK).all(|port| listen(port).is_some());
    all_free.then_some(Ports { first, _claim: claim })
}
