//! Our own kinds: understood, authorized, and a canary.

use serde_json::json;

use super::harness::{Cluster, recorded};

#[tokio::test]
async fn our_own_kinds_are_understood_or_refused_with_every_problem() {
    let app = Cluster::new().app();
    for (name, parts) in [
        (
            "rule-create-bad",
            &[
                "CopyratorRule registry is not valid: ",
                "spec.source.namespace: unknown field",
                "spec.source.names[0]: \"reg[\" is not a valid glob",
                "spec.targets[0]: needs names",
                "spec.deletionGrace: \"5 days\"",
            ][..],
        ),
        (
            "rule-create-undecodable",
            &[
                "spec.conflictPolicy: cannot be read: unknown variant `Force`, expected one of `Refuse`, `Adopt`, `Overwrite`",
            ],
        ),
        (
            "policy-create-bad",
            &[
                "spec.data[0].pattern: ",
                "spec.data[1].name: another rule in spec.data already has the name \"a\"",
                "spec.data[1]: has no requirement",
                "spec.labels.patterns[owner]: is too large",
                "spec.validations[0].expression: is not a valid CEL",
                "\"self\" is not a variable here",
                "\"frobnicate\" is not a function",
                "spec.defaults.labels[team]: ",
                "both Deny and Warn",
            ],
        ),
    ] {
        let message = app.send("/validate/own-kinds?timeout=5s", name).await.refused(422, "Invalid");
        for part in parts {
            assert!(message.contains(part), "{name}: {part}\nin {message}");
        }
    }
    app.send("/validate/own-kinds", "policy-create").await.allowed();
    app.send("/validate/own-kinds", "rule-update-metadata").await.allowed();
}

/// Each alone, so that none hides behind another. What the schema of the definition refuses is never asked of us
/// (`tests/control_plane/own_kinds.rs`); windows and stages have tables of their own in `core/src/validate`.
#[tokio::test]
async fn what_makes_no_sense_is_refused_with_its_field() {
    let app = Cluster::new().app();
    let rule = json!({"source": {"kind": "Secret", "names": ["a"]}, "targets": [{"names": ["x"]}]});
    let monitor = json!({"watch": [{"kind": "ConfigMap", "names": ["a"]}]});
    let policy = json!({"match": {"kinds": ["ConfigMap"]}, "limits": {"maxBytes": 9}});
    let selector = |selector| json!([{"namespaceSelector": selector}]);
    for (review, good, pointer, value, expected) in [
        ("rule-create", &rule, "/source/names", json!(["ok", "a["]), "spec.source.names[1]: "),
        ("rule-create", &rule, "/source/namespaces", json!(["team-*"]), "spec.source.namespaces[0]: "),
        (
            "rule-create",
            &rule,
            "/targets",
            selector(json!({"matchExpressions": [{"key": "a", "operator": "Is"}]})),
            "spec.targets[0].namespaceSelector.matchExpressions",
        ),
        (
            "rule-create",
            &rule,
            "/targets",
            selector(json!({"matchLabels": {"bad key!": "x"}})),
            "spec.targets[0].namespaceSelector",
        ),
        ("rule-create", &rule, "/copy", json!({"name": "Upper Case"}), "spec.copy.name: "),
        ("rule-create", &rule, "/copy", json!({"kind": "ConfigMap"}), "literal keys.include"),
        (
            "monitor-create",
            &monitor,
            "/watch",
            json!([{"kind": "ConfigMap", "names": ["a["]}]),
            "spec.watch[0].names[0]: ",
        ),
        (
            "monitor-create",
            &monitor,
            "/workloads",
            json!({"names": [{"kind": "Deployment", "name": "web-*"}]}),
            "globs are not allowed here",
        ),
        (
            "monitor-create",
            &monitor,
            "/pace",
            json!({"order": [{"matchLabels": {"bad key!": "x"}}]}),
            "spec.pace.order[0]",
        ),
        (
            "monitor-create",
            &monitor,
            "/window",
            json!({"schedule": "0 25 * * *", "duration": "1h"}),
            "spec.window.schedule: ",
        ),
        (
            "policy-create",
            &policy,
            "/validations",
            json!([{"expression": "int(text.a"}]),
            "spec.validations[0].expression: ",
        ),
        (
            "policy-create",
            &policy,
            "/validations",
            json!([{"expression": "secrets.a == 1"}]),
            "spec.validations[0].expression: ",
        ),
        (
            "policy-create",
            &policy,
            "/data",
            json!([{"name": "a", "keys": ["a"], "pattern": "("}]),
            "spec.data[0].pattern: ",
        ),
        (
            "policy-create",
            &policy,
            "/data",
            json!([{"name": "a", "keys": ["a["], "required": true}]),
            "spec.data[0].keys[0]: ",
        ),
        ("policy-create", &policy, "/labels", json!({"patterns": {"owner": "("}}), "spec.labels.patterns"),
        ("policy-create", &policy, "/limits", json!(null), "spec: has no requirement"),
    ] {
        let mut create = recorded(review);
        create["request"]["object"]["spec"] = good.clone();
        app.send_value("/validate/own-kinds", &create).await.allowed();
        let spec = &mut create["request"]["object"]["spec"];
        let (parent, field) = pointer.rsplit_once('/').unwrap();
        spec.pointer_mut(parent).unwrap()[field] = value;
        let message = app.send_value("/validate/own-kinds", &create).await.refused(422, "Invalid");
        assert!(message.contains(expected), "{pointer}: {expected}\nin {message}");
        assert!(!message.contains("; spec."), "{pointer}: more than one\nin {message}");
    }
}

