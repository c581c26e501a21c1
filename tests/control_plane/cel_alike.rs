//! Expressions mean what they mean to the API server: the same ones, in a ValidatingAdmissionPolicy and in a ConfigPolicy, pass
//! and refuse the same objects. Where they differ, docs/checking.md says so, and `~` before an
//! expression of the list holds it to that.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::bed::{Person, Story, eventually, objects::ours, peaceful};

/// How many expressions a policy has: their warnings must fit into one answer.
const BATCH: usize = 8;
/// Holds for no object. An answer that does not tell of it was not judged, for whatever reason.
const MARK: &str = "object.metadata.name == ''";
/// One a line, but for those that begin with `#`; `~ HOW: ` comes before one that we are known to take otherwise.
const EXPRESSIONS: &str = include_str!("../cases/expressions.txt");

/// Each expression, and how we are known to differ.
fn expressions() -> Vec<(&'static str, Option<&'static str>)> {
    let lines = EXPRESSIONS.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let parted = |line: &'static str| match line.strip_prefix("~ ").and_then(|rest| rest.split_once(": ")) {
        Some((how, expression)) => (expression, Some(how)),
        None => (line, None),
    };
    lines.map(parted).collect()
}

/// Objects to judge: `name` is a prefix.
fn objects(place: &str, prefix: &str) -> Vec<Value> {
    let all = [
        json!({
            "labels": { "app": "web", "tier": "1" }, "annotations": { "example.com/x": "y" },
            "data": {
                "a": "1", "b": "two", "n": "42", "list": "x,y,z", "url": "https://example.com:8080/p/q?q=1&r=2", "ip": "10.1.2.3",
                "q": "1.5Gi", "t": "2024-02-29T12:00:00Z", "u": "größe ß", "v": "1.2.3", "re": "^t.o$", "w": " 1", "d": "1d", "s": "2024-02-29",
            },
        }),
        json!({
            "data": {
                "a": "9223372036854775807", "b": "", "n": "-7", "list": "", "url": "example.com", "ip": "::1", "q": "0.5", "t": "soon",
                "u": "\u{1f600}", "v": "v1", "re": "(", "w": "0x10", "d": "1h30m", "s": "2024-02-29T12:00:00+01:00",
            },
        }),
        json!({ "labels": { "app": "" } }),
        json!({ "data": { "a": "", "b": "Two", "n": "x", "list": "1,2,3", "ip": "300.1.1.1", "w": "1.0", "d": "1.5h", "s": "2024-02-29t12:00:00z" }, "immutable": true, "binaryData": { "raw": "AAE=" } }),
    ];
    let objects = all.into_iter().enumerate().map(|(index, mut object)| {
        let (labels, annotations) = (object["labels"].take(), object["annotations"].take());
        let mut metadata = json!({ "namespace": place, "name": format!("{prefix}{index}") });
        for (field, map) in [("labels", labels), ("annotations", annotations)] {
            if !map.is_null() {
                metadata[field] = map;
            }
        }
        for field in ["labels", "annotations"] {
            object.as_object_mut().unwrap().remove(field);
        }
        object["apiVersion"] = "v1".into();
        object["kind"] = "ConfigMap".into();
        object["metadata"] = metadata;
        object
    });
    objects.collect()
}

/// A policy of ours, and one of theirs with its binding; the last expression is [`MARK`].
fn policies(place: &str, batch: usize, expressions: &[&str]) -> (Value, [Value; 2]) {
    let name = format!("cel-alike-{batch}");
    let all = || {
        expressions
            .iter()
            .chain([&MARK])
            .map(|expression| json!({ "expression": expression, "message": "does not hold" }))
    };
    let here = json!({ "matchLabels": { "kubernetes.io/metadata.name": place } });
    let mine = ours(
        "ConfigPolicy",
        "",
        &name,
        json!({
            "match": { "kinds": ["ConfigMap"], "names": [format!("ours-{batch}-*")], "namespaceSelector": here },
            "validations": all().collect::<Vec<_>>(), "validationActions": ["Warn"],
        }),
    );
    let theirs = |kind: &str, spec: Value| json!({ "apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": { "name": name }, "spec": spec });
    let index = |index: usize, mut validation: Value| {
        validation["message"] = format!("v{index} does not hold").into();
        validation
    };
    let policy = theirs(
        "ValidatingAdmissionPolicy",
        json!({
            "failurePolicy": "Fail",
            "matchConstraints": {
                "namespaceSelector": here,
                "resourceRules": [{ "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": ["configmaps"] }],
            },
            "matchConditions": [{ "name": "named", "expression": format!("object.metadata.name.startsWith('theirs-{batch}-')") }],
            "validations": all().enumerate().map(|(at, validation)| index(at, validation)).collect::<Vec<_>>(),
        }),
    );
    let binding = theirs(
        "ValidatingAdmissionPolicyBinding",
        json!({ "policyName": name, "validationActions": ["Warn"] }),
    );
    (mine, [policy, binding])
}

