//! A hook's match condition: the writes that the hook's policies cover, as a CEL expression that the API
//! server evaluates before it calls the webhook. All conditions of a hook must hold, so policies that share a
//! hook share one condition. A write that no policy covers costs no call, and does not wait while Copyrator
//! is away.

use std::collections::BTreeSet;

use k8s_openapi::{
    api::admissionregistration::v1::MatchCondition,
    apimachinery::pkg::apis::meta::v1::LabelSelectorRequirement,
};

use super::needs::{NAMESPACES, adds, judged, kept};
use crate::{
    api::{ConfigPolicySpec, Defaults},
    validate::{NameGlob, in_namespaces, name_glob, requirements},
};

/// The name of this condition in the webhook configuration.
pub(super) const SPOKEN: &str = "a-policy-speaks-of-it";
/// The separator of the terms of two policies. No term contains a line break.
const OR: &str = "\n|| ";
/// The object to judge; the request of a deletion has only an old object.
const OBJECT: &str = "(object != null ? object : oldObject)";

/// The task of a hook for policies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HookKind {
    /// Judge ConfigMaps and Secrets.
    Content,
    /// Judge Namespaces.
    Namespaces,
    /// Add defaults to ConfigMaps, Secrets and Namespaces.
    Defaults,
}

impl HookKind {
    /// The resources that the hook must cover for a policy.
    pub(super) fn judged(self, policy: &ConfigPolicySpec) -> BTreeSet<&'static str> {
        if self == Self::Defaults {
            return adds(policy).collect();
        }
        judged(policy).filter(|one| (*one == NAMESPACES) == (self == Self::Namespaces)).collect()
    }

    /// The resources whose deletions the hook must cover, too.
    pub(super) fn kept(self, policy: &ConfigPolicySpec) -> BTreeSet<&'static str> {
        kept(policy).filter(|_| self == Self::Content).collect()
    }
}

/// The condition under which one of these policies covers a write; `None` if a policy covers every write that
/// reaches the condition. If the condition would be longer than `room` bytes, it does not check names,
/// labels, globs and missing defaults, which the webhook then checks.
pub(super) fn condition(policies: &[&ConfigPolicySpec], of: HookKind, room: usize) -> Option<MatchCondition> {
    let all = |is_whole: bool| -> Option<BTreeSet<String>> {
        policies.iter().map(|policy| term(policy, of, is_whole)).collect()
    };
    let joined = |terms: BTreeSet<String>| terms.into_iter().collect::<Vec<_>>().join(OR);
    let whole = joined(all(true)?);
    let expression = if whole.len() <= room { whole } else { joined(all(false)?) };
    Some(MatchCondition { name: SPOKEN.into(), expression })
}

/// Whether a condition holds for every write that a policy covers.
pub(super) fn holds_for(condition: Option<&MatchCondition>, policy: &ConfigPolicySpec, of: HookKind) -> bool {
    let Some(condition) = condition else { return true };
    let said: BTreeSet<&str> = condition.expression.split(OR).collect();
    let is_said = |is_whole| term(policy, of, is_whole).is_some_and(|term| said.contains(term.as_str()));
    is_said(true) || is_said(false)
}

/// The term of one policy; `None` if the policy covers every write.
fn term(policy: &ConfigPolicySpec, of: HookKind, is_whole: bool) -> Option<String> {
    let mut parts = Vec::new();
    if let [one] = Vec::from_iter(of.judged(policy))[..] {
        parts.push(format!("request.resource.resource == '{one}'"));
    }
    if of.kept(policy).is_empty() {
        parts.push("request.operation != 'DELETE'".into());
    }
    if is_whole {
        parts.extend(policy.defaults.as_ref().filter(|_| of == HookKind::Defaults).map(lacking));
        // Before defaults are added, an object with `generateName` has no name yet, so its prefix is matched.
        let name = match of {
            HookKind::Defaults => {
                "object.metadata.?name.orValue(object.metadata.?generateName.orValue(''))".into()
            }
            _ => format!("{OBJECT}.metadata.name"),
        };
        parts.extend(policy.match_.names.as_ref().and_then(|names| matching(&name, names)));
        let (place, labels) = match of {
            HookKind::Content | HookKind::Defaults => ("request.namespace", Vec::new()),
            HookKind::Namespaces => (name.as_str(), in_namespaces(policy)),
        };
        let globs: Vec<String> = policy.match_.exclude_namespaces.clone();
        // A hook for policies selects literal namespaces by `namespaceSelector`. The hook for defaults serves
        // every namespace, and a request for a Namespace need not have its name as `namespace`.
        let is_said = |one: &String| !matches!(name_glob(one), NameGlob::Literal) && of != HookKind::Defaults;
        let globs: Vec<String> = globs.into_iter().filter(is_said).collect();
        if !globs.is_empty() {
            parts.push(matching(place, &globs).map_or("false".into(), |excluded| format!("!({excluded})")));
        }
        let labels: Vec<_> =
            labels.into_iter().chain(requirements(policy.match_.object_selector.as_ref())).collect();
        if !labels.is_empty() {
            let met = labels.iter().map(met).collect::<Vec<_>>().join(" && ");
            parts.push(format!("[object, oldObject].exists(it, it != null && {met})"));
        }
    }
    (!parts.is_empty()).then(|| format!("({})", parts.join(" && ")))
}

