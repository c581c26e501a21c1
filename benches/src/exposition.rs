//! Figures that the product tells of itself: a histogram of `/metrics`, between two looks.

use std::collections::BTreeMap;

use crate::Outcome;

/// How often a path's answers took at most so long: by the bound in microseconds, summed up as the text has them.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Histogram(BTreeMap<u64, u64>);

impl Histogram {
    /// The times of the answers on one path, since the process began.
    pub(crate) fn of(metrics: &str, path: &str) -> Outcome<Histogram> {
        let wanted = format!("path=\"{path}\"");
        let lines = metrics.lines().filter(|line| {
            line.starts_with("copyrator_admission_duration_seconds_bucket{") && line.contains(&wanted)
        });
        let read = |line: &str| {
            let (_, rest) = line.split_once("le=\"")?;
            let (bound, _) = rest.split_once('"')?;
            let bound = if bound == "+Inf" { f64::INFINITY } else { bound.parse().ok()? };
            // What is infinite becomes the largest number there is.
            Some(((bound * 1e6).round() as u64, line.rsplit(' ').next()?.parse().ok()?))
        };
        let buckets: Option<BTreeMap<u64, u64>> = lines.map(read).collect();
        Ok(Histogram(buckets.ok_or("the metrics have a bucket that cannot be read")?))
    }

    /// What came since an earlier look.
    pub(crate) fn since(&self, before: &Histogram) -> Histogram {
        let count = |(bound, count): (&u64, &u64)| (*bound, count - before.0.get(bound).unwrap_or(&0));
        Histogram(self.0.iter().map(count).collect())
    }

    /// The bound, in milliseconds, that so many percent did not exceed. Infinite beyond the last.
    pub(crate) fn within(&self, percent: f64) -> f64 {
        let all = self.0.values().max().copied().unwrap_or(0) as f64;
        let enough = |(_, count): &(&u64, &u64)| **count as f64 >= all * percent / 100.0;
        match self.0.iter().find(enough) {
            Some((&u64::MAX, _)) => f64::INFINITY,
            Some((bound, _)) => *bound as f64 / 1e3,
            None => 0.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_times_between_two_looks() {
        let metrics = |fast: u64, slow: u64| {
            let bucket = |bound: &str, count: u64| {
                format!("copyrator_admission_duration_seconds_bucket{{le=\"{bound}\",path=\"/a\"}} {count}\n")
            };
            bucket("0.0001", fast) + &bucket("0.001", slow) + &bucket("+Inf", slow)
        };
        let before = Histogram::of(&metrics(10, 20), "/a").unwrap();
        let after = Histogram::of(&metrics(109, 120), "/a").unwrap().since(&before);
        assert_eq!((after.within(99.0), after.within(99.9)), (0.1, 1.0));
        assert_eq!(Histogram::of(&metrics(1, 2), "/b").unwrap().within(99.0), 0.0);
    }
}
