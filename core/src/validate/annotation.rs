//! Rules and monitors that a ConfigMap's or Secret's own annotations declare: a rule by [`COPY_TO`] and
//! [`COPY_TO_SELECTOR`], a monitor by [`RESTART_PODS`].

use std::collections::BTreeSet;

use super::{
    CompiledMonitor, CompiledRule, Globs, Selector, SpecFault, invalid, meant, parse_selector, split_outside,
};
use crate::{
    api::{
        ConfigMonitorSpec, CopyratorRuleSpec, DataKind, Problem, SourceSpec, Strategy, StrategyType,
        TargetTerm, WatchTerm, Workloads,
    },
    marks::{
        AUTHOR, AUTHOR_GROUPS, AUTHORIZED, CA_PUBLISHED, CA_SWITCHED, COPY_TO, COPY_TO_SELECTOR, DECLARES,
        DECLARES_VALUE, DEFINITION, LONGEST, PODS_APPLIED, PREFIX, REMOVE_AFTER, RESTART, RESTART_PODS,
        RESTARTED_FOR, ROTATE, is_mark,
    },
    names::{Kind, NameKind, ObjectKey},
};

/// The maximum number of names, as in a term of a rule.
const MOST_NAMES: usize = 64;

/// Compiles the rule that an object's annotations declare, or returns all problems of these annotations. The
/// rule copies this object alone. `None` without such annotations.
pub fn annotated_rule<'a>(
    kind: DataKind,
    name: &str,
    annotation: impl Fn(&str) -> Option<&'a str>,
) -> Option<Result<(CopyratorRuleSpec, CompiledRule), Vec<Problem>>> {
    let (names, selector) = (annotation(COPY_TO), annotation(COPY_TO_SELECTOR));
    if names.is_none() && selector.is_none() {
        return None;
    }
    let mut problems = Vec::new();
    let mut targets = Vec::new();
    problems.extend(names.and_then(|text| too_long(COPY_TO, text)));
    problems.extend(selector.and_then(|text| too_long(COPY_TO_SELECTOR, text)));
    if !problems.is_empty() {
        return Some(Err(problems));
    }
    if let Some(text) = names {
        let names: Vec<String> =
            split_outside(text, '{', '}').into_iter().map(|name| name.trim().to_owned()).collect();
        if names.len() > MOST_NAMES {
            problems.push(invalid(
                COPY_TO,
                format!("has {} entries, more than the maximum of {MOST_NAMES}", names.len()),
            ));
        }
        Globs::compile(COPY_TO, &names, NameKind::Namespace, &mut problems);
        targets.push(TargetTerm { names: Some(names), namespace_selector: None });
    }
    if let Some(text) = selector {
        match parse_selector(text) {
            Ok(selector) => {
                Selector::of_namespaces(COPY_TO_SELECTOR, &selector, &mut problems);
                targets.push(TargetTerm { names: None, namespace_selector: Some(selector) });
            }
            Err(wrong) => problems.push(invalid(COPY_TO_SELECTOR, wrong)),
        }
    }
    if !problems.is_empty() {
        return Some(Err(problems));
    }
    let source = SourceSpec {
        kind: Kind::from(kind).to_string(),
        names: Some(vec![name.to_owned()]),
        ..SourceSpec::default()
    };
    let spec = CopyratorRuleSpec { source, targets, ..CopyratorRuleSpec::default() };
    Some(CompiledRule::compile(&spec, &BTreeSet::new()).map(|compiled| (spec, compiled)))
}

/// Compiles the monitor that an object's annotation declares, or returns all problems of the annotation. The
/// monitor watches this object alone and deletes the pods with these labels. `None` without the annotation.
pub fn annotated_monitor<'a>(
    kind: DataKind,
    name: &str,
    annotation: impl Fn(&str) -> Option<&'a str>,
) -> Option<Result<(ConfigMonitorSpec, CompiledMonitor), Vec<Problem>>> {
    let text = annotation(RESTART_PODS)?;
    if let Some(problem) = too_long(RESTART_PODS, text) {
        return Some(Err(vec![problem]));
    }
    let selector = match parse_selector(text) {
        Ok(selector) => selector,
        Err(wrong) => return Some(Err(vec![invalid(RESTART_PODS, wrong)])),
    };
    let mut problems = Vec::new();
    Selector::compile(RESTART_PODS, &selector, &mut problems);
    if !problems.is_empty() {
        return Some(Err(problems));
    }
    let spec = ConfigMonitorSpec {
        watch: vec![WatchTerm { kind, names: vec![name.to_owned()], keys: None }],
        workloads: Some(Workloads { pod_selector: Some(selector), names: None }),
        strategy: Strategy { type_: StrategyType::Delete },
        ..ConfigMonitorSpec::default()
    };
    Some(CompiledMonitor::compile(&spec).map(|compiled| (spec, compiled)))
}

