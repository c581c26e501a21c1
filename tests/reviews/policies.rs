//! Policies: what is refused, what warns, and what no answer may hold.

use http::StatusCode;
use serde_json::{Value, json};

use super::harness::{Cluster, recorded};

fn app_policy() -> Value {
    json!({
        "match": {"kinds": ["ConfigMap", "Secret"], "namespaceSelector": {"matchLabels": {"team": "blue"}}},
        "data": [
            {"name": "has-url", "keys": ["url"], "required": true, "format": "url"},
            {"name": "settings", "keys": ["*.yaml"], "format": "yaml"},
            {"name": "frozen", "keys": ["schema-version"], "immutable": true}
        ],
        "labels": {"required": ["owner"], "patterns": {"owner": "[a-z-]+"}},
        "validations": [{"expression": "!has(text.min) || int(text.min) <= int(text.max)", "message": "min must not exceed max"}]
    })
}

pub fn guarded() -> Cluster {
    Cluster::new().policy("app", app_policy())
}

#[tokio::test]
async fn a_good_object_passes_in_silence() {
    let app = guarded().app();
    for name in [
        "configmap-create",
        "configmap-create-generate-name",
        "configmap-update",
        "configmap-delete",
        "configmap-delete-collection",
        "configmap-delete-without-object",
    ] {
        let response = app.send("/validate/policies?timeout=2s", name).await.allowed();
        assert!(response["warnings"].is_null(), "{name}: {response}");
    }
}

#[tokio::test]
async fn a_refusal_names_policy_rule_object_key_line_and_fix() {
    let app = guarded().app();
    for name in ["configmap-create-bad", "configmap-create-dry-run"] {
        let message = app.send("/validate/policies", name).await.refused(403, "Forbidden");
        for part in [
            "policy app, rule has-url: ConfigMap shop/web, key url: is not a URL; write scheme://host",
            "rule settings: ConfigMap shop/web, key app.yaml, line 2 column 4: is not valid YAML",
            "rule labels.required: ConfigMap shop/web: label owner is missing; add the label owner",
            "rule validations[0]: ConfigMap shop/web: min must not exceed max; ",
        ] {
            assert!(message.contains(part), "{part}\nin {message}");
        }
        let audit = &app.send("/validate/policies", name).await.response()["auditAnnotations"];
        assert_eq!(audit["verdict"], "refused");
        assert_eq!(audit["violations"], "app/has-url,app/settings,app/labels.required,app/validations[0]");
    }
}

/// A write of a Namespace's status or finalizers stores its labels, too.
#[tokio::test]
async fn a_namespace_is_judged_through_its_subresources_too() {
    let app = Cluster::new()
        .policy("owned", json!({"match": {"kinds": ["Namespace"]}, "labels": {"required": ["owner"]}}))
        .app();
    let mut review = recorded("namespace-create");
    let request = &mut review["request"];
    request["operation"] = json!("UPDATE");
    request["oldObject"] = request["object"].clone();
    request["oldObject"]["metadata"]["labels"]["owner"] = json!("blue");
    for part in ["", "status", "finalize"] {
        review["request"]["subResource"] = json!(part);
        let message = app.send_value("/validate/policies", &review).await.refused(403, "Forbidden");
        assert!(message.contains("label owner is missing"), "{part}: {message}");
    }
    // What does not touch the labels passes, such as the conditions that a controller writes.
    let before = review["request"]["oldObject"].clone();
    review["request"]["object"] = before;
    review["request"]["object"]["status"]["phase"] = json!("Terminating");
    app.send_value("/validate/policies", &review).await.allowed();
}