#[tokio::test]
async fn nobody_gets_through_us_what_they_may_not_do_alone() {
    let app = Cluster::new().app();
    app.send("/validate/own-kinds", "rule-create").await.allowed();
    app.send("/validate/own-kinds", "monitor-create").await.allowed();
    let mut asked = app.table.asked.lock().unwrap().clone();
    asked.sort();
    assert_eq!(
        asked,
        [
            "alice create secrets  ",
            "alice delete secrets  ",
            "alice get secrets platform registry",
            // Whether to be told how many copies appear.
            "alice list namespaces  ",
            "alice patch deployments shop web",
            "alice patch secrets  "
        ]
    );

    let app = Cluster::new().refuse("create secrets").app();
    let message = app.send("/validate/own-kinds", "rule-create").await.refused(403, "Forbidden");
    assert!(message.contains("user \"alice\" may not create secrets in all namespaces; to allow it: kubectl create clusterrole copyrator-platform-"), "{message}");
    app.send("/validate/own-kinds", "rule-update-suspend").await.allowed();
    // The account's own rights may come with the rest of the release.
    let warnings = app.send("/validate/own-kinds", "rule-create-service-account").await.warnings();
    assert_eq!(
        warnings,
        ["copyrator: no effect until serviceaccount platform/copier may create secrets in all namespaces"]
    );

    let app = Cluster::new().refuse("impersonate serviceaccounts").app();
    let message =
        app.send("/validate/own-kinds", "rule-create-service-account").await.refused(403, "Forbidden");
    assert!(
        message.contains("may not impersonate serviceaccounts \"copier\" in namespace \"platform\""),
        "{message}"
    );
    let warnings = app.send("/validate/own-kinds", "rule-create-foreign-account").await.warnings();
    assert!(warnings[0].contains("sets serviceAccountName"), "{warnings:?}");
}

/// A user who writes a template needs what it takes to write its objects, as for a rule.
#[tokio::test]
async fn nobody_gets_through_a_template_what_they_may_not_do_alone() {
    let app = Cluster::new().app();
    app.send("/validate/own-kinds", "template-create").await.allowed();
    let mut asked = app.table.asked.lock().unwrap().clone();
    // Whether to be told how many objects appear.
    asked.retain(|one| one != "alice list namespaces  ");
    asked.sort();
    let writes = ["create", "delete", "patch"]
        .map(|verb| ["configmaps", "resourcequotas"].map(|resource| format!("alice {verb} {resource}  ")))
        .concat();
    // It reads labels and annotations of the namespaces.
    let mut expected = [&writes[..], &["alice get namespaces  ".to_owned()]].concat();
    expected.sort();
    assert_eq!(asked, expected);

    let app = Cluster::new().refuse("delete resourcequotas").app();
    let message = app.send("/validate/own-kinds", "template-create").await.refused(403, "Forbidden");
    let begin = "user \"alice\" may not delete resourcequotas in all namespaces; to allow it: kubectl create clusterrole ";
    assert!(message.contains(begin), "{message}");
    let mut update = recorded("template-create");
    let request = &mut update["request"];
    request["operation"] = json!("UPDATE");
    request["oldObject"] = request["object"].clone();
    app.send_value("/validate/own-kinds", &update).await.allowed();
    update["request"]["object"]["spec"]["suspend"] = json!(true);
    app.send_value("/validate/own-kinds", &update).await.allowed();
    update["request"]["object"]["spec"]["conflictPolicy"] = json!("Overwrite");
    app.send_value("/validate/own-kinds", &update).await.refused(403, "Forbidden");

    let mut account = recorded("template-create");
    account["request"]["object"]["spec"]["serviceAccountName"] = json!("stamper");
    let warnings = app.send_value("/validate/own-kinds", &account).await.warnings();
    assert_eq!(
        warnings,
        [
            "copyrator: no effect until serviceaccount platform/stamper may delete resourcequotas in all namespaces"
        ]
    );
    let app = Cluster::new().refuse("impersonate serviceaccounts").app();
    let message = app.send_value("/validate/own-kinds", &account).await.refused(403, "Forbidden");
    assert!(message.contains("may not impersonate serviceaccounts \"stamper\""), "{message}");
}

