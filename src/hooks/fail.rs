//! Policies with `failurePolicy: Fail` hold writes up while we are away. Each has entries of its own, which reach no
//! further than the policy: for one team's policy nobody else waits.

use k8s_openapi::{
    api::admissionregistration::v1::ValidatingWebhook,
    apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement},
};

use super::{
    needs::{NAMESPACES, judged, kept},
    render::{narrow, with_deletions},
};
use crate::{
    api::{ConfigPolicySpec, PolicyMatch},
    digest::hex,
};

/// Beyond so many of these policies one entry serves them all, wherever they apply: an entry takes some 4 KiB, and
/// an object at most 1.5 MiB.
const MOST: usize = 64;
/// The longest name of an entry.
const LONGEST_NAME: usize = 253;

/// The entries, each made from the one that is written in `webhook-config/`.
pub(super) fn entries(
    written: &ValidatingWebhook,
    policies: &[(&str, &ConfigPolicySpec)],
) -> Vec<ValidatingWebhook> {
    if policies.len() > MOST {
        let mut all = written.clone();
        narrow(&mut all.rules, &policies.iter().flat_map(|(_, policy)| judged(policy)).collect());
        with_deletions(&mut all.rules, &policies.iter().flat_map(|(_, policy)| kept(policy)).collect());
        return vec![all];
    }
    let both = |(name, policy): &(&str, &ConfigPolicySpec)| {
        [of_content(written, name, policy), of_namespaces(written, name, policy)]
    };
    policies.iter().flat_map(both).collect()
}

/// For ConfigMaps and Secrets.
fn of_content(written: &ValidatingWebhook, name: &str, policy: &ConfigPolicySpec) -> ValidatingWebhook {
    let PolicyMatch { namespace_selector, object_selector, exclude_namespaces, .. } = &policy.match_;
    let mut entry = entry(written, &format!("{name}.policies-fail.copyrator.dev"), name);
    narrow(&mut entry.rules, &judged(policy).filter(|one| *one != NAMESPACES).collect());
    with_deletions(&mut entry.rules, &kept(policy).collect());
    restrict(&mut entry.namespace_selector, but_for(exclude_namespaces));
    restrict(&mut entry.namespace_selector, requirements(namespace_selector.as_ref()));
    restrict(&mut entry.object_selector, requirements(object_selector.as_ref()));
    entry
}

/// For Namespaces: what is said of the namespace's labels is said of the object's. The API server looks at the object
/// as it is, too, but for `objectSelector` only: by `namespaceSelector`, to take a label off would be to take the
/// policy off.
fn of_namespaces(written: &ValidatingWebhook, name: &str, policy: &ConfigPolicySpec) -> ValidatingWebhook {
    let PolicyMatch { namespace_selector, object_selector, exclude_namespaces, .. } = &policy.match_;
    let mut entry = entry(written, &format!("{name}.namespaces-fail.copyrator.dev"), name);
    narrow(&mut entry.rules, &judged(policy).filter(|one| *one == NAMESPACES).collect());
    restrict(&mut entry.namespace_selector, but_for(exclude_namespaces));
    restrict(&mut entry.object_selector, requirements(namespace_selector.as_ref()));
    restrict(&mut entry.object_selector, requirements(object_selector.as_ref()));
    entry
}

fn entry(written: &ValidatingWebhook, name: &str, policy: &str) -> ValidatingWebhook {
    let mut entry = written.clone();
    entry.name = match name.len() > LONGEST_NAME {
        false => name.to_owned(),
        true => {
            let digest = ring::digest::digest(&ring::digest::SHA256, name.as_bytes());
            format!("{}.{}", hex(&digest.as_ref()[..16]), written.name)
        }
    };
    if let Some(path) = entry.client_config.service.as_mut().and_then(|service| service.path.as_mut()) {
        path.push('/');
        path.push_str(policy);
    }
    entry
}

fn restrict(selector: &mut Option<LabelSelector>, more: Vec<LabelSelectorRequirement>) {
    if !more.is_empty() {
        selector.get_or_insert_default().match_expressions.get_or_insert_default().extend(more);
    }
}

/// A selector as a list that another can be added to: two maps could name one label with two values.
fn requirements(selector: Option<&LabelSelector>) -> Vec<LabelSelectorRequirement> {
    let labels = selector.into_iter().flat_map(|selector| selector.match_labels.iter().flatten());
    let labels = labels.map(|(key, value)| LabelSelectorRequirement {
        key: key.clone(),
        operator: "In".into(),
        values: Some(vec![value.clone()]),
    });
    let expressions = selector.into_iter().flat_map(|selector| selector.match_expressions.iter().flatten());
    labels.chain(expressions.cloned()).collect()
}

/// Not in these namespaces, as far as they are named without globs; the policy itself sees to the others.
fn but_for(namespaces: &[String]) -> Vec<LabelSelectorRequirement> {
    let plain = |name: &&String| name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    let names: Vec<_> = namespaces.iter().filter(plain).cloned().collect();
    let requirement = LabelSelectorRequirement {
        key: "kubernetes.io/metadata.name".into(),
        operator: "NotIn".into(),
        values: Some(names.clone()),
    };
    if names.is_empty() { Vec::new() } else { vec![requirement] }
}