#[tokio::test]
async fn what_was_wrong_before_warns_and_what_is_left_alone_passes() {
    let app = guarded().app();
    let warnings = app.send("/validate/policies", "configmap-update-stands-already").await.warnings();
    assert_eq!(warnings.len(), 3, "{warnings:?}");
    let response = app.send("/validate/policies", "configmap-update-finalizers").await.allowed();
    assert!(response["warnings"].is_null(), "{response}");
    let message =
        app.send("/validate/policies", "configmap-update-immutable-key").await.refused(403, "Forbidden");
    assert!(
        message
            .contains("rule frozen: ConfigMap shop/web, key schema-version: is immutable and would change"),
        "{message}"
    );
    // The same wrong value, newly written, is refused.
    let mut review = recorded("configmap-update-stands-already");
    review["request"]["object"]["data"]["url"] = json!("still no url");
    let message = app.send_value("/validate/policies", &review).await.refused(403, "Forbidden");
    assert!(message.contains("has-url") && !message.contains("settings"), "{message}");
    // What is mended passes in silence, and is refused when it becomes wrong again.
    let before = review["request"]["oldObject"].take();
    let good = recorded("configmap-create")["request"]["object"].take();
    for (before, after, is_refused) in [(&before, &good, false), (&good, &before, true)] {
        review["request"]["oldObject"] = before.clone();
        review["request"]["object"] = after.clone();
        let answer = app.send_value("/validate/policies", &review).await;
        assert!(answer.warnings().is_empty());
        assert_eq!(answer.response()["allowed"], !is_refused);
    }
}

/// Content and labels that were in order.
#[tokio::test]
async fn what_becomes_wrong_is_refused_and_an_immutable_key_does_not_go() {
    let app = guarded().app();
    for (pointer, value, expected) in [
        (
            "/data/schema-version",
            json!(null),
            "rule frozen: ConfigMap shop/web, key schema-version: is immutable",
        ),
        ("/data/url", json!(null), "rule has-url: ConfigMap shop/web"),
        ("/metadata/labels/owner", json!("BLUE"), "rule labels.patterns: ConfigMap shop/web: label owner"),
    ] {
        let mut review = recorded("configmap-update");
        let (parent, field) = pointer.rsplit_once('/').unwrap();
        let fields = review["request"]["object"].pointer_mut(parent).unwrap().as_object_mut().unwrap();
        fields.remove(field);
        if !value.is_null() {
            fields.insert(field.to_owned(), value);
        }
        let message = app.send_value("/validate/policies", &review).await.refused(403, "Forbidden");
        assert!(message.contains(expected), "{expected}\nin {message}");
    }
}

#[tokio::test]
async fn too_much_data_is_refused() {
    let policy = json!({"match": {"kinds": ["ConfigMap"]}, "limits": {"maxBytes": 16}});
    let app = Cluster::new().policy("small", policy).app();
    let mut review = recorded("configmap-create");
    review["request"]["object"]["data"] = json!({"k": "more than sixteen bytes of it"});
    let message = app.send_value("/validate/policies", &review).await.refused(403, "Forbidden");
    let expected =
        "policy small, rule limits.maxBytes: ConfigMap shop/web: has 30 bytes, more than the limit of 16; ";
    assert!(message.contains(expected), "{message}");
    review["request"]["object"]["data"] = json!({"k": "little"});
    app.send_value("/validate/policies", &review).await.allowed();
}

#[tokio::test]
async fn actions_decide_what_a_violation_does() {
    let with = |actions: Value| {
        let mut policy = app_policy();
        policy["validationActions"] = actions;
        Cluster::new().policy("app", policy).app()
    };
    let warned = with(json!(["Warn"])).send("/validate/policies", "configmap-create-bad").await;
    assert_eq!((warned.allowed()["allowed"].clone(), warned.warnings().len()), (json!(true), 4));
    let audited = with(json!(["Audit"])).send("/validate/policies", "configmap-create-bad").await.allowed();
    assert!(
        audited["warnings"].is_null() && audited["auditAnnotations"]["verdict"] == "allowed",
        "{audited}"
    );
}

