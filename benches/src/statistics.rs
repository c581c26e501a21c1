//! What many measurements come to.

use serde::Serialize;

/// The smallest, the middle and the largest of several measurements.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Summary {
    pub(crate) min: f64,
    pub(crate) median: f64,
    pub(crate) max: f64,
}

impl Summary {
    /// Of nothing there is none.
    pub(crate) fn of(values: &[f64]) -> Option<Summary> {
        let sorted = sorted(values);
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        let half = sorted.len() / 2;
        let median =
            if sorted.len() % 2 == 1 { sorted[half] } else { (sorted[half - 1] + sorted[half]) / 2.0 };
        Some(Summary { min, median, max })
    }
}

/// The smallest value that `percent` of all values do not exceed (the nearest-rank percentile: always a value that
/// was seen). Zero for no values.
pub(crate) fn percentile(values: &[f64], percent: f64) -> f64 {
    let rank = (percent / 100.0 * values.len() as f64).ceil() as usize;
    sorted(values).get(rank.saturating_sub(1)).copied().unwrap_or_default()
}

fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_is_of_the_sorted_values() {
        let of = |values: &[f64]| Summary::of(values).map(|s| (s.min, s.median, s.max));
        assert_eq!(of(&[3.0, 1.0, 2.0]), Some((1.0, 2.0, 3.0)));
        assert_eq!(of(&[4.0, 1.0, 3.0, 2.0]), Some((1.0, 2.5, 4.0)));
        assert_eq!(of(&[7.0]), Some((7.0, 7.0, 7.0)));
        assert_eq!(of(&[]), None);
    }

    #[test]
    fn a_percentile_is_a_value_that_was_seen() {
        let hundred: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        assert_eq!(percentile(&hundred, 50.0), 50.0);
        assert_eq!(percentile(&hundred, 99.0), 99.0);
        assert_eq!(percentile(&hundred, 100.0), 100.0);
        assert_eq!(percentile(&[5.0, 9.0], 99.0), 9.0);
        assert_eq!(percentile(&[], 99.0), 0.0);
    }
}
