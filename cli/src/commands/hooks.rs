//! `copyrator hooks`: prints the webhook configurations.

use std::path::PathBuf;

use copyrator_certs::Certificate;
use kube::ResourceExt as _;

use crate::{
    api::{ConfigPolicy, ConfigPolicySpec},
    arguments::{InstallNamespace, endpoint},
    crds::KubeVersion,
    files::{self, Document},
    hooks::{Frame, Stamper, WarningScope, render},
    terminal::{Exit, fail, print},
    validate::CompiledPolicy,
};

/// Show the webhook configurations that the reconciler applies, with all possible entries: in the cluster
/// they have only the entries that its policies need, a CA, and the hook author.copyrator.dev only if the API
/// server does not record authors. With --ca, show the configurations for --policy, to apply them without a
/// reconciler; they give no warnings about the consequences of a write.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  copyrator hooks --print\n  copyrator hooks --print --webhook-service copyrator-webhook:443\n  \
    copyrator hooks --print --ca ca.crt --policy policies/ | kubectl apply -f -\n\n\
    To switch every hook off: kubectl delete validatingwebhookconfiguration,mutatingwebhookconfiguration copyrator\n\n\
    Exit codes: 0 done; 1 cannot write the configurations as YAML; 2 usage, or a file that cannot be read."
)]
pub struct Args {
    /// Print them as YAML.
    #[arg(long, required = true)]
    print: bool,
    #[command(flatten)]
    home: InstallNamespace,
    /// The Service by which the API server reaches the webhook.
    #[arg(
        long,
        env = "COPYRATOR_WEBHOOK_SERVICE",
        default_value = "copyrator-webhook:443",
        value_name = "NAME:PORT"
    )]
    webhook_service: String,
    /// A URL by which the API server reaches the webhook, instead of a Service.
    #[arg(long, env = "COPYRATOR_WEBHOOK_URL", value_name = "URL")]
    webhook_url: Option<String>,
    /// The CA of the webhook's certificates, in PEM: you can then apply the output, which has entries only
    /// for --policy.
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// The ConfigPolicies in the cluster: files, directories, or - for standard input. Other kinds are
    /// ignored.
    #[arg(long = "policy", value_name = "FILE", requires = "ca")]
    policies: Vec<PathBuf>,
    /// The version of Kubernetes: before 1.36 a hook records authors, because the API server cannot.
    #[arg(long, value_name = "VERSION", requires = "ca")]
    kube_version: Option<KubeVersion>,
    /// As the webhook's --annotations.
    #[arg(long, env = "COPYRATOR_ANNOTATIONS", default_value_t = true, action = clap::ArgAction::Set, value_name = "BOOL")]
    annotations: bool,
}

impl Args {
    /// Runs the command, and returns its exit code.
    pub fn run(self) -> Exit {
        let namespace = self.home.namespace();
        let endpoint = match endpoint(self.webhook_url, &self.webhook_service, &namespace) {
            Ok(endpoint) => endpoint,
            Err(error) => return fail(&error, Exit::Usage),
        };
        let annotations = self.annotations;
        let (endpoint, own_namespace) = (&endpoint, namespace.as_str());
        let frame = |stamper, ca_bundle_pem| Frame {
            stamper,
            endpoint,
            ca_bundle_pem,
            owner: None,
            own_namespace,
            annotations,
            timeout: None,
        };
        let Some(ca) = self.ca else {
            // Every possible kind of policy, so that every hook is shown.
            let policies = every_policy().map(|(name, policy)| (name.to_owned(), policy));
            let warned = WarningScope::of_anything();
            return show(&policies, &warned, &frame(Stamper::Hook, ""));
        };
        let bundle = match bundle(&ca) {
            Ok(bundle) => bundle,
            Err(message) => return unusable(&message),
        };
        let policies = match files::read(&self.policies) {
            Ok(documents) => policies(documents),
            Err(error) => return fail(&error, Exit::Usage),
        };
        let policies = match policies {
            Ok(policies) => policies,
            Err(message) => return unusable(&message),
        };
        let stamper = match self.kube_version.is_none_or(KubeVersion::stamps) {
            true => Stamper::ApiServer,
            false => Stamper::Hook,
        };
        // Which writes have consequences depends on all rules, monitors and workloads, which only a
        // reconciler knows.
        show(&policies, &WarningScope::default(), &frame(stamper, &bundle))
    }
}