#[tokio::test]
async fn a_secrets_values_are_in_no_answer() {
    let formats = ["json", "yaml", "url", "regex", "integer", "boolean", "pem-certificate"];
    let keys = ["config.json", "app.yaml", "url", "pattern", "port", "flag", "tls.crt"];
    let mut data: Vec<Value> = formats
        .iter()
        .zip(keys)
        .map(|(format, key)| json!({"name": format, "keys": [key], "format": format}))
        .collect();
    data.push(json!({"name": "pair", "format": "tls-pair"}));
    data.push(json!({"name": "strong", "keys": ["password"], "pattern": "[a-z]{40}"}));
    let expressions = [
        "int(text.password) > 0",
        "text[text.url] == ''",
        "text.password.matches(text.pattern)",
        "text.password + 1 == ''",
        "-text.password == ''",
        "text.nothing == object.data.password",
        "duration(text.password) > duration('1s')",
        "object.data[text.password] == 'x'",
        "quantity(text.password).isGreaterThan(quantity('1'))",
        "object.data.password",
        "[1][text.password] == 1",
        "text.password < 1",
        "url(text.password).getHost() == 'x'",
        "text.url.format([1]) == 'x'",
    ];
    let validations: Vec<Value> =
        expressions.iter().map(|expression| json!({"expression": expression, "message": "m"})).collect();
    let policy = json!({"match": {"kinds": ["Secret"]}, "data": data, "validations": validations});
    let app = Cluster::new().policy("secrets", policy).app();
    let message = app.send("/validate", "secret-create-bad").await.refused(403, "Forbidden");
    let named = message.matches("policy secrets").count();
    assert!(named > 4 && message.ends_with(&format!(" | and {} more", 23 - named)), "{message}");
    assert!(message.len() <= 1024, "{message}");
    app.send("/validate", "secret-update").await.refused(403, "Forbidden");
    let answer = app.send("/validate", "secret-not-base64").await;
    assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{}", answer.text);

    let url = json!({"name": "url", "keys": ["url"], "format": "url", "pattern": "https://.*"});
    let policy = json!({"match": {"kinds": ["Secret"]}, "data": [url], "validations": [{"expression": "int(text.url) > 1"}]});
    let app = Cluster::new().policy("address", policy).app();
    let mut review = recorded("secret-create");
    review["request"]["object"]["stringData"] = json!({"url": "swordfish is no address"});
    let message = app.send_value("/validate/policies", &review).await.refused(403, "Forbidden");
    assert!(message.contains("rule url: Secret shop/db, key url: "), "{message}");
}