/// Reports a text that is longer than [`LONGEST`]: Copyrator does not keep such a text whole.
fn too_long(annotation: &str, text: &str) -> Option<Problem> {
    let is_too_long = text.len() > LONGEST;
    is_too_long.then(|| {
        invalid(
            annotation,
            format!(
                "is longer than {LONGEST} bytes: shorten the value, or write a CopyratorRule or \
     ConfigMonitor instead"
            ),
        )
    })
}

/// Returns the problem of annotations without the label [`DECLARES`], which have no effect. The problem's
/// message has the command that sets the label.
pub fn not_declared(object: &ObjectKey) -> Problem {
    let message = format!(
        "{COPY_TO}, {COPY_TO_SELECTOR} and {RESTART_PODS} have no effect without the label {DECLARES}={DECLARES_VALUE} on the object; to \
         add the label: {}",
        labelling(object)
    );
    SpecFault::LabelMissing.problem(message)
}

/// Returns the kubectl command that sets the label [`DECLARES`] on an object.
pub fn labelling(object: &ObjectKey) -> String {
    let ObjectKey { kind, namespace, name } = object;
    let kind = kind.resource().singular();
    format!("kubectl -n {namespace} label {kind} {name} {DECLARES}={DECLARES_VALUE}")
}

/// Returns a message for each annotation of a ConfigMap or Secret that has our prefix but no effect. The
/// message suggests the annotation that the author probably meant.
pub fn misspelt_annotations<'a>(annotations: impl IntoIterator<Item = (&'a str, &'a str)>) -> Vec<String> {
    let wrong = |(key, value): (&'a str, &'a str)| {
        let name = key.strip_prefix(PREFIX)?;
        if key == RESTART && value != "false" {
            return Some(format!("annotation {RESTART} on a ConfigMap or Secret must be \"false\""));
        }
        if key == DECLARES {
            return Some(format!("{DECLARES} must be a label, not an annotation"));
        }
        let is_known = WRITTEN.contains(&key) || is_ours(key);
        (!is_known).then(|| {
            let words = WRITTEN.iter().filter_map(|known| known.strip_prefix(PREFIX));
            let meant = meant(name, words).map(|word| format!("; did you mean {PREFIX}{word}?"));
            format!("unknown annotation {key}{}", meant.unwrap_or_default())
        })
    };
    annotations.into_iter().filter_map(wrong).collect()
}

/// The maximum number of a workload's annotations that one message names.
const MOST_TOLD: usize = 3;

/// Returns the problems of annotations on a workload and its pod template that have our prefix but no effect;
/// `None` without any. Only the keys are read.
pub fn unknown_on_workload<'a>(
    keys: impl IntoIterator<Item = &'a str>,
    of_template: impl IntoIterator<Item = &'a str>,
) -> Option<String> {
    let misplaced = |key: &'a str| {
        let fix = "has no effect in the pod template; set the annotation on the workload itself";
        (key == RESTART).then(|| format!("annotation {key} {fix}"))
    };
    let wrong = |key: &'a str| {
        let name = key.strip_prefix(PREFIX)?;
        if WRITTEN.contains(&key) && key != RESTART {
            return Some(format!(
                "annotation {key} has an effect only on a ConfigMap or Secret, not on a workload"
            ));
        }
        let is_known = key == RESTART || key == RESTARTED_FOR || is_ours(key);
        (!is_known).then(|| {
            let meant = meant(name, RESTART.strip_prefix(PREFIX))
                .map(|word| format!("; did you mean {PREFIX}{word}?"));
            format!("unknown annotation {key}{}", meant.unwrap_or_default())
        })
    };
    let misplaced = of_template.into_iter().filter_map(misplaced);
    let wrong: Vec<String> = keys.into_iter().filter_map(wrong).chain(misplaced).take(MOST_TOLD).collect();
    (!wrong.is_empty()).then(|| wrong.join("; "))
}