/// Which expressions of a batch do not hold for an object, by the warnings of its dry run. Asked for until it is judged: a
/// policy is in force a while after it was written, and a slow call of ours lets the object pass without a word.
fn broken(person: &Person, object: &Value, expressions: &[&str]) -> BTreeSet<usize> {
    eventually(&format!("{} is judged", object["metadata"]["name"]), || {
        let answer = person.try_create(object);
        if answer.code >= 500 {
            return Err(answer.refused());
        }
        let mut told = told(&answer.warnings, expressions);
        answer.ok();
        if told.remove(&expressions.len()) { Ok(told) } else { Err(format!("only {told:?} are told")) }
    })
}

/// The expressions, [`MARK`] after them, that warnings tell of.
fn told(warnings: &[String], expressions: &[&str]) -> BTreeSet<usize> {
    let index = |warning: &String| {
        if let Some((_, rest)) = warning.split_once("rule validations[") {
            return rest.split_once(']').unwrap().0.parse().unwrap();
        }
        let (_, said) = warning.split_once("': ").unwrap_or_else(|| panic!("{warning}"));
        if let Some(index) = said.strip_prefix('v').and_then(|rest| rest.strip_suffix(" does not hold")) {
            return index.parse().unwrap();
        }
        let failed = said.strip_prefix("expression '").unwrap_or_else(|| panic!("{warning}"));
        // The header has each backslash twice.
        let failed = failed.replace(r"\\", r"\");
        let is_it = |expression: &&str| failed.starts_with(&expression.chars().take(60).collect::<String>());
        expressions.iter().position(is_it).unwrap_or_else(|| panic!("{warning}"))
    };
    warnings.iter().map(index).collect()
}

#[test]
fn expressions_mean_what_they_mean_to_the_api_server() {
    let story = Story::new(peaceful(), "cel-alike");
    let (place, admin) = (story.target("a"), story.admin());
    let mut differences = BTreeSet::new();
    let (mut alike, mut refused_alike) = (Vec::new(), 0);
    for (expression, _) in expressions() {
        let (mine, [theirs, _]) = policies(&place, 0, &[expression]);
        let (mine, theirs) = (admin.try_create(&mine), admin.try_create(&theirs));
        match (mine.code < 300, theirs.code < 300) {
            (true, true) => alike.push(expression),
            (false, false) => refused_alike += 1,
            (true, false) => drop(differences.insert((expression, "only we take it".to_owned()))),
            (false, true) => drop(differences.insert((expression, "only they take it".to_owned()))),
        }
    }
    let batches: Vec<&[&str]> = alike.chunks(BATCH).collect();
    for (batch, expressions) in batches.iter().enumerate() {
        let (mine, [policy, binding]) = policies(&place, batch, expressions);
        [mine, policy, binding].iter().for_each(|object| drop(admin.create(object).ok()));
    }
    for (batch, expressions) in batches.iter().enumerate() {
        let judged = |side: &str| {
            let objects = objects(&place, &format!("{side}-{batch}-"));
            objects.iter().map(|object| broken(admin, object, expressions)).collect::<Vec<_>>()
        };
        let (mine, theirs) = (judged("ours"), judged("theirs"));
        for (index, expression) in expressions.iter().enumerate() {
            let refused = |by: &[BTreeSet<usize>], not_by: &[BTreeSet<usize>]| -> Vec<usize> {
                let only = |at: &usize| by[*at].contains(&index) && !not_by[*at].contains(&index);
                (0..by.len()).filter(only).collect()
            };
            for (who, objects) in [("we", refused(&mine, &theirs)), ("they", refused(&theirs, &mine))] {
                if !objects.is_empty() {
                    differences.insert((*expression, format!("{who} refuse {objects:?}")));
                }
            }
        }
    }
    let known = expressions().into_iter().filter_map(|(expression, how)| Some((expression, how?.to_owned())));
    let known: BTreeSet<(&str, String)> = known.collect();
    let new: Vec<_> = differences.difference(&known).collect();
    let gone: Vec<_> = known.difference(&differences).collect();
    let lines = |of: &[&(&str, String)]| {
        of.iter().map(|(expression, how)| format!("\n  {how}: {expression}")).collect::<String>()
    };
    assert!(new.is_empty() && gone.is_empty(), "differences: {}\nno more: {}", lines(&new), lines(&gone));
    assert!(
        alike.len() > 300 && refused_alike > 4,
        "{} are taken by both, {refused_alike} by neither",
        alike.len()
    );
}
