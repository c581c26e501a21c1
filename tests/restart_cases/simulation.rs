//! One workload through random hours: content changes, rollouts become ready or not. Whatever happens, restarts keep their
//! distance, the last content runs in the end, and then nothing happens any more.

use copyrator::{
    digest::{Fingerprint, KeyPrint},
    model::{ObjectFacts, PodFacts, PodsSeen, Rollout, WorkloadFacts, World},
    names::{Kind, ObjectKey, WorkloadKey},
    plan::restart::{Acted, RestartAction, RestartState, plan_workload, settle_workload},
};
use proptest::prelude::*;

use super::{
    carry_out, case,
    world::{NAMESPACE, at, digest_key},
};

const START: i64 = 1_000;
/// The Deployment's own.
const DEADLINE: i64 = 60;
const MIN_INTERVAL: i64 = 30;
/// The content at the start, as the case below writes it: no change writes it again.
const FIRST: u8 = b'0';

struct Simulation {
    world: World,
    key: WorkloadKey,
    now: i64,
    value: u8,
    /// When that was written.
    written: i64,
    version: u32,
    /// What the pod that serves began with, and when.
    runs: u8,
    serves_since: i64,
    rollouts: Vec<i64>,
    /// The pods that do not serve yet, when they will or that it is known that they do not, and with what.
    under_way: Option<(i64, bool, u8)>,
    outcomes: Vec<bool>,
}

