//! How much is measured: in full, or just enough to see that it works.

use serde::Serialize;

/// The command line's wishes; what is not wished for has its full or its quick size.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct Wishes {
    /// Everything small, in about a minute: to see that it works, not to learn anything.
    #[arg(long, conflicts_with = "record")]
    pub(crate) quick: bool,
    /// How many namespaces there are. fan-out: only this many, instead of 100, 1000 and 5000.
    #[arg(long, value_name = "N")]
    namespaces: Option<usize>,
    /// The fan-outs: how often each side runs.
    #[arg(long, value_name = "N")]
    pairs: Option<usize>,
    /// new-namespace: how many namespaces are created a round.
    #[arg(long, value_name = "N")]
    samples: Option<usize>,
    /// How often everything but the fan-outs is measured.
    #[arg(long, value_name = "N")]
    rounds: Option<usize>,
    /// restart-*: how many Deployments there are. restart-fan-out: only this many, instead of 50 and 500.
    #[arg(long, value_name = "N")]
    workloads: Option<usize>,
    /// restart-*: for how many seconds is written again and again.
    #[arg(long, value_name = "SECONDS")]
    seconds: Option<u64>,
    /// memory: how many foreign Secrets there are, instead of 0, 5000 and 20000.
    #[arg(long, value_name = "N")]
    secrets: Option<usize>,
    /// console: how many rules there are, each with a copy in every namespace.
    #[arg(long, value_name = "N")]
    rules: Option<usize>,
    /// console: how many pages are open at once, of a third as many people.
    #[arg(long, value_name = "N")]
    pages: Option<usize>,
    /// admission-load: only this many reviews a second, instead of 100 to 20000.
    #[arg(long, value_name = "N")]
    rate: Option<u32>,
}

/// How much is measured.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Sizes {
    pub(crate) quick: bool,
    /// Targets of a fan-out.
    pub(crate) fan_out: Vec<usize>,
    /// Runs of each side of a fan-out.
    pub(crate) pairs: usize,
    /// Namespaces that are there, but for fan-outs.
    pub(crate) namespaces: usize,
    /// Copies a namespace, where there are many.
    pub(crate) copies_a_namespace: usize,
    /// Namespaces that are created a round.
    pub(crate) samples: usize,
    /// How many times each measurement is made.
    pub(crate) rounds: usize,
    /// Foreign Secrets, fewest first.
    pub(crate) secrets: Vec<usize>,
    /// The size of a foreign Secret.
    pub(crate) secret_bytes: usize,
    /// Large ConfigMaps that a workload uses.
    pub(crate) used: usize,
    /// Objects, where memory at rest is looked at.
    pub(crate) objects: usize,
    /// Deployments that one Secret restarts.
    pub(crate) restarts: Vec<usize>,
    /// Deployments that one Secret restarts, where there are places for them.
    pub(crate) places: usize,
    /// Deployments that are there.
    pub(crate) workloads: usize,
    /// Deployments of other people.
    pub(crate) foreign: usize,
    /// Seconds in which is written again and again.
    pub(crate) seconds: u64,
    /// Reviews that are due a second.
    pub(crate) rates: Vec<u32>,
    /// Seconds at each rate.
    pub(crate) load_seconds: u64,
    /// Writes through the API server, of each side of a pair.
    pub(crate) writes: usize,
    /// Namespaces, where there are very many: with rules of which each selects two fifths of them.
    pub(crate) scale_namespaces: usize,
    /// Sources that annotations declare, where there are very many.
    pub(crate) scale_sources: usize,
    /// Objects in one namespace, where there are very many.
    pub(crate) scale_objects: usize,
    /// Rules of which each has a copy in every namespace.
    pub(crate) rules: usize,
    /// Pages of the console that are open at once.
    pub(crate) pages: usize,
    /// For how many seconds they are.
    pub(crate) pages_seconds: u64,
    /// Seconds without anything to do, before memory is looked at.
    pub(crate) rest_seconds: u64,
    /// Milliseconds without a write of ours, before the next measurement begins: statuses wait for up to two seconds.
    pub(crate) quiet_ms: u64,
}

impl From<&Wishes> for Sizes {
    fn from(wishes: &Wishes) -> Sizes {
        let quick = wishes.quick;
        let size = |full: usize, small: usize| if quick { small } else { full };
        let sizes = |full: &[usize], small: &[usize]| if quick { small.to_vec() } else { full.to_vec() };
        let namespaces = wishes.namespaces.unwrap_or(size(1000, 40));
        Sizes {
            quick,
            fan_out: wishes.namespaces.map_or_else(|| sizes(&[100, 1000, 5000], &[50]), |only| vec![only]),
            pairs: wishes.pairs.unwrap_or(size(6, 1)).max(1),
            namespaces,
            copies_a_namespace: size(20, 3),
            samples: wishes.samples.unwrap_or(size(200, 10)).max(1),
            rounds: wishes.rounds.unwrap_or(size(5, 1)).max(1),
            secrets: wishes
                .secrets
                .map_or_else(|| sizes(&[0, 5000, 20_000], &[0, 100]), |only| vec![0, only]),
            secret_bytes: 32 * 1024,
            used: size(200, 5),
            objects: namespaces * size(30, 5),
            restarts: wishes.workloads.map_or_else(|| sizes(&[50, 500], &[5]), |only| vec![only]),
            places: wishes.workloads.unwrap_or(size(100, 5)).max(1),
            workloads: wishes.workloads.unwrap_or(size(1000, 20)).max(1),
            foreign: size(20_000, 50),
            seconds: wishes.seconds.unwrap_or(if quick { 5 } else { 30 }).max(1),
            rates: wishes.rate.map_or_else(
                || if quick { vec![100, 1000] } else { vec![100, 500, 1000, 2000, 5000, 10_000, 20_000] },
                |only| vec![only.max(1)],
            ),
            load_seconds: if quick { 1 } else { 10 },
            writes: size(1000, 40),
            scale_namespaces: wishes.namespaces.unwrap_or(size(5000, 50)),
            scale_sources: size(10_000, 100),
            scale_objects: size(20_000, 200),
            rules: wishes.rules.unwrap_or(size(50, 3)).max(1),
            pages: wishes.pages.unwrap_or(size(50, 4)).max(1),
            pages_seconds: if quick { 5 } else { 60 },
            rest_seconds: if quick { 1 } else { 15 },
            quiet_ms: if quick { 300 } else { 2500 },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wishes_go_before_full_and_quick_sizes() {
        let full = Sizes::from(&Wishes::default());
        assert_eq!((full.fan_out, full.namespaces, full.objects), (vec![100, 1000, 5000], 1000, 30_000));
        assert_eq!((full.restarts, full.workloads, full.seconds), (vec![50, 500], 1000, 30));
        let wishes = Wishes { namespaces: Some(7), secrets: Some(9), quick: true, ..Wishes::default() };
        let sizes = Sizes::from(&wishes);
        assert_eq!((sizes.fan_out, sizes.namespaces, sizes.secrets), (vec![7], 7, vec![0, 9]));
    }
}