/// Documents, keys and logins: what is wrong is told by place and by the policy's own words.
#[tokio::test]
async fn nothing_of_a_secrets_documents_is_in_an_answer() {
    let open = json!({"type": "object", "properties": {"port": {"type": "integer"}}, "additionalProperties": {"enum": [1]}});
    let rule = |name: &str, format: &str| json!({"name": name, "keys": [name], "format": format});
    let schema =
        |name: &str, format: &str| json!({"name": name, "keys": [name], "format": format, "schema": open});
    let policy = json!({"match": {"kinds": ["Secret"]}, "data": [
        rule("a.toml", "toml"), rule("b.properties", "properties"), rule("c.key", "pem-key"),
        rule(".dockerconfigjson", "dockerconfigjson"),
        schema("d.json", "json"), schema("e.yaml", "yaml"), schema("f.toml", "toml"), schema("g.json", "json")
    ]});
    let app = Cluster::new().policy("secrets", policy).app();
    for (key, value, says) in [
        ("a.toml", "a = 'x'\npassword = hunter2-swordfish", "line 2 column 12: is not valid TOML"),
        (
            "a.toml",
            "'swordfish' = 1\n'swordfish' = 2",
            "line 2 column 1: is not valid TOML, has a duplicate key",
        ),
        ("b.properties", "a=\\u00swordfish", "line 1 column 3: has \\u without four"),
        ("b.properties", "swordfish=1\nswordfish=2", "line 2 column 1: has a duplicate key"),
        (
            "c.key",
            "-----BEGIN PRIVATE KEY-----\nswordfish\n-----END PRIVATE KEY-----",
            "line 1 column 1: has a damaged PEM section",
        ),
        (
            ".dockerconfigjson",
            r#"{"auths":{"swordfish.io":{"auth":"swordfish"}}}"#,
            "line 1 column 26: has a registry entry whose auth",
        ),
        (
            ".dockerconfigjson",
            r#"{"auths":{"swordfish.io":{"username":"swordfish"}}}"#,
            "without auth and without username and password",
        ),
        ("d.json", r#"{"port": "swordfish"}"#, r#"at /port (type); the schema requires type: "integer""#),
        ("e.yaml", "swordfish: 2", "at /* (enum); the schema requires enum: [1]"),
        (
            "e.yaml",
            "port: 1\n---\nport: swordfish",
            "in document 2, does not satisfy the schema at /port (type)",
        ),
        ("f.toml", "port = 'swordfish'", "at /port (type)"),
        ("g.json", r#"{"swordfish": 1, "swordfish": 1}"#, "has a duplicate key"),
    ] {
        let mut review = recorded("secret-create");
        review["request"]["object"]["data"] = json!({});
        review["request"]["object"]["stringData"] = json!({key: value});
        let message = app.send_value("/validate/policies", &review).await.refused(403, "Forbidden");
        assert!(message.contains(&format!("rule {key}: Secret shop/db, key {key}")), "{message}");
        assert!(message.contains(says), "{key}: {says}\n{message}");
    }
}

/// Time passes, the certificate stays: what refused it when it was written warns when something else is.
#[tokio::test]
async fn a_certificate_that_ran_out_in_the_meantime_warns() {
    let (now, day) = (std::time::SystemTime::now(), std::time::Duration::from_secs(86_400));
    let authority = copyrator_certs::Authority::issue("test", now, 10 * day).unwrap();
    let leaf = authority.issue_leaf(&["a.example.com".to_owned()], &[], now, day).unwrap();
    let app = |least: &str| {
        let rule = json!({"name": "tls", "format": "tls-pair", "minRemaining": least});
        Cluster::new().policy("p", json!({"match": {"kinds": ["Secret"]}, "data": [rule]})).app()
    };
    let pair = json!({"tls.crt": leaf.chain_pem, "tls.key": leaf.key_pem.expose()});
    let object = |other: &str| {
        let metadata = json!({"name": "db", "namespace": "shop"});
        let mut data = pair.clone();
        data["other"] = json!(other);
        json!({"metadata": metadata, "stringData": data})
    };
    let mut review = recorded("secret-update");
    review["request"]["object"] = object("2");
    review["request"]["oldObject"] = object("1");
    assert!(app("1h").send_value("/validate/policies", &review).await.warnings().is_empty());
    let answer = app("168h").send_value("/validate/policies", &review).await;
    assert_eq!((answer.allowed()["allowed"].clone(), answer.warnings().len()), (json!(true), 1));
    review["request"]["oldObject"]["stringData"] = json!({});
    let message = app("168h").send_value("/validate/policies", &review).await.refused(403, "Forbidden");
    assert!(message.contains("key tls.crt, line 1 column 1: has a certificate (number 1 of "), "{message}");
    assert!(message.contains("expires sooner than the required 168h; renew it"), "{message}");
}

#[tokio::test]
async fn bombs_and_catastrophes_are_refused_in_time() {
    let policy = json!({
        "match": {"kinds": ["ConfigMap"]},
        "data": [{"name": "y", "keys": ["*.yaml"], "format": "yaml"}, {"name": "j", "keys": ["*.json"], "format": "json"},
                 {"name": "t", "keys": ["*.toml"], "format": "toml"}, {"name": "k", "keys": ["*.pem"], "format": "pem-key"},
                 {"name": "s", "keys": ["*.doc"], "format": "json", "schema": {"items": {"anyOf": vec![json!({"pattern": "(a|b)*a(a|b){200}"}); 100]}}},
                 {"name": "r", "keys": ["*.re"], "format": "regex"}, {"name": "p", "keys": ["*.txt"], "pattern": "(a|aa)+$"}]
    });
    let app = Cluster::new().policy("p", policy).app();
    let mut laughs = String::from("a0: &a0 [lol,lol,lol,lol,lol,lol,lol,lol]\n");
    for level in 1..20 {
        laughs += &format!("a{level}: &a{level} [{}]\n", vec![format!("*a{}", level - 1); 8].join(","));
    }
    let values = [
        ("a.yaml", laughs),
        ("b.yaml", "[".repeat(200_000)),
        ("c.yaml", "a: &a [*a]\n".into()),
        ("d.json", "[".repeat(200_000)),
        ("e.re", "((((a{100}){100}){100}){100})".into()),
        ("f.txt", "a".repeat(500_000) + "b"),
        ("g.yaml", "{a: ".repeat(50_000)),
        ("h.toml", format!("a{} = 1", ".a".repeat(100_000))),
        ("i.toml", "a = ".to_owned() + &"[".repeat(200_000)),
        ("j.pem", "-----BEGIN PRIVATE KEY-----\n".repeat(30_000)),
        ("k.doc", format!("[{}1]", "\"aaaaaaaaaaaaaaaaaaaaaaaa\",".repeat(30_000))),
        ("l.doc", format!("[{}1]", "{\"\":1},".repeat(100_000))),
    ];
    for (key, value) in values {
        let mut review = recorded("configmap-create");
        review["request"]["object"]["data"] = json!({key: value});
        let message =
            app.send_value("/validate/policies?timeout=30s", &review).await.refused(403, "Forbidden");
        assert!(message.contains(&format!("key {key}")) && message.len() <= 1024, "{message}");
    }
}

/// Bad content written without the label, then the label alone: the second write brings the violation.
#[tokio::test]
async fn what_the_policy_did_not_speak_of_before_does_not_stand_already() {
    let policy = json!({
        "match": {"kinds": ["ConfigMap"], "objectSelector": {"matchLabels": {"checked": "yes"}}},
        "data": [{"name": "url", "keys": ["url"], "format": "url"}],
        "validations": [{"expression": "text.all(key, text[key] != 'nonsense')", "message": "no nonsense"}]
    });
    let app = Cluster::new().policy("p", policy).app();
    let written = |before: Value, after: Value| {
        let mut review = recorded("configmap-update");
        for (object, labels) in [("oldObject", before), ("object", after)] {
            review["request"][object]["data"] = json!({"url": "nonsense", "other": "1"});
            review["request"][object]["metadata"]["labels"] = labels;
        }
        review
    };
    let (plain, checked) = (json!({"a": "1"}), json!({"checked": "yes"}));
    let message = app.send_value("/validate/policies", &written(plain.clone(), checked.clone())).await;
    let message = message.refused(403, "Forbidden");
    assert!(message.contains("rule url") && message.contains("no nonsense"), "{message}");
    // It warns of what it spoke of before, and lets go what it speaks of no more.
    let more = json!({"checked": "yes", "more": "1"});
    for (before, after) in [(checked.clone(), more), (checked, plain)] {
        let answer = app.send_value("/validate/policies", &written(before, after)).await;
        assert_eq!((answer.allowed()["allowed"].clone(), answer.warnings().len()), (json!(true), 2));
    }
}

/// An expression over everything is about what it mentions, and a label that it does not mention is none of that.
#[tokio::test]
async fn an_expression_stands_already_where_what_it_mentions_is_left_alone() {
    let verdict = |expression: &'static str, object: Value| async move {
        let policy = json!({"match": {"kinds": ["ConfigMap"]}, "validations": [{"expression": expression}]});
        let app = Cluster::new().policy("p", policy).app();
        let mut review = recorded("configmap-update");
        let old = json!({"name": "web", "namespace": "shop", "labels": {"app": "web", "tier": "1"}});
        review["request"]["oldObject"] = json!({"metadata": old, "data": {"a": "1", "b": "2"}});
        review["request"]["object"] = object;
        app.send_value("/validate/policies", &review).await.response()["allowed"] == true
    };
    let meta =
        |tier: &str| json!({"name": "web", "namespace": "shop", "labels": {"app": "web", "tier": tier}});
    let relabelled = json!({"metadata": meta("2"), "data": {"a": "1", "b": "2"}});
    let rewritten = json!({"metadata": meta("1"), "data": {"a": "1", "b": "3"}});
    for (expression, by_label, by_data) in [
        ("text.all(key, text[key] == '9')", true, false),
        ("object.data.a == '9'", true, true),
        ("object.data.b == '9'", true, false),
        ("object.metadata.labels.app == 'shop'", true, true),
        ("object.metadata.labels.tier == '9'", false, true),
        ("object.metadata.labels.size() == 9", false, true),
        ("object.metadata.name == 'shop'", true, true),
        ("object.all(field, field == 'spec')", false, false),
        // What it says of the object as it is counts, too: here it was satisfied.
        ("object.data.?b.orValue('') == '2'", true, false),
    ] {
        assert_eq!(verdict(expression, relabelled.clone()).await, by_label, "{expression}, another label");
        assert_eq!(verdict(expression, rewritten.clone()).await, by_data, "{expression}, another value");
    }
}

/// Whatever hook asks: an earlier version had hooks for one policy each, and during an upgrade both versions answer.
#[tokio::test]
async fn every_policy_judges_whatever_hook_asks() {
    let rule = |name: &str, failure: &str| {
        json!({
            "match": {"kinds": ["ConfigMap"]}, "failurePolicy": failure,
            "data": [{"name": name, "keys": ["url"], "format": "url"}],
        })
    };
    let app =
        Cluster::new().policy("first", rule("one", "Fail")).policy("second", rule("two", "Ignore")).app();
    for path in ["", "/first", "/second", "/gone.a-1"] {
        let path = format!("/validate/policies{path}?timeout=2s");
        let message = app.send(&path, "configmap-create-bad").await.refused(403, "Forbidden");
        assert!(message.contains("rule one:") && message.contains("rule two:"), "{path}: {message}");
    }
    for path in ["/", "/Upper", "/a/b", "/a%2Fb", "/-a", "/a.", "/.."] {
        let answer = app.send(&format!("/validate/policies{path}"), "configmap-create-bad").await;
        assert_eq!(answer.status, StatusCode::NOT_FOUND, "{path}");
    }
}

/// Two nested loops over a value that has nothing but separators took hours, and everybody waited.
#[tokio::test]
async fn a_value_made_to_be_costly_is_refused_and_holds_up_nobody() {
    let policy = json!({
        "match": {"kinds": ["ConfigMap"], "names": ["costly"]},
        "validations": [{"expression": "text.h.split(',').all(a, text.h.split(',').exists_one(b, a == b))"}]
    });
    let light = json!({"match": {"kinds": ["ConfigMap"]},
        "data": [{"name": "frozen", "keys": ["schema-version"], "format": "boolean"}]});
    let app = Cluster::new().policy("quadratic", policy).policy("light", light).app();
    let mut review = recorded("configmap-create");
    review["request"]["object"]["metadata"]["name"] = json!("costly");
    let costly = async |value: String| {
        let mut review = review.clone();
        let size = value.len() + 1;
        review["request"]["object"]["data"] = json!({ "h": value, "url": "https://example.com" });
        let answer = app.send_value("/validate/policies?timeout=30s", &review).await;
        (answer.refused(403, "Forbidden"), size)
    };
    let expected = |size: usize| {
        let size = size + "url".len() + "https://example.com".len();
        format!(
            "policy quadratic, rule validations[0]: ConfigMap shop/costly: the expression costs too much on {size} \
             bytes of data; shorten the values"
        )
    };
    let (message, size) = costly(",".repeat(1 << 20)).await;
    assert!(message.contains(&expected(size)), "{message}");

    // Once the turns are taken it cannot end before it is let.
    let turns = app.heavy.available_permits() as u32;
    assert!(turns > 0);
    let turns = app.heavy.acquire_many(turns).await.unwrap();
    let numbers: Vec<String> = (0..5_000).map(|number| number.to_string()).collect();
    let slow = async { costly(numbers.join(",")).await };
    let quick = async {
        tokio::task::yield_now().await;
        // Neither who reads the world waits, nor who writes it.
        drop(app.world.write().unwrap());
        app.send("/validate/policies", "configmap-update").await.allowed();
        drop(app.world.write().unwrap());
        assert_eq!(app.metrics.in_flight.get(), 1, "the costly one is not through");
        drop(turns);
    };
    let ((message, size), ()) = tokio::join!(slow, quick);
    assert!(message.contains(&expected(size)), "{message}");
}

/// Judging many documents at once would take more memory than there is; who has given up is not judged after all.
#[tokio::test]
async fn what_is_unpacked_waits_for_its_turn_and_not_beyond_the_deadline() {
    let unpacked = |rule: Value| json!({"match": {"kinds": ["ConfigMap"]}, "data": [rule]});
    let (list, lines) = (format!("[{}1]", "1,".repeat(20_000)), "- a\n".repeat(10_000));
    let mut review = recorded("configmap-create");
    review["request"]["object"]["data"] = json!({"x.json": list, "x.yaml": lines, "url": "https://a"});
    for (rule, patience, status) in [
        (json!({"name": "d", "keys": ["x.json"], "format": "json", "schema": {}}), "200ms", 504),
        (json!({"name": "d", "keys": ["x.yaml"], "format": "yaml"}), "200ms", 504),
        (json!({"name": "d", "keys": ["url"], "format": "url"}), "30s", 200),
    ] {
        let app = Cluster::new().policy("unpacked", unpacked(rule.clone())).app();
        let turns = app.heavy.acquire_many(app.heavy.available_permits() as u32).await.unwrap();
        let answer = app.send_value(&format!("/validate/policies?timeout={patience}"), &review).await;
        assert_eq!(answer.status, status, "{rule}");
        drop(turns);
        let passed = app.heavy.acquire().await;
        assert!(passed.is_ok());
    }
}