/// The CEL expression that is true if one of the defaults is missing.
fn lacking(defaults: &Defaults) -> String {
    let all = |map: &str, keys: Vec<&String>| {
        let keys = keys.into_iter().map(|key| quoted(key)).collect::<Vec<_>>().join(", ");
        format!("[{keys}].all(key, key in object.metadata.?{map}.orValue({{}}))")
    };
    let maps = [("labels", &defaults.labels), ("annotations", &defaults.annotations)];
    let maps = maps.into_iter().filter(|(_, map)| !map.is_empty());
    let there = maps.map(|(name, map)| all(name, map.keys().collect())).collect::<Vec<_>>();
    format!("!({})", there.join(" && "))
}

/// The CEL expression that is true if a text matches one of these names or globs; `None` if every text
/// matches.
fn matching(text: &str, entries: &[String]) -> Option<String> {
    let (mut literals, mut words) = (BTreeSet::new(), Vec::new());
    for entry in entries {
        match name_glob(entry) {
            NameGlob::Any => return None,
            NameGlob::Literal => drop(literals.insert(quoted(entry))),
            NameGlob::Prefix(prefix) => words.push(format!("{text}.startsWith({})", quoted(prefix))),
            NameGlob::Suffix(suffix) => words.push(format!("{text}.endsWith({})", quoted(suffix))),
            NameGlob::Pattern(pattern) => words.push(format!("{text}.matches({})", quoted(&pattern))),
        }
    }
    let literals = Vec::from_iter(literals).join(", ");
    words.extend((!literals.is_empty()).then(|| format!("{text} in [{literals}]")));
    Some(format!("({})", words.join(" || ")))
}

/// The CEL expression that is true if the labels of `it` meet a requirement of a label selector.
fn met(one: &LabelSelectorRequirement) -> String {
    let label = format!("it.metadata.?labels[?{}]", quoted(&one.key));
    let values: Vec<String> = one.values.iter().flatten().map(|value| quoted(value)).collect();
    let is_in = format!("({label}.hasValue() && {label}.value() in [{}])", values.join(", "));
    match one.operator.as_str() {
        "In" => is_in,
        "NotIn" => format!("!{is_in}"),
        "DoesNotExist" => format!("!{label}.hasValue()"),
        _ => format!("{label}.hasValue()"),
    }
}