fn show(policies: &[(String, ConfigPolicySpec)], warned: &WarningScope, frame: &Frame<'_>) -> Exit {
    let policies = policies.iter().map(|(name, policy)| (name.as_str(), policy));
    let (validating, mutating) = render(policies, warned, frame);
    match (serde_saphyr::to_string(&validating), serde_saphyr::to_string(&mutating)) {
        (Ok(validating), Ok(mutating)) => print(&format!("{validating}---\n{mutating}")),
        (Err(error), _) | (_, Err(error)) => fail(&error, Exit::Findings),
    }
}

fn unusable(message: &str) -> Exit {
    crate::terminal::say(message);
    Exit::Usage
}

/// The certificates in a file. Without any certificate, every call to the webhook would fail.
fn bundle(file: &std::path::Path) -> Result<String, String> {
    let text = std::fs::read_to_string(file);
    let text = text.map_err(|error| format!("cannot read --ca {}: {error}", file.display()))?;
    let found = Certificate::all_from_pem(&text).map_err(|error| error.to_string()).and_then(|found| {
        if found.is_empty() { Err("the file has no certificate".to_owned()) } else { Ok(found) }
    });
    let found = found.map_err(|error| format!("--ca {}: {error}", file.display()))?;
    Ok(found.iter().map(Certificate::pem).collect())
}

/// The policies among the documents. An invalid policy has no entries, and is refused by this command.
fn policies(documents: Vec<Document>) -> Result<Vec<(String, ConfigPolicySpec)>, String> {
    let is_policy = |document: &Document| document.value["kind"] == "ConfigPolicy";
    let read = |Document { place, value, .. }: Document| {
        let policy: ConfigPolicy = serde_json::from_value(value)
            .map_err(|error| format!("{place}: is not a ConfigPolicy: {error}"))?;
        let name = policy.name_any();
        let faults = CompiledPolicy::compile(&policy.spec).err().unwrap_or_default();
        if let Some(fault) = faults.first() {
            return Err(format!("{place}: ConfigPolicy {name}: {}", fault.message));
        }
        Ok((name, policy.spec))
    };
    documents.into_iter().filter(is_policy).map(read).collect()
}

fn every_policy() -> [(&'static str, crate::api::ConfigPolicySpec); 2] {
    use crate::api::{ConfigPolicySpec, Defaults, FailurePolicy, Limits, PolicyKind, PolicyMatch};
    let policy = |failure_policy| ConfigPolicySpec {
        match_: PolicyMatch {
            kinds: vec![PolicyKind::ConfigMap, PolicyKind::Secret, PolicyKind::Namespace],
            ..PolicyMatch::default()
        },
        limits: Some(Limits { max_bytes: Some(0) }),
        defaults: Some(Defaults { labels: [("a".to_owned(), "b".to_owned())].into(), ..Defaults::default() }),
        failure_policy,
        ..ConfigPolicySpec::default()
    };
    // A policy with `failurePolicy: Fail` has separate entries, named after the policy.
    [("policy", policy(FailurePolicy::Ignore)), ("policy", policy(FailurePolicy::Fail))]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::Place;

    fn document(value: serde_json::Value) -> Document {
        Document { place: Place { file: "f.yaml".into(), line: 7, document: 1, item: 0 }, value }
    }

    #[test]
    fn a_policy_that_is_not_valid_is_named_with_its_place_and_other_kinds_are_passed_over() {
        let policy = |keys: &str| {
            serde_json::json!({
                "apiVersion": "copyrator.dev/v1alpha1", "kind": "ConfigPolicy", "metadata": {"name": "app"},
                "spec": {"match": {"kinds": ["ConfigMap"]}, "data": [{"name": "a", "keys": [keys], "required": true}]},
            })
        };
        let other = serde_json::json!({"apiVersion": "v1", "kind": "ConfigMap"});
        let found = policies(vec![document(other), document(policy("*.yaml"))]).unwrap();
        assert_eq!(found.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["app"]);
        let said = policies(vec![document(policy("a["))]).unwrap_err();
        assert!(said.starts_with("f.yaml:7: ConfigPolicy app: "), "{said}");
        let mut wrong = policy("a");
        wrong["spec"]["match"]["kinds"] = "Pod".into();
        let said = policies(vec![document(wrong)]).unwrap_err();
        assert!(said.starts_with("f.yaml:7: is not a ConfigPolicy: "), "{said}");
    }

    /// With such a CA, the hooks would refuse everything.
    #[test]
    fn a_file_without_a_certificate_is_no_ca() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("ca.crt");
        assert!(bundle(&file).unwrap_err().starts_with("cannot read --ca "));
        for text in ["", "nonsense", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"] {
            std::fs::write(&file, text).unwrap();
            let said = bundle(&file).unwrap_err();
            assert!(said.contains("ca.crt: "), "{text:?}: {said}");
        }
    }
}