/// Returns the problem of our annotations on a Job or CronJob, where they have no effect. Only the keys are
/// read.
pub fn idle_on_jobs<'a>(kind: &str, mut keys: impl Iterator<Item = &'a str>) -> Option<String> {
    let key = keys.find(|key| WRITTEN.contains(key))?;
    Some(format!(
        "annotation {key} has no effect on a {kind}: each run starts with the current content, and Copyrator never stops a running one; \
         remove the annotation"
    ))
}

/// The annotations of ours that users write on ConfigMaps and Secrets.
const WRITTEN: [&str; 4] = [COPY_TO, COPY_TO_SELECTOR, RESTART, RESTART_PODS];

/// Whether Copyrator itself writes this annotation.
fn is_ours(key: &str) -> bool {
    const OURS: [&str; 9] = [
        REMOVE_AFTER,
        DEFINITION,
        AUTHORIZED,
        PODS_APPLIED,
        AUTHOR,
        AUTHOR_GROUPS,
        ROTATE,
        CA_PUBLISHED,
        CA_SWITCHED,
    ];
    is_mark(key) || OURS.contains(&key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::Kind;

    #[test]
    fn an_annotation_of_a_workload_that_counts_for_nothing_is_named() {
        for (key, expected) in [
            ("copyrator.dev/restart", None),
            ("copyrator.dev/mark", None),
            ("example.com/restrat", None),
            (
                "copyrator.dev/restrat",
                Some("unknown annotation copyrator.dev/restrat; did you mean copyrator.dev/restart?"),
            ),
            (
                "copyrator.dev/restart-pods",
                Some(
                    "annotation copyrator.dev/restart-pods has an effect only on a ConfigMap or Secret, not on a workload",
                ),
            ),
        ] {
            assert_eq!(unknown_on_workload([key], []).as_deref(), expected, "{key}");
        }
        let said = |key: &'static str| idle_on_jobs("CronJob", [key].into_iter()).unwrap_or_default();
        assert!(
            said("copyrator.dev/restart")
                .starts_with("annotation copyrator.dev/restart has no effect on a CronJob")
        );
        assert_eq!(said("example.com/restart"), "");
        let many: Vec<String> = (0..100).map(|at| format!("copyrator.dev/{at}")).collect();
        let misplaced = unknown_on_workload([], ["copyrator.dev/restarted-for", "copyrator.dev/restart"]);
        assert_eq!(
            misplaced.as_deref(),
            Some(
                "annotation copyrator.dev/restart has no effect in the pod template; set the annotation on the workload itself"
            )
        );
        let said = unknown_on_workload(many.iter().map(String::as_str), []).unwrap();
        assert_eq!(said.matches("unknown annotation").count(), MOST_TOLD);
    }

    #[test]
    fn an_annotation_that_asks_for_nothing_is_named_with_what_it_was_meant_to_be() {
        let said = |key: &str, value: &str| misspelt_annotations([(key, value)]).pop();
        for (key, value, expected) in [
            ("copyrator.dev/copy-to", "shop", None),
            ("copyrator.dev/authorized", "x", None),
            ("copyrator.dev/source", "a/b", None),
            ("example.com/copy-too", "shop", None),
            (
                "copyrator.dev/copy-too",
                "shop",
                Some("unknown annotation copyrator.dev/copy-too; did you mean copyrator.dev/copy-to?"),
            ),
            ("copyrator.dev/definition", "u", None),
            (
                "copyrator.dev/declares",
                "true",
                Some("copyrator.dev/declares must be a label, not an annotation"),
            ),
            ("copyrator.dev/frequency", "1", Some("unknown annotation copyrator.dev/frequency")),
            ("copyrator.dev/restart", "false", None),
            (
                "copyrator.dev/restart",
                "yes",
                Some("annotation copyrator.dev/restart on a ConfigMap or Secret must be \"false\""),
            ),
        ] {
            assert_eq!(said(key, value).as_deref(), expected, "{key}={value}");
        }
    }

    #[test]
    fn restart_pods_is_a_monitor_of_this_object_that_deletes() {
        let declared = |text: Option<&str>| {
            annotated_monitor(DataKind::ConfigMap, "app", |key| text.filter(|_| key == RESTART_PODS))
        };
        assert!(declared(None).is_none());
        let (spec, compiled) = declared(Some("app=web,tier!=db")).unwrap().unwrap();
        assert_eq!((compiled.strategy, compiled.suspend), (StrategyType::Delete, false));
        assert!(compiled.watches(Kind::ConfigMap, "app").is_some());
        assert!(compiled.watches(Kind::Secret, "app").is_none());
        assert!(spec.workloads.unwrap().pod_selector.is_some());
        // An annotation with a typing error never selects every pod.
        for (text, expected) in [
            ("", "copyrator.dev/restart-pods: must not be empty"),
            ("app web", "copyrator.dev/restart-pods: \"app web\" is not a label requirement"),
            ("app=no spaces", "copyrator.dev/restart-pods.matchExpressions[0]"),
        ] {
            let problems = declared(Some(text)).unwrap().unwrap_err();
            assert!(problems[0].message.contains(expected), "{problems:?}");
        }
    }

    fn declared(names: Option<&str>, selector: Option<&str>) -> Option<Result<CompiledRule, String>> {
        let annotation = |key: &str| match key {
            COPY_TO => names.map(str::to_owned),
            _ => selector.map(str::to_owned),
        };
        let (names, selector) = (annotation(COPY_TO), annotation(COPY_TO_SELECTOR));
        let read = annotated_rule(DataKind::Secret, "registry", |key| match key {
            COPY_TO => names.as_deref(),
            COPY_TO_SELECTOR => selector.as_deref(),
            _ => None,
        });
        let text = |problems: Vec<Problem>| {
            problems.into_iter().map(|one| one.message).collect::<Vec<_>>().join("; ")
        };
        read.map(|read| read.map(|(_, compiled)| compiled).map_err(text))
    }

    #[test]
    fn names_and_selector_are_terms_of_one_rule() {
        assert!(declared(None, None).is_none());
        let rule = declared(Some("team-*, shop"), Some("team=blue")).unwrap().unwrap();
        assert!(rule.names.as_ref().unwrap().matches("registry") && rule.source_namespaces.is_empty());
        assert_eq!(rule.targets.len(), 2);
        let braces = declared(Some("{kip,kia}-stg, shop"), None).unwrap().unwrap();
        let entries: Vec<_> = braces.targets[0].names.as_ref().unwrap().entries().collect();
        assert_eq!(entries, ["shop", "{kip,kia}-stg"]);
        let names = rule.targets[0].names.as_ref().unwrap();
        assert!(names.matches("team-a") && names.matches("shop") && !names.matches("web"));
        let selector = rule.targets[1].selector.as_ref().unwrap();
        assert!(selector.matches(|key| (key == "team").then_some("blue")) && !selector.matches(|_| None));
    }

    #[test]
    fn what_is_wrong_names_the_annotation() {
        for (names, selector, expected) in [
            (Some(""), None, "copyrator.dev/copy-to[0]: must not be empty"),
            (Some("a,"), None, "copyrator.dev/copy-to[1]: must not be empty"),
            (
                Some("^kip.*$,kia-(stg|prod)"),
                None,
                "write kip*; copyrator.dev/copy-to[1]: \"kia-(stg|prod)\" is no",
            ),
            (
                Some("”kip,kia”"),
                None,
                "write kip; copyrator.dev/copy-to[1]: \"kia”\" is no name of a namespace",
            ),
            (Some("team-["), None, "copyrator.dev/copy-to[0]: \"team-[\" is not a valid glob"),
            (None, Some(""), "copyrator.dev/copy-to-selector: must not be empty"),
            (None, Some("a b"), "copyrator.dev/copy-to-selector: \"a b\" is not a label requirement"),
            (None, Some("a=no spaces"), "copyrator.dev/copy-to-selector.matchExpressions[0]"),
        ] {
            let wrong = declared(names, selector).unwrap().unwrap_err();
            assert!(wrong.contains(expected), "{wrong}");
        }
        let many = vec!["a"; 65].join(",");
        assert!(declared(Some(&many), None).unwrap().unwrap_err().contains("65 entries"));
    }
}
