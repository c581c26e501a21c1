//! Rules that a command leaves out if the command does not know which kinds Copyrator copies: it cannot read
//! Copyrator's Deployment, and no flag names the kinds.

use std::collections::BTreeSet;

use serde::Deserialize as _;

use crate::{
    api::{CopyratorRuleSpec, Problem},
    files::{FileKind, Item},
    installed::ReadScope,
    model::World,
    names::{Declarer, Kind},
    validate::{CompiledRule, SpecFault},
};

/// The kinds to read: all, or none if a refused list would hide a whole namespace.
pub(super) fn kinds(read_scope: &ReadScope) -> BTreeSet<Kind> {
    let each =
        Kind::ALL.into_iter().filter(|kind| kind.data().is_none() && read_scope.namespaces().is_none());
    each.collect()
}

/// Removes rules of the cluster and of files whose only fault is that their kinds are not granted, and
/// returns a note about these rules. `namespace` is Copyrator's own. The copies of these rules are unknown,
/// too, since only granted kinds are listed.
pub(super) fn leave_out(world: &mut World, files: &mut Vec<Item>, namespace: &str) -> Option<String> {
    let is_untold = |problems: &Vec<Problem>| {
        problems.iter().all(|problem| SpecFault::of(problem) == Some(SpecFault::KindNotGranted))
    };
    let rules = world.rules().iter().filter(|(_, facts)| facts.compiled.as_ref().is_err_and(is_untold));
    let rules: Vec<Declarer> = rules.map(|(rule, _)| rule.clone()).collect();
    rules.iter().for_each(|rule| world.forget_rule(rule));
    let granted = &world.settings().template_kinds;
    let of_files = files.extract_if(.., |file| {
        let spec = Some(&file.value["spec"]).filter(|_| file.of.kind == FileKind::Rule);
        let spec = spec.and_then(|spec| CopyratorRuleSpec::deserialize(spec).ok());
        spec.is_some_and(|spec| CompiledRule::compile(&spec, granted).is_err_and(|all| is_untold(&all)))
    });
    let of_files: Vec<String> = of_files.map(|file| format!("{} ({})", file.of.name, file.place)).collect();
    let named: Vec<String> = rules.iter().map(ToString::to_string).chain(of_files).collect();
    (!named.is_empty()).then(|| {
        format!(
            "cannot show rules {}, which copy custom resources: the Deployment in namespace {namespace} shows which kinds Copyrator may \
             copy, but you cannot read it. Set --template-kinds as in the chart's value templates.kinds",
            named.join(", ")
        )
    })
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use clap::Parser as _;
    use http::{Request, Response};
    use kube::{Client, client::Body};
    use serde_json::{Value, json};

    use super::*;
    use crate::{
        explain::Course,
        files,
        installed::InstalledArgs,
        survey::{Survey, SurveyMode, SurveyTarget, survey},
        tests::fake_cluster::ours,
    };

    #[derive(clap::Parser)]
    struct Settings {
        #[command(flatten)]
        installed: InstalledArgs,
    }

    fn rule(name: &str, targets: Value) -> Value {
        let source = json!({ "apiVersion": "cert-manager.io/v1", "kind": "Issuer", "names": ["a"] });
        ours("CopyratorRule", "shop", name, json!({ "source": source, "targets": targets }))
    }

    /// What a user is told who may not read Copyrator's Deployment, of the rules `issuers` and `wrong`, and of the file's `another`.
    async fn told(arguments: &[&str]) -> Survey {
        let to_web = || json!([{ "names": ["web"] }]);
        let service = tower::service_fn(move |request: Request<Body>| {
            let failure = |code, reason| {
                (code, json!({ "status": "Failure", "message": "", "reason": reason, "code": code }))
            };
            let items = |items| (200, json!({ "metadata": {}, "items": items }));
            let (code, answer): (u16, Value) = match request.uri().path() {
                "/apis/authentication.k8s.io/v1/selfsubjectreviews" => {
                    (201, json!({ "metadata": {}, "status": { "userInfo": { "username": "alice" } } }))
                }
                path if path.starts_with("/apis/authorization.k8s.io") => {
                    (201, json!({ "metadata": {}, "spec": {}, "status": { "allowed": true } }))
                }
                "/apis/apps/v1/namespaces/copyrator-system/deployments" => failure(403, "Forbidden"),
                path if path.contains("/namespaces/copyrator-system/") => failure(404, "NotFound"),
                path if path.starts_with("/apis/apiextensions.k8s.io") => failure(404, "NotFound"),
                "/apis/copyrator.dev/v1alpha1/copyratorrules" => {
                    items(json!([rule("issuers", to_web()), rule("wrong", json!([]))]))
                }
                "/api/v1/namespaces" => items(json!([{ "metadata": { "name": "shop" } }])),
                _ => items(json!([])),
            };
            let answer = Response::builder().status(code).body(Body::from(answer.to_string().into_bytes()));
            async move { Ok::<_, Infallible>(answer.unwrap()) }
        });
        let client = Client::new(service, "default");
        let installed = Settings::parse_from(["command"].iter().chain(arguments)).installed.check().unwrap();
        let documents = files::parse("f.yaml", &rule("another", to_web()).to_string()).unwrap();
        let files = documents.into_iter().filter_map(|document| files::item(document, "shop").ok()).collect();
        let mode = SurveyMode::WithFiles(files, None);
        let target = SurveyTarget { installed: &installed, read_scope: &ReadScope::Unknown };
        survey(&client, target, mode).await.unwrap()
    }

    #[tokio::test]
    async fn rules_of_kinds_that_may_be_granted_are_left_out() {
        let survey = told(&[]).await;
        let rules: Vec<String> = survey.world.rules().keys().map(ToString::to_string).collect();
        assert_eq!(rules, ["shop/wrong"]);
        assert!(survey.files.is_empty());
        let is_said =
            |note: &String| note.contains("cannot show rules shop/issuers, shop/another (f.yaml:1), which");
        assert!(survey.notes.iter().any(is_said), "{:?}", survey.notes);
    }

    #[tokio::test]
    async fn rules_of_kinds_that_are_not_granted_are_told() {
        let survey = told(&["--template-kinds=a.b/v1/A/as/render"]).await;
        assert_eq!(survey.world.rules().len(), 2);
        assert_eq!(survey.files.iter().map(|file| file.course).collect::<Vec<_>>(), [Course::Refuse]);
    }
}