/// The write is no mistake of form, but does less than its author means.
#[tokio::test]
async fn what_can_never_be_is_warned_of() {
    let app = Cluster::new().app();
    let mut rule = recorded("rule-create");
    rule["request"]["object"]["spec"]["targets"] = json!([{"names": ["kube-system", "shop", "platform"]}]);
    rule["request"]["object"]["spec"]["source"]["kind"] = json!("Secret");
    rule["request"]["object"]["spec"]["copy"] = json!({"keys": {"include": ["ca.crt"]}});
    let mut template = recorded("template-create");
    template["request"]["object"]["spec"]["forEach"] = json!({"namespaces": [{"names": ["kube-public"]}]});
    let mut annotated = recorded("secret-create");
    let metadata = &mut annotated["request"]["object"]["metadata"];
    metadata["annotations"] = json!({"copyrator.dev/copy-to": "kube-node-lease,shop"});
    metadata["labels"] = json!({"copyrator.dev/declares": "true"});
    let never = "never gets objects from Copyrator";
    let home = "is the sources' own namespace and never gets copies of them";
    for (path, review, said) in [
        (
            "/validate/own-kinds",
            &rule,
            &[
                ("kube-system", never),
                ("platform", home),
                ("copies of a Secret of type kubernetes.io/tls will be Opaque", ""),
            ][..],
        ),
        ("/validate/own-kinds", &template, &[("kube-public", never)]),
        ("/validate/annotations", &annotated, &[("kube-node-lease", never), ("shop", home)]),
    ] {
        let warnings = app.send_value(path, review).await.warnings();
        for (what, why) in said {
            assert!(
                warnings.iter().any(|one| one.starts_with(format!("copyrator: {what} {why}").trim_end())),
                "{what} {why}: {warnings:?}"
            );
        }
    }
}

/// What the operator does not act on yet is no template that does nothing.
#[tokio::test]
async fn a_template_with_what_is_not_served_yet_is_refused() {
    let app = Cluster::new().app();
    let mut review = recorded("template-create");
    let spec = &mut review["request"]["object"]["spec"];
    spec["objects"][0]["template"]["kind"] = json!("Secret");
    let mut other = json!({"objects": {"apiVersion": "web.example.com/v1", "kind": "NginxServer"}});
    std::mem::swap(&mut spec["forEach"], &mut other);
    let message = app.send_value("/validate/own-kinds", &review).await.refused(422, "Invalid");
    let expected = "CopyratorTemplate starter is not valid: spec.objects[quota].template.kind: a template cannot render a Secret";
    assert!(message.contains(expected), "{message}");
    // A stored one can still be suspended.
    let request = &mut review["request"];
    request["operation"] = json!("UPDATE");
    request["oldObject"] = request["object"].clone();
    request["object"]["spec"]["suspend"] = json!(true);
    app.send_value("/validate/own-kinds", &review).await.allowed();

    let mut unknown = recorded("template-create");
    unknown["request"]["object"]["spec"]["objects"][1]["templat"] = json!("x");
    let message = app.send_value("/validate/own-kinds", &unknown).await.refused(422, "Invalid");
    assert!(
        message.contains("spec.objects[1].templat: unknown field in this version of the kind"),
        "{message}"
    );
}

#[tokio::test]
async fn a_canary_shows_that_calls_arrive() {
    let app = Cluster::new().app();
    let message = app.send("/validate/own-kinds", "rule-canary").await.refused(418, "Canary");
    assert_eq!(message, "copyrator canary t0k3n-42, unstamped");
    let mut review = recorded("rule-canary");
    review["request"]["object"]["metadata"]["annotations"]["copyrator.dev/author"] = json!("alice");
    let message = app.send_value("/validate/own-kinds", &review).await.refused(418, "Canary");
    assert_eq!(message, "copyrator canary t0k3n-42");
    review["request"]["dryRun"] = json!(false);
    app.send_value("/validate/own-kinds", &review).await.allowed();
}

