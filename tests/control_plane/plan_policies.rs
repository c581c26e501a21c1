//! A plan foresees what ConfigPolicies refuse of copies.

use serde_json::{Value, json};

use crate::bed::objects::config_map;
use crate::bed::{Story, eventually, peaceful, same};
use crate::plan::{Said, account, run};

fn plan(story: &Story<'_>, files: &[&Value]) -> Said {
    let text: Vec<String> = files.iter().map(|file| file.to_string()).collect();
    run(story, None, &["plan", "-n", &story.home, "-o", "json", "-f", "-"], &text.join("\n---\n"))
}

/// What is to become of the copy in this namespace: action, reason and message.
fn course(said: &Said, namespace: &str) -> (String, String, String) {
    let plan = said.json();
    let copy = plan["copies"].as_array().into_iter().flatten().find(|copy| copy["namespace"] == namespace);
    let copy = copy.unwrap_or_else(|| panic!("no copy in {namespace}: {plan}"));
    let text = |field: &str| copy[field].as_str().unwrap_or_default().to_owned();
    (text("action"), text("reason"), text("message"))
}

#[test]
fn a_plan_foresees_what_a_policy_refuses_as_the_status_then_says_it() {
    let story = Story::new(peaceful(), "plan-policies");
    let (prod, free, admin) = (story.target("prod"), story.bystander("free"), story.admin());
    let spec = json!({ "match": {}, "data": [{ "name": "address", "keys": ["url"], "format": "url" }] });
    admin.create(&story.policy(&["ConfigMap"], spec)).ok();
    eventually("the policy is in force", || {
        let answer = admin.try_create(&config_map(&prod, "app", [("url", "nonsense")]));
        if answer.code == 403 { Ok(()) } else { Err(answer.body.to_string()) }
    });
    let (bad, good) = ([("url", "nonsense")], [("url", "https://a.test")]);
    admin.create(&config_map(&story.home, "app", bad)).ok();
    let mut rule = story.rule("ConfigMap", &["app"]);
    rule["spec"]["targets"] = json!([{ "names": [prod, free] }]);

    let (action, reason, foreseen) = course(&plan(&story, &[&rule]), &prod);
    assert_eq!((&*action, &*reason), ("refuse", "RefusedByPolicy"), "{foreseen}");
    assert!(foreseen.contains("policy plan-policies") && !foreseen.contains("nonsense"), "{foreseen}");
    assert_eq!(course(&plan(&story, &[&rule]), &free).0, "create");
    // The content of a file counts, which is not in the cluster yet.
    let fixed = plan(&story, &[&rule, &config_map(&story.home, "app", good)]);
    assert_eq!(course(&fixed, &prod).0, "create", "{}", fixed.text);

    admin.create(&rule).ok();
    let told = eventually("the rule says that a policy refuses its copy", || {
        let rule = admin.get("CopyratorRule", &story.home, "rule").ok_or("it is gone")?;
        let problem = rule["status"]["problems"][0].clone();
        if problem["reason"] == "RefusedByPolicy" { Ok(problem) } else { Err(rule["status"].to_string()) }
    });
    assert!(told["message"].as_str().is_some_and(|it| it.ends_with(&*foreseen)), "{told} and not {foreseen}");

    // A change of a copy that is there is judged beside what is there.
    admin.apply(&config_map(&story.home, "app", good)).ok();
    for place in [&prod, &free] {
        story.until("ConfigMap", place, "app", good);
    }
    let changed = plan(&story, &[&config_map(&story.home, "app", bad)]);
    assert_eq!(course(&changed, &prod).1, "RefusedByPolicy", "{}", changed.text);
    assert_eq!(course(&changed, &free).0, "change", "{}", changed.text);

    // A policy of a file counts as those in the cluster do, for copies and for objects of files.
    let mut narrow = story.policy(
        &["ConfigMap"],
        json!({
            "match": {}, "data": [{ "name": "address", "keys": ["url"], "pattern": "^https://b" }],
        }),
    );
    let named = format!("{}-narrow", narrow["metadata"]["name"].as_str().unwrap_or_default());
    narrow["metadata"]["name"] = named.clone().into();
    let other = [("url", "https://other.test")];
    let foreseen = plan(&story, &[&narrow, &config_map(&story.home, "app", other)]);
    assert_eq!(course(&foreseen, &prod).1, "RefusedByPolicy", "{}", foreseen.text);
    let judged = plan(&story, &[&narrow, &config_map(&prod, "other", other)]).json();
    assert_eq!(judged["policies"][0]["action"], "create", "{judged}");
    assert_eq!(judged["files"][0]["reason"], "RefusedByPolicy", "{judged}");
    assert!(judged["files"][0]["message"].as_str().is_some_and(|said| said.contains(&*named)), "{judged}");
    narrow["spec"]["data"][0]["pattern"] = "(".into();
    let declined = plan(&story, &[&narrow]).json();
    assert_eq!(declined["policies"][0]["action"], "refuse", "{declined}");
    assert!(admin.get("ConfigPolicy", "", &named).is_none(), "nothing is written");

    // A user who may not read policies is told that they are not foreseen, where a copy would be written.
    let rights = json!([
        { "apiGroups": [""], "resources": ["namespaces", "configmaps", "secrets"], "verbs": ["get", "list"] },
        { "apiGroups": ["copyrator.dev"], "resources": ["copyratorrules", "configmonitors"], "verbs": ["get", "list"] },
        { "apiGroups": ["apps"], "resources": ["*"], "verbs": ["list"] },
    ]);
    let planner = account(&story, "planner", rights);
    let file = config_map(&story.home, "app", bad).to_string();
    let unread = "the plan does not check these copies against ConfigPolicies: ";
    for (arguments, input, is_said) in [
        (&["plan", "-n", &*story.home, "-f", "-"][..], &*file, true),
        (&["plan", "-n", &*story.home][..], "", false),
    ] {
        // What other stories write in this cluster does not concern this namespace.
        eventually("what is not foreseen is said where a copy would be written, and nowhere else", || {
            let said = run(&story, Some(&planner), arguments, input);
            same(said.notes.contains(unread), is_said).map_err(|error| format!("{error}: {}", said.notes))
        });
    }
}
