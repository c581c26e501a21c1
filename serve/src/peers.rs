//! A rate limit and a connection limit for each address, so that one address can neither probe the webhook
//! for long nor keep the API server waiting.

use std::{
    collections::HashMap,
    net::{IpAddr, Ipv6Addr},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

/// Number of addresses that have their own limit. All other addresses share one limit.
const MOST: usize = 4096;
/// Shortest time between two removals of idle addresses from the table.
const SWEEP: Duration = Duration::from_secs(1);
/// Longest time for which an idle address accumulates allowance.
const SAVED: Duration = Duration::from_secs(2);

/// The rate limit of each address. Clones share the limits.
#[derive(Clone, Debug)]
pub struct PeerRate {
    /// The part of an address's time that one request uses.
    price: Duration,
    table: Arc<Mutex<Table>>,
}

/// The time until which each address has used up its allowance: the generic cell rate algorithm, one instant
/// per address.
#[derive(Debug, Default)]
struct Table {
    used: HashMap<IpAddr, Instant>,
    /// The shared entry of all addresses that the full table has no place for.
    others: Option<Instant>,
    swept: Option<Instant>,
}

impl PeerRate {
    /// Returns a limit of `per_second` requests per second and address. After a pause, an address may send
    /// twice as many requests at once. `None` if `per_second` is 0: no limit.
    pub fn new(per_second: u32) -> Option<Self> {
        let price = Duration::from_secs(1).checked_div(per_second)?;
        Some(Self { price, table: Arc::default() })
    }

    /// Whether an address may send a request now. Counts an admitted request.
    pub(super) fn admits(&self, peer: IpAddr, now: Instant) -> bool {
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        let used = table.used_by(network(peer), now);
        let next = (*used).max(now) + self.price;
        let admitted = next.duration_since(now) <= SAVED;
        if admitted {
            *used = next;
        }
        admitted
    }
}

impl Table {
    fn used_by(&mut self, peer: IpAddr, now: Instant) -> &mut Instant {
        let is_due = self.swept.is_none_or(|swept| now.saturating_duration_since(swept) >= SWEEP);
        if self.used.len() >= MOST && is_due && !self.used.contains_key(&peer) {
            self.used.retain(|_, used| *used > now);
            self.swept = Some(now);
        }
        match self.used.len() < MOST || self.used.contains_key(&peer) {
            true => self.used.entry(peer).or_insert(now),
            false => self.others.get_or_insert(now),
        }
    }
}

/// The number of open connections of each address. Clones share the counts. The map has at most as many
/// entries as connections are open.
#[derive(Clone, Debug, Default)]
pub(super) struct OpenByPeer(Arc<Mutex<HashMap<IpAddr, usize>>>);

/// One open connection, counted until it is dropped.
pub(super) struct OpenOfPeer {
    all: OpenByPeer,
    peer: IpAddr,
}

impl OpenByPeer {
    /// Counts one more connection of this address; `None` if the address has `most` already.
    pub(super) fn take(&self, peer: IpAddr, most: usize) -> Option<OpenOfPeer> {
        let peer = network(peer);
        let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if open.get(&peer).is_some_and(|open| *open >= most) {
            return None;
        }
        *open.entry(peer).or_insert(0) += 1;
        Some(OpenOfPeer { all: self.clone(), peer })
    }
}

impl OpenOfPeer {
    /// Whether the connection comes from the same machine as this address.
    pub(super) fn is_of(&self, peer: IpAddr) -> bool {
        self.peer == network(peer)
    }
}

impl Drop for OpenOfPeer {
    fn drop(&mut self) {
        let mut open = self.all.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = open.get_mut(&self.peer) {
            *count -= 1;
            if *count == 0 {
                open.remove(&self.peer);
            }
        }
    }
}

/// Returns the network that one machine can use: one IPv4 address, or a /64 of IPv6.
fn network(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX)).into(),
        v4 => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn v4(number: u32) -> IpAddr {
        std::net::Ipv4Addr::from_bits(number).into()
    }

    /// How many of `tries` are admitted.
    fn admitted(rate: &PeerRate, peer: IpAddr, now: Instant, tries: usize) -> usize {
        (0..tries).filter(|_| rate.admits(peer, now)).count()
    }

    #[test]
    fn an_address_has_its_rate_and_twice_that_after_a_pause() {
        let (rate, start) = (PeerRate::new(10).unwrap(), Instant::now());
        let after = |millis| start + Duration::from_millis(millis);
        assert_eq!(admitted(&rate, v4(1), start, 100), 20);
        assert_eq!(admitted(&rate, v4(1), after(99), 100), 0);
        assert_eq!(admitted(&rate, v4(1), after(100), 100), 1);
        assert_eq!(admitted(&rate, v4(1), after(1100), 100), 10);
        assert_eq!(admitted(&rate, v4(1), after(60_000), 100), 20, "no more is saved up");
        assert!(PeerRate::new(0).is_none());
    }

    #[test]
    fn one_address_does_not_use_up_anothers_rate() {
        let (rate, now) = (PeerRate::new(10).unwrap(), Instant::now());
        assert_eq!(admitted(&rate, v4(1), now, 1000), 20);
        assert_eq!(admitted(&rate, v4(2), now, 10), 10);
        let v6 = |text: &str| text.parse::<IpAddr>().unwrap();
        assert_eq!(admitted(&rate, v6("2001:db8::1"), now, 1000), 20);
        assert_eq!(admitted(&rate, v6("2001:db8::2"), now, 1), 0, "a machine can have a whole /64");
        assert_eq!(admitted(&rate, v6("2001:db8:0:1::1"), now, 1), 1);
        assert_eq!(admitted(&rate, v6("::ffff:0.0.0.1"), now, 1), 0, "the same address in other clothes");
    }

    #[test]
    fn an_address_without_connections_is_not_remembered() {
        let open = OpenByPeer::default();
        let first = open.take(v4(1), 2).unwrap();
        let second = open.take(v4(1), 2).unwrap();
        assert!(open.take(v4(1), 2).is_none() && open.take(v4(2), 2).is_some());
        drop(first);
        let third = open.take(v4(1), 2);
        assert!(third.is_some() && open.take(v4(1), 2).is_none());
        drop((second, third));
        assert!(open.0.lock().unwrap().is_empty());
    }

    /// A flood of addresses costs a bounded table, and no address in it loses its rate.
    #[test]
    fn a_flood_of_addresses_does_not_grow_the_table() {
        let (rate, start) = (PeerRate::new(1).unwrap(), Instant::now());
        let most = u32::try_from(MOST).unwrap();
        for number in 0..10 * most {
            rate.admits(v4(number), start);
        }
        let size = |rate: &PeerRate| rate.table.lock().unwrap().used.len();
        assert_eq!(size(&rate), MOST);
        assert!(rate.admits(v4(1), start), "a known peer still has its second request");
        assert!(!rate.admits(v4(11 * most), start), "those beyond share what one has");
        assert!(rate.admits(v4(11 * most), start + Duration::from_secs(2)), "the quiet are forgotten");
        assert!(size(&rate) < MOST);
    }
}