/// A text as a CEL string literal.
fn quoted(text: &str) -> String {
    let each = |one: char| match one {
        '\\' | '\'' => format!("\\{one}"),
        ' '..='~' => one.to_string(),
        other => format!("\\U{:08x}", u32::from(other)),
    };
    format!("'{}'", text.chars().map(each).collect::<String>())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn policy(matched: serde_json::Value, keeps: bool) -> ConfigPolicySpec {
        let keeps = if keeps { "Refuse" } else { "Allow" };
        serde_json::from_value(json!({ "match": matched, "whileInUse": keeps, "limits": {"maxBytes": 1} }))
            .unwrap()
    }

    fn said(policies: &[&ConfigPolicySpec], of: HookKind) -> Option<String> {
        condition(policies, of, 10_000).map(|condition| condition.expression)
    }

    #[test]
    fn what_a_policy_speaks_of_is_said_in_the_shapes_that_were_tried() {
        let content = json!({"kinds": ["ConfigMap", "Secret"]});
        assert_eq!(said(&[&policy(content.clone(), true)], HookKind::Content), None);
        assert_eq!(
            said(&[&policy(content, false)], HookKind::Content).unwrap(),
            "(request.operation != 'DELETE')"
        );
        let named = policy(
            json!({
                "kinds": ["Secret", "Namespace"], "names": ["app", "web-*", "*-tls", "a?c", "it's\u{e9}"],
                "excludeNamespaces": ["plain", "test-*"], "namespaceSelector": {"matchLabels": {"team": "blue"}},
                "objectSelector": {"matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["b", "a"]}]},
            }),
            true,
        );
        let name = "(object != null ? object : oldObject).metadata.name";
        let names = format!(
            "({name}.startsWith('web-') || {name}.endsWith('-tls') || {name}.matches('^a.c$') || \
             {name} in ['app', 'it\\'s\\U000000e9'])"
        );
        let tier = "!(it.metadata.?labels[?'tier'].hasValue() && it.metadata.?labels[?'tier'].value() in ['a', 'b'])";
        assert_eq!(
            said(&[&named], HookKind::Content).unwrap(),
            format!(
                "(request.resource.resource == 'secrets' && {names} && !((request.namespace.startsWith('test-'))) && \
                 [object, oldObject].exists(it, it != null && {tier}))"
            )
        );
        let of_namespaces = said(&[&named], HookKind::Namespaces).unwrap();
        assert!(of_namespaces.contains(&format!("!(({name}.startsWith('test-')))")), "{of_namespaces}");
        assert!(of_namespaces.contains("labels[?'team'].value() in ['blue']"), "{of_namespaces}");
    }

    /// Defaults do not change a write that already has every default. If the API server will generate the
    /// name, its prefix counts.
    #[test]
    fn defaults_are_asked_for_where_one_is_missing() {
        let adds = |names: serde_json::Value, labels: serde_json::Value| -> ConfigPolicySpec {
            let matched = json!({"kinds": ["Secret"], "names": names, "excludeNamespaces": ["a", "b-*"]});
            serde_json::from_value(
                json!({"match": matched, "defaults": {"labels": labels, "annotations": {"n": "1"}}}),
            )
            .unwrap()
        };
        let one = adds(json!(["app"]), json!({"team": "x", "tier": "y"}));
        let said = said(&[&one], HookKind::Defaults).unwrap();
        assert_eq!(
            said,
            "(request.resource.resource == 'secrets' && request.operation != 'DELETE' && \
             !(['team', 'tier'].all(key, key in object.metadata.?labels.orValue({})) && \
             ['n'].all(key, key in object.metadata.?annotations.orValue({}))) && \
             (object.metadata.?name.orValue(object.metadata.?generateName.orValue('')) in ['app']))"
        );
        let other = adds(json!(["other"]), json!({}));
        let both = condition(&[&one, &other], HookKind::Defaults, 10_000).unwrap();
        assert!(
            [&one, &other].iter().all(|policy| holds_for(Some(&both), policy, HookKind::Defaults)),
            "{both:?}"
        );
        assert!(!holds_for(Some(&both), &adds(json!(["third"]), json!({})), HookKind::Defaults));
        let short = condition(&[&one, &other], HookKind::Defaults, 100).unwrap();
        assert_eq!(
            short.expression, "(request.resource.resource == 'secrets' && request.operation != 'DELETE')",
            "however many there are and whatever they add"
        );
        assert!([&one, &other].iter().all(|policy| holds_for(Some(&short), policy, HookKind::Defaults)));
    }

    #[test]
    fn policies_are_one_condition_that_holds_for_each_and_has_a_bound() {
        let of = |name: &str| policy(json!({"kinds": ["Secret"], "names": [name]}), false);
        let (a, b, same) = (of("a"), of("b"), of("a"));
        let both = condition(&[&a, &b, &same], HookKind::Content, 10_000).unwrap();
        assert_eq!(both.expression.split(OR).count(), 2, "{}", both.expression);
        for (policy, expected) in [(&a, true), (&b, true), (&of("c"), false)] {
            assert_eq!(holds_for(Some(&both), policy, HookKind::Content), expected);
        }
        assert!(holds_for(None, &a, HookKind::Content));
        let many: Vec<_> = (0..100).map(|number| of(&format!("name-{number}"))).collect();
        let coarse = condition(&many.iter().collect::<Vec<_>>(), HookKind::Content, 1_000).unwrap();
        assert_eq!(
            coarse.expression,
            "(request.resource.resource == 'secrets' && request.operation != 'DELETE')"
        );
        assert!(holds_for(Some(&coarse), &many[7], HookKind::Content));
        let everything = policy(json!({"kinds": ["ConfigMap", "Secret"]}), true);
        assert_eq!(condition(&[&a, &everything], HookKind::Content, 10_000), None);
    }
}