impl Simulation {
    fn new(outcomes: Vec<bool>) -> Self {
        let case = case(
            r#"{name: simulated, now: 1000, objects: {configmap/a: {keys: {x: "0"}, changed: 1}}, expect: "",
                workload: {references: [configmap/a], annotation: "true", desired: 1}}"#,
        );
        let (world, key) = (case.world(), case.workload_key());
        let mut simulation = Self {
            world,
            key,
            now: START,
            value: FIRST,
            written: START - 10,
            version: 1,
            runs: FIRST,
            serves_since: START - 10,
            rollouts: Vec::new(),
            under_way: None,
            outcomes,
        };
        simulation.look();
        simulation.now += 100;
        simulation
    }

    /// Writes content, in another second than that of the last rollout: times of the API have seconds, so that it would not be known
    /// which was first.
    fn write(&mut self, value: u8) {
        if self.rollouts.last() == Some(&self.now) {
            self.now += 1;
        }
        (self.value, self.written) = (value, self.now);
        self.version += 1;
        let key = ObjectKey::new(Kind::ConfigMap, NAMESPACE, "a");
        let facts = ObjectFacts {
            resource_version: self.version.to_string().into(),
            changed_at: at(self.now),
            ..self.world.object(&key).unwrap().clone()
        };
        self.world.set_object(key.clone(), Some(facts));
        let digest = digest_key().value(&[value]);
        let print = Fingerprint {
            uid: "o".into(),
            resource_version: self.version.to_string().into(),
            type_: None,
            immutable: false,
            keys: [("x".to_owned(), KeyPrint { digest, size: 1, binary: false })].into(),
            annotations: Default::default(),
            role: None,
            keeper: None,
        };
        self.world.assume_fingerprint(&key, print);
    }

    /// What the reconciler does with a workload's key; says when it would look again.
    fn look(&mut self) -> Option<i64> {
        for _ in 0..10 {
            let plan = plan_workload(&self.world, &self.key, at(self.now));
            if !plan.needs.is_empty() {
                self.list_pods();
                continue;
            }
            let acted = if plan.action.is_some() { Acted::Done } else { Acted::Nothing };
            let _ = settle_workload(&mut self.world, &self.key, &plan, acted, at(self.now));
            let Some(action) = plan.action else {
                let is_rolling = self.under_way.is_some();
                assert!(
                    plan.state != RestartState::Current || is_rolling || self.runs == self.value,
                    "it is Current, and runs other content, at {}",
                    self.now
                );
                return plan.recheck.map(|time| time.as_second() + 1);
            };
            carry_out(&mut self.world, &self.key, &action, self.now);
            if matches!(action, RestartAction::Rollout { .. }) {
                assert!(
                    self.under_way.is_none_or(|(_, ready, _)| !ready),
                    "a second one before the first has ended"
                );
                let ready = self.outcomes.pop().unwrap_or(true);
                let takes = if ready { 5 } else { DEADLINE };
                self.under_way = Some((self.now + takes, ready, self.value));
                self.rollouts.push(self.now);
            }
        }
        panic!("it never comes to rest at {}", self.now);
    }

    fn list_pods(&mut self) {
        let pod = |name: &str, created, ready| PodFacts {
            name: name.into(),
            uid: name.into(),
            created: at(created),
            leaving: false,
            finished: false,
            ready,
            workload: None,
            controlled: true,
            crashing: false,
            ready_since: None,
            untouchable: false,
        };
        let mut pods = vec![pod("serving", self.serves_since, true)];
        if self.under_way.is_some() {
            pods.push(pod("starting", self.rollouts[self.rollouts.len() - 1], false));
        }
        let version = self.world.workloads()[&self.key].resource_version.clone();
        let seen = PodsSeen { at: at(self.now), resource_version: Some(version), pods };
        self.world.set_pods(&self.key, seen);
    }

    /// Somebody rolls back before the new pod serves: the template of before, whose pod stays.
    fn undo(&mut self) {
        if self.under_way.take_if(|(_, ready, _)| *ready).is_some() {
            self.change(|facts| {
                facts.restarts.restarted_for = None;
                facts.rollout = Rollout::Complete;
            });
        }
    }

    fn change(&mut self, change: impl FnOnce(&mut WorkloadFacts)) {
        self.version += 1;
        let mut facts = (*self.world.workloads()[&self.key]).clone();
        facts.resource_version = (&*self.version.to_string()).into();
        change(&mut facts);
        self.world.set_workload(self.key.clone(), facts);
    }

    /// What its controller says by now.
    fn progress(&mut self) {
        let Some((ends, ready, value)) = self.under_way.filter(|(ends, ..)| *ends <= self.now) else {
            return;
        };
        self.change(|facts| facts.rollout = if ready { Rollout::Complete } else { Rollout::Stuck });
        if ready {
            (self.runs, self.under_way) = (value, None);
            self.serves_since = self.rollouts.last().copied().unwrap_or_default();
        } else {
            self.under_way = Some((ends, false, value));
        }
    }

    fn until(&mut self, end: i64) {
        loop {
            self.progress();
            let again = self.look();
            let told = self.under_way.map(|(ends, ..)| ends).filter(|ends| *ends > self.now);
            let next = again.into_iter().chain(told).min().unwrap_or(i64::MAX).max(self.now + 1);
            if next > end {
                self.now = end;
                return;
            }
            self.now = next;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn restarts_keep_their_distance_and_the_last_content_runs_in_the_end(
        changes in prop::collection::vec((prop_oneof![3 => 0i64..3, 2 => 0i64..90, 1 => 0i64..2_000], 0u8..6), 0..120),
        outcomes in prop::collection::vec(any::<bool>(), 0..8),
    ) {
        let failures = outcomes.clone();
        let mut simulation = Simulation::new(outcomes);
        for (delay, value) in &changes {
            let end = simulation.now + delay;
            simulation.until(end);
            match value {
                5 => simulation.undo(),
                value => simulation.write(*value),
            }
            simulation.look();
        }
        let end = simulation.now + 4 * 3600;
        simulation.until(end);
        // The sweep.
        simulation.look();

        prop_assert!(simulation.rollouts.windows(2).all(|pair| pair[1] - pair[0] >= MIN_INTERVAL));
        prop_assert!(simulation.rollouts.len() <= changes.len(), "more restarts than changes");
        let at_rest = plan_workload(&simulation.world, &simulation.key, at(simulation.now));
        prop_assert_eq!((&at_rest.action, at_rest.recheck), (&None, None));
        match simulation.under_way {
            // Nothing but other content, or a person, mends this.
            Some((_, _, value)) => {
                prop_assert_eq!(value, simulation.value);
                prop_assert!(matches!(at_rest.state, RestartState::Failed(_)), "{:?}", at_rest.state);
            }
            None if simulation.runs == simulation.value && simulation.serves_since >= simulation.written => {
                prop_assert_eq!(at_rest.state, RestartState::Current)
            }
            // A pod that is older than the content may have begun with the same, which nothing tells.
            None if simulation.runs == simulation.value => {
                let is_told = matches!(at_rest.state, RestartState::Current | RestartState::TakenBack(_));
                prop_assert!(is_told, "{:?}", at_rest.state)
            }
            // Somebody wanted it so, and it is told.
            None => prop_assert!(matches!(at_rest.state, RestartState::TakenBack(_)), "{:?}", at_rest.state),
        }
        // Three that fail in a row, and then one an hour. Outcomes are taken from the end.
        let failed = |rollout: usize| rollout < failures.len() && !failures[failures.len() - 1 - rollout];
        for (next, pair) in simulation.rollouts.windows(2).enumerate().skip(2) {
            if (next - 2..=next).all(failed) {
                prop_assert!(pair[1] - pair[0] >= 3600, "{:?} {failures:?}", simulation.rollouts);
            }
        }
    }

}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(5))]

    /// Reloader#1183: 80,000 ReplicaSets.
    #[test]
    fn content_that_never_rests_costs_ever_fewer_restarts(seconds in 60i64..7_200) {
        let mut simulation = Simulation::new(Vec::new());
        for turn in 0..seconds {
            simulation.write((turn % 251) as u8);
            let end = simulation.now + 1;
            simulation.until(end);
        }
        // 20 s, and then after 30, 60, 120, …: the eighth in the second hour.
        let most = 2 + (seconds / 30).ilog2() as usize;
        let count = simulation.rollouts.len();
        prop_assert!(count >= 1 && count <= most, "{count} in {seconds} s: {:?}", simulation.rollouts);
        let end = simulation.now + 2 * 3600;
        simulation.until(end);
        prop_assert_eq!(simulation.runs, simulation.value);
        prop_assert!(simulation.rollouts.len() <= count + 1);
    }
}
