//! Compiles the part of a monitor that orders restarts: `pace.maxConcurrent`, `pace.soak` and `pace.order`.

use std::time::Duration;

use super::{Selector, invalid};
use crate::api::{Pace, Problem, Span};

/// The order of restarts, and how many restarts run at once.
#[derive(Clone, Debug)]
pub struct CompiledStage {
    /// The maximum number of concurrent restarts; `None`: no limit.
    pub max_concurrent: Option<usize>,
    /// How long a restarted workload must stay ready before the next workload follows.
    pub soak: Duration,
    order: Vec<Selector>,
}

impl CompiledStage {
    /// Compiles a pace, and reports its problems; `None` if the pace does not order restarts.
    pub(super) fn compile(pace: &Pace, problems: &mut Vec<Problem>) -> Option<Self> {
        let soak = pace.soak.as_ref().map_or(Ok(Duration::ZERO), Span::get).unwrap_or_else(|error| {
            problems.push(invalid("spec.pace.soak", error));
            Duration::ZERO
        });
        if let Some(max) = pace.max_concurrent.filter(|max| *max < 1) {
            let what = format!("{max} would allow no restart: write 1 or more, or suspend: true");
            problems.push(invalid("spec.pace.maxConcurrent", what));
        }
        let order = pace.order.iter().enumerate().map(|(index, selector)| {
            Selector::compile(&format!("spec.pace.order[{index}]"), selector, problems)
        });
        let order: Vec<Selector> = order.collect();
        let max_concurrent = pace.max_concurrent.and_then(|max| usize::try_from(max).ok());
        let says_something = max_concurrent.is_some() || pace.soak.is_some() || !order.is_empty();
        says_something.then_some(Self { max_concurrent, soak, order })
    }

    /// Returns the index of the first group whose selector selects a workload's pods, or else of the last
    /// group.
    pub fn group(&self, is_selected: impl Fn(&Selector) -> bool) -> usize {
        self.order.iter().position(is_selected).unwrap_or(self.order.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compile(pace: serde_json::Value) -> (Option<CompiledStage>, Vec<String>) {
        let mut problems = Vec::new();
        let stage = CompiledStage::compile(&serde_json::from_value(pace).unwrap(), &mut problems);
        (stage, problems.into_iter().map(|problem| problem.message).collect())
    }

    #[test]
    fn groups_are_in_order_and_the_rest_comes_last() {
        let (stage, problems) = compile(serde_json::json!({"order": [
            {"matchLabels": {"track": "canary"}},
            {"matchExpressions": [{"key": "tier", "operator": "In", "values": ["a", "b"]}]},
        ]}));
        assert!(problems.is_empty());
        let group = |pairs: &[(&'static str, &'static str)]| {
            let label = |key: &str| pairs.iter().find(|(known, _)| *known == key).map(|(_, value)| *value);
            stage.as_ref().unwrap().group(|selector| selector.matches(label))
        };
        assert_eq!(group(&[("track", "canary"), ("tier", "a")]), 0);
        assert_eq!(group(&[("tier", "b")]), 1);
        assert_eq!((group(&[("tier", "c")]), group(&[])), (2, 2));
    }

    #[test]
    fn what_is_wrong_names_the_field() {
        assert!(
            compile(serde_json::json!({"quietPeriod": "1s"})).0.is_none(),
            "nobody is in the way of anybody"
        );
        let (_, problems) = compile(serde_json::json!({"maxConcurrent": 0, "soak": "long",
            "order": [{"matchExpressions": [{"key": "a", "operator": "Near"}]}]}));
        for (field, problem) in
            ["spec.pace.soak: ", "spec.pace.maxConcurrent: 0 ", "spec.pace.order[0]"].iter().zip(&problems)
        {
            assert!(problem.starts_with(field), "{problem}");
        }
        assert_eq!(problems.len(), 3);
    }
}
