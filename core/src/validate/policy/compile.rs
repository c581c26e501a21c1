//! Compiles the spec of a `ConfigPolicy`.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    Candidate, Judgement, Violation, data::Data, expressions::Expressions, labels::Labels, scope::Scope,
    violation::Subject,
};
use crate::{
    api::{Action, ConfigPolicySpec, CopiesMatch, Defaults, PolicyKind, Problem, WhileInUse},
    marks,
    names::NameKind,
    validate::{check_name, invalid, selector::is_label_value},
};

/// The compiled spec of a `ConfigPolicy`.
#[derive(Debug)]
pub struct CompiledPolicy {
    pub(super) scope: Scope,
    pub(super) data: Vec<Data>,
    pub(super) labels: Labels,
    pub(super) max_bytes: Option<u64>,
    pub(super) expressions: Expressions,
    defaults: Defaults,
    actions: Vec<Action>,
}

impl CompiledPolicy {
    /// Compiles a spec.
    ///
    /// # Errors
    /// All problems, at least one; each names its field and the fix.
    pub fn compile(spec: &ConfigPolicySpec) -> Result<Self, Vec<Problem>> {
        let mut problems = Vec::new();
        let scope = Scope::compile(&spec.match_, &mut problems);
        if scope.kinds.contains(&PolicyKind::Namespace) && !spec.data.is_empty() {
            problems.push(invalid(
                "spec.data",
                "has rules about keys, which Namespaces do not have: write a separate policy for Namespaces",
            ));
        }
        let mut names = BTreeSet::new();
        let data = spec.data.iter().enumerate().map(|(index, rule)| {
            let at = format!("spec.data[{index}]");
            if !names.insert(&rule.name) {
                problems.push(invalid(
                    &format!("{at}.name"),
                    format!(
                        "another rule in spec.data already has the name {:?}; the name must be unique, because error messages quote it",
                        rule.name
                    ),
                ));
            }
            Data::compile(&at, rule, &mut problems)
        });
        let data = data.collect();
        let labels =
            spec.labels.as_ref().map(|labels| Labels::compile(labels, &mut problems)).unwrap_or_default();
        let max_bytes = spec.limits.as_ref().and_then(|limits| limits.max_bytes).and_then(|limit| {
            let limit = u64::try_from(limit);
            limit
                .map_err(|_| problems.push(invalid("spec.limits.maxBytes", "is negative; write 0 or more")))
                .ok()
        });
        let expressions = Expressions::compile(&spec.validations, &mut problems);
        let defaults = spec.defaults.clone().unwrap_or_default();
        check_defaults(&defaults, &mut problems);
        check_actions(&spec.validation_actions, &mut problems);
        check_demands(spec, &mut problems);
        check_reach(spec, &mut problems);
        if !problems.is_empty() {
            return Err(problems);
        }
        Ok(Self {
            scope,
            data,
            labels,
            max_bytes,
            expressions,
            defaults,
            actions: spec.validation_actions.clone(),
        })
    }

    /// Whether the policy covers the object, given the labels of the object's namespace; `None` if these
    /// labels decide and are unknown.
    pub fn covers(
        &self,
        object: &Candidate<'_>,
        namespace: Option<&BTreeMap<String, String>>,
    ) -> Option<bool> {
        self.scope.covers(object, namespace)
    }

    /// Whether the policy could cover the object with some labels of its own; `None` as for [`Self::covers`].
    pub fn may_cover(
        &self,
        object: &Candidate<'_>,
        namespace: Option<&BTreeMap<String, String>>,
    ) -> Option<bool> {
        self.scope.may_cover(object, namespace)
    }

    /// Whether the policy can cover an object in a namespace with this name and these labels.
    pub fn reaches(&self, namespace: &str, labels: &BTreeMap<String, String>) -> bool {
        self.scope.reaches(namespace, labels)
    }

    /// What happens when an object violates the policy.
    pub fn actions(&self) -> &[Action] {
        &self.actions
    }

    /// The labels and annotations to add when missing.
    pub fn defaults(&self) -> &Defaults {
        &self.defaults
    }

    /// Returns all violations by a stored object. Rules that only concern writes are skipped.
    pub fn judge_standing(&self, judgement: &mut Judgement<'_>) -> Vec<Violation> {
        let mut violations = self.judge_content(judgement);
        violations.extend(self.expressions.judge(judgement, None, None));
        violations
    }

    /// Whether judging may need many times the object's size in memory: documents are unpacked, and
    /// expressions allocate values.
    pub fn is_heavy(&self) -> bool {
        self.expressions.is_any() || self.data.iter().any(Data::unpacks)
    }

