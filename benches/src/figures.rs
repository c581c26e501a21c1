//! What a benchmark found, and how it stands to the budgets. `Report` is the shape of the JSON, which `benches/runs` keeps.

use serde::Serialize;

use crate::machine::Machine;
use crate::program::Program;
use crate::sizes::Sizes;
use crate::statistics::Summary;

/// What the runs of one figure may come to.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Budget {
    /// The limit itself is still good.
    pub(crate) at_most: f64,
    /// Which of the runs is held to it.
    pub(crate) judged: Judged,
}

/// One of several runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Judged {
    /// The one in the middle.
    Median,
    /// The largest of all values.
    Max,
}

/// One line of a table.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Figure {
    pub(crate) what: String,
    pub(crate) unit: &'static str,
    /// One value a run, in the order of the runs.
    pub(crate) runs: Vec<f64>,
    pub(crate) summary: Summary,
    pub(crate) budget: Option<Budget>,
    /// Nothing without a budget.
    pub(crate) met: Option<bool>,
}

/// What one benchmark found.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) benchmark: &'static str,
    /// What it measures, for people.
    pub(crate) title: &'static str,
    /// When it began, in UTC.
    pub(crate) began: String,
    pub(crate) seconds: f64,
    pub(crate) command: String,
    pub(crate) machine: Machine,
    pub(crate) program: Program,
    pub(crate) sizes: Sizes,
    pub(crate) figures: Vec<Figure>,
}

/// Gathers figures in the order of their first mention.
#[derive(Clone, Debug, Default)]
pub(crate) struct Figures {
    list: Vec<(String, &'static str, Option<Budget>, Vec<f64>)>,
}

impl Figures {
    /// Adds one run to a figure without a budget.
    pub(crate) fn add(&mut self, what: impl Into<String>, unit: &'static str, value: f64) {
        self.add_with(what, unit, None, value);
    }

    /// Adds one run to a figure.
    pub(crate) fn add_with(
        &mut self,
        what: impl Into<String>,
        unit: &'static str,
        budget: Option<Budget>,
        value: f64,
    ) {
        let what = what.into();
        match self.list.iter_mut().find(|(known, ..)| *known == what) {
            Some((.., runs)) => runs.push(value),
            None => self.list.push((what, unit, budget, vec![value])),
        }
    }

    /// All of them, judged; without budgets where they would say nothing, since everything was small.
    pub(crate) fn finish(self, is_judged: bool) -> Vec<Figure> {
        let judge = |(what, unit, budget, runs): (String, &'static str, Option<Budget>, Vec<f64>)| {
            let summary = Summary::of(&runs)?;
            let budget = budget.filter(|_| is_judged);
            let met = budget.map(|budget| budget.is_met_by(&summary));
            Some(Figure { what, unit, runs, summary, budget, met })
        };
        self.list.into_iter().filter_map(judge).collect()
    }
}

impl Budget {
    /// A limit for the median.
    pub(crate) fn median(at_most: f64) -> Option<Budget> {
        Some(Budget { at_most, judged: Judged::Median })
    }

    /// A limit for every run.
    pub(crate) fn every(at_most: f64) -> Option<Budget> {
        Some(Budget { at_most, judged: Judged::Max })
    }

    fn is_met_by(&self, summary: &Summary) -> bool {
        let value = match self.judged {
            Judged::Median => summary.median,
            Judged::Max => summary.max,
        };
        value <= self.at_most
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_is_met_by_the_run_that_it_judges() {
        let mut figures = Figures::default();
        for value in [1.0, 1.2, 9.0] {
            figures.add_with("ratio", "×", Budget::median(1.2), value);
            figures.add_with("writes", "", Budget::every(1.2), value);
            figures.add("seconds", "s", value);
        }
        let found: Vec<_> =
            figures.clone().finish(true).iter().map(|it| (it.what.clone(), it.met, it.runs.len())).collect();
        let expected = [("ratio", Some(true), 3), ("writes", Some(false), 3), ("seconds", None, 3)];
        assert!(figures.finish(false).iter().all(|it| it.budget.is_none() && it.met.is_none()));
        assert_eq!(found, expected.map(|(what, met, runs)| (what.to_owned(), met, runs)));
    }
}