/// What it costs to find out is bounded, for one review and for all of a namespace: also for a client that sends them itself.
#[tokio::test(start_paused = true)]
async fn no_namespace_has_all_the_questions_asked() {
    let app = Cluster::new().refuse("get secrets").app();
    let names = |stem: &str| (0..64).map(|at| format!("{stem}-{at}")).collect::<Vec<_>>();
    let mut wide = recorded("rule-create");
    wide["request"]["object"]["spec"] = json!({
        "source": {"kind": "Secret", "names": names("s"), "namespaces": names("n")}, "targets": [{"names": names("t")}],
    });
    let refusal = app.send_value("/validate/own-kinds", &wide).await.refused(403, "Forbidden");
    assert!(
        refusal.contains("take 4096 SubjectAccessReviews")
            && refusal.contains("split it into several objects"),
        "{refusal}"
    );
    let asked = app.table.asked.lock().unwrap().len();
    assert!(asked < 200, "{asked} questions for one review");

    let mut answers = Vec::new();
    for _ in 0..20 {
        answers.push(app.send_value("/validate/own-kinds", &wide).await);
    }
    let refusal = answers.pop().unwrap().refused(429, "TooManyRequests");
    assert!(refusal.contains("try again in a moment"), "{refusal}");
    assert!(app.table.asked.lock().unwrap().len() <= 1024, "{}", app.table.asked.lock().unwrap().len());
    let mut other = recorded("rule-create");
    other["request"]["namespace"] = json!("team-b");
    let told = app.send_value("/validate/own-kinds", &other).await.response();
    assert!(told["status"]["code"] != 429, "another namespace waits for the first: {told}");
    tokio::time::advance(std::time::Duration::from_secs(10)).await;
    app.send_value("/validate/own-kinds", &wide).await.refused(403, "Forbidden");
}

/// The user is told what becomes of its objects, and is never kept from deleting it.
#[tokio::test]
async fn a_user_who_deletes_a_rule_or_template_is_told_what_is_deleted_with_it() {
    let app = Cluster::new().app();
    let mut deletion = recorded("rule-create");
    let request = &mut deletion["request"];
    request["operation"] = json!("DELETE");
    let mut rule = request["object"].take();
    let retained = "2 copies of this rule stay as ordinary objects (deletionPolicy: Retain)";
    for (kind, policy, grace, current, told) in [
        ("CopyratorRule", "Delete", json!("5m"), 12, Some("12 copies of this rule will be deleted in 5m")),
        ("CopyratorRule", "Delete", json!(null), 1, Some("1 copy of this rule will be deleted in 7m")),
        (
            "CopyratorTemplate",
            "Delete",
            json!(null),
            3,
            Some("3 objects of this template will be deleted in 7m"),
        ),
        ("CopyratorRule", "Retain", json!(null), 2, Some(retained)),
        ("CopyratorRule", "Delete", json!("5m"), 0, None),
    ] {
        rule["spec"]["deletionPolicy"] = json!(policy);
        rule["spec"]["deletionGrace"] = grace;
        rule["status"] = json!({ "current": current, "desired": current, "sources": 1 });
        deletion["request"]["oldObject"] = rule.clone();
        deletion["request"]["kind"]["kind"] = json!(kind);
        let answer = app.send_value("/validate/warnings", &deletion).await;
        answer.allowed();
        let way_out = if policy == "Delete" { "; deletionPolicy: Retain keeps them" } else { "" };
        let told: Vec<String> = told.into_iter().map(|told| format!("copyrator: {told}{way_out}")).collect();
        assert_eq!(answer.warnings(), told);
    }
}

#[tokio::test]
async fn what_holds_data_is_counted_apart_where_a_template_is_deleted() {
    let app = Cluster::new().app();
    let mut deletion = recorded("template-create");
    let request = &mut deletion["request"];
    request["operation"] = json!("DELETE");
    let mut template = request["object"].take();
    let object = |kind: &str, own: serde_json::Value| json!({"id": "a", "deletionPolicy": own, "template": {"kind": kind}});
    let (goes, stays) = (
        "will be deleted in 5m; deletionPolicy: Retain keeps them",
        "(with data, or with deletionPolicy: Retain)",
    );
    for (objects, told) in [
        (
            json!([
                object("ConfigMap", json!(null)),
                object("StatefulSet", json!(null)),
                object("Service", json!("Retain"))
            ]),
            vec![
                format!("up to 2 objects of this template {goes}"),
                format!("up to 4 objects of this template stay as ordinary objects {stays}"),
            ],
        ),
        (json!([object("StatefulSet", json!("Delete"))]), vec![format!("6 objects of this template {goes}")]),
    ] {
        template["spec"]["objects"] = objects;
        template["spec"]["deletionGrace"] = json!("5m");
        template["status"] = json!({ "current": 6, "desired": 6, "instances": 2 });
        deletion["request"]["oldObject"] = template.clone();
        let told: Vec<String> = told.iter().map(|told| format!("copyrator: {told}")).collect();
        assert_eq!(app.send_value("/validate/warnings", &deletion).await.warnings(), told);
    }
}