    pub(super) fn judge_content(&self, judgement: &mut Judgement<'_>) -> Vec<Violation> {
        let mut violations: Vec<_> = self.data.iter().flat_map(|rule| rule.judge(judgement)).collect();
        violations.extend(self.labels.judge(judgement));
        let above = |limit: u64| Some((limit, judgement.object.size())).filter(|(limit, size)| size > limit);
        if let Some((limit, size)) = self.max_bytes.and_then(above) {
            violations.push(Violation {
                rule: "limits.maxBytes".into(),
                key: None,
                place: None,
                what: format!("has {size} bytes, more than the limit of {limit}").into(),
                fix: "remove keys, or split the object".into(),
                subject: Subject::Size,
            });
        }
        violations
    }
}

fn check_defaults(defaults: &Defaults, problems: &mut Vec<Problem>) {
    let sets =
        [("spec.defaults.labels", &defaults.labels), ("spec.defaults.annotations", &defaults.annotations)];
    for (field, map) in sets {
        for (key, value) in map {
            check_name(field, key, NameKind::MetadataKey, problems);
            if marks::never_carried(key) {
                problems
                    .push(invalid(field, format!("{key:?} is reserved for another tool or for Copyrator")));
            }
            if field.ends_with("labels") && !is_label_value(value) {
                problems.push(invalid(
                    &format!("{field}[{key}]"),
                    format!("{value:?} is not a valid label value"),
                ));
            }
        }
    }
}

/// Refuses a policy without demands, which is mostly a mistake, such as a field in the wrong place.
fn check_demands(spec: &ConfigPolicySpec, problems: &mut Vec<Problem>) {
    let nothing = spec.data.is_empty()
        && spec.validations.is_empty()
        && spec.labels.is_none()
        && spec.limits.is_none()
        && spec.warn_above.is_none()
        && spec.while_in_use == WhileInUse::Allow
        && spec.defaults.is_none();
    if nothing {
        problems.push(invalid(
            "spec",
            "has no requirement; add data, labels, limits, validations, warnAbove, whileInUse or defaults",
        ));
    }
}

/// Only ConfigMaps and Secrets are copied and used, so limits on reach need one of these kinds.
fn check_reach(spec: &ConfigPolicySpec, problems: &mut Vec<Problem>) {
    let of_namespaces = spec.match_.kinds.iter().all(|kind| *kind == PolicyKind::Namespace);
    if of_namespaces && !spec.match_.kinds.is_empty() {
        let asked = [
            ("spec.match.copies", spec.match_.copies == CopiesMatch::Exclude),
            ("spec.warnAbove", spec.warn_above.is_some()),
            ("spec.whileInUse", spec.while_in_use == WhileInUse::Refuse),
        ];
        for (field, _) in asked.into_iter().filter(|(_, is_asked)| *is_asked) {
            let fix = "applies only to ConfigMaps and Secrets; remove the field, or add one of these kinds to match.kinds";
            problems.push(invalid(field, fix));
        }
    }
    if let Some(above) = &spec.warn_above {
        if above.copies.is_none() && above.restarts.is_none() {
            problems.push(invalid("spec.warnAbove", "has no limit; set copies, restarts or both"));
        }
        for (field, limit) in [("copies", above.copies), ("restarts", above.restarts)] {
            if limit.is_some_and(|limit| limit < 0) {
                problems.push(invalid(&format!("spec.warnAbove.{field}"), "is negative; write 0 or more"));
            }
        }
    }
}

fn check_actions(actions: &[Action], problems: &mut Vec<Problem>) {
    if actions.is_empty() {
        problems.push(invalid("spec.validationActions", "is empty; write Deny, Warn or Audit"));
    }
    if actions.contains(&Action::Deny) && actions.contains(&Action::Warn) {
        problems.push(invalid(
            "spec.validationActions",
            "has both Deny and Warn; keep one, because a denial includes the message",
        ));
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use jiff::{SignedDuration, Timestamp};
    use serde_json::json;

    use super::*;

    #[test]
    fn an_object_is_judged_as_it_stands_and_as_time_passes() {
        let issued = SystemTime::now();
        let authority =
            copyrator_certs::Authority::issue("test", issued, Duration::from_secs(864_000)).unwrap();
        let spec = json!({
            "match": {"kinds": ["ConfigMap"]},
            "data": [
                {"name": "ca", "keys": ["ca.crt"], "format": "pem-certificate", "minRemaining": "24h"},
                {"name": "settings", "keys": ["*.yaml"], "format": "yaml", "schema": {"required": ["a"]}},
                {"name": "frozen", "keys": ["*"], "immutable": true}
            ],
            "validations": [{"expression": "oldObject != null"}, {"expression": "'b' in text"}]
        });
        let policy = CompiledPolicy::compile(&serde_json::from_value(spec).unwrap()).unwrap();
        let raw =
            json!({"metadata": {"name": "x"}, "data": {"ca.crt": authority.cert_pem(), "s.yaml": "b: 1"}});
        let raw = raw.to_string();
        let object = Candidate::decode(PolicyKind::ConfigMap, &raw).unwrap();
        let at = |hours| {
            let now = Timestamp::try_from(issued).unwrap() + SignedDuration::from_hours(hours);
            let violations = policy.judge_standing(&mut Judgement::new(&object, now));
            violations.into_iter().map(|violation| violation.rule).collect::<Vec<_>>()
        };
        assert_eq!(at(0), ["settings", "validations[1]"]);
        assert_eq!(at(217), ["ca", "settings", "validations[1]"]);
    }

    #[test]
    fn fields_that_do_not_go_together_are_refused() {
        for (rule, says) in [
            (
                json!({"keys": ["a"], "format": "url", "schema": {}}),
                "schema: is allowed only with format json, yaml or toml",
            ),
            (json!({"keys": ["a"], "schema": {}, "required": true}), "schema: is allowed only with format"),
            (
                json!({"keys": ["a"], "format": "pem-key", "minRemaining": "1h"}),
                "minRemaining: is allowed only with format",
            ),
            (json!({"format": "tls-pair", "minRemaining": "a week"}), "is not a duration"),
            (
                json!({"keys": ["a"], "format": "json", "schema": {"$ref": "http://a"}}),
                "points outside the schema",
            ),
        ] {
            let mut rule = rule;
            rule["name"] = "r".into();
            let spec = json!({"match": {"kinds": ["ConfigMap"]}, "data": [rule]});
            let problems = CompiledPolicy::compile(&serde_json::from_value(spec).unwrap()).unwrap_err();
            assert!(problems.iter().any(|problem| problem.message.contains(says)), "{says}: {problems:?}");
        }
    }

    #[test]
    fn a_policy_of_namespaces_alone_has_no_copies_to_leave_out() {
        for (kinds, copies, is_refused) in [
            (json!(["Namespace"]), "Exclude", true),
            (json!(["Namespace"]), "Include", false),
            (json!(["Namespace", "Secret"]), "Exclude", false),
        ] {
            let spec =
                json!({"match": {"kinds": kinds, "copies": copies}, "labels": {"required": ["owner"]}});
            let problems = CompiledPolicy::compile(&serde_json::from_value(spec).unwrap()).err();
            let said = problems.into_iter().flatten().map(|problem| problem.message).collect::<String>();
            assert_eq!(
                said.contains("spec.match.copies: applies only to"),
                is_refused,
                "{kinds} {copies}: {said}"
            );
        }
    }

    /// 60 expressions of 16 KiB took a minute, which is longer than the API server waits.
    #[test]
    fn what_a_write_has_compiled_and_searched_is_paid_for_together() {
        let (classes, words) = (r"\pL".repeat(5_000), "a".repeat(10 << 10));
        for (rule, value, says) in [
            (json!({"format": "regex"}), &classes, "cannot be parsed: the checks"),
            (json!({"pattern": "(a|b)*a(a|b){2000}"}), &words, "cannot be matched: the checks"),
        ] {
            let mut rule = rule;
            (rule["name"], rule["keys"]) = ("r".into(), json!(["*"]));
            let spec = json!({"match": {"kinds": ["ConfigMap"]}, "data": [rule]});
            let policy = CompiledPolicy::compile(&serde_json::from_value(spec).unwrap()).unwrap();
            let judged = |many: usize| {
                let data: BTreeMap<_, _> = (0..many).map(|key| (key.to_string(), value)).collect();
                let raw = json!({"metadata": {"name": "x"}, "data": data}).to_string();
                let object = Candidate::decode(PolicyKind::ConfigMap, &raw).unwrap();
                let violations = policy.judge_standing(&mut Judgement::new(&object, Timestamp::UNIX_EPOCH));
                violations.iter().filter(|violation| violation.what.contains(says)).count()
            };
            assert!(judged(60) >= 50, "{says}: {}", judged(60));
        }
        let short: BTreeMap<_, _> = (0..60).map(|key| (key.to_string(), r"^/[\w-]+/.*\.html?$")).collect();
        let spec = json!({"match": {"kinds": ["ConfigMap"]}, "data": [{"name": "r", "keys": ["*"], "format": "regex"}]});
        let policy = CompiledPolicy::compile(&serde_json::from_value(spec).unwrap()).unwrap();
        let raw = json!({"metadata": {"name": "x"}, "data": short}).to_string();
        let object = Candidate::decode(PolicyKind::ConfigMap, &raw).unwrap();
        let violations = policy.judge_standing(&mut Judgement::new(&object, Timestamp::UNIX_EPOCH));
        assert_eq!(violations, [], "what is ordinary is judged");
    }
}
