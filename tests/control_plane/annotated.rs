//! Sources that say by annotations of their own where they are to be copied: no rule, no CRD, the same authority.

use serde_json::{Value, json};

use crate::bed::objects::{annotation, binding, config_map, data, namespace, secret, version};
use crate::bed::{Person, Story, eventually, peaceful, private, rough, same};

const COPY_TO: &str = "copyrator.dev/copy-to";
const SELECTOR: &str = "copyrator.dev/copy-to-selector";
const AUTHOR: &str = "copyrator.dev/author";
const AUTHORIZED: &str = "copyrator.dev/authorized";

fn annotated(mut object: Value, annotations: Value) -> Value {
    object["metadata"]["annotations"] = annotations;
    object["metadata"]["labels"]["copyrator.dev/declares"] = "true".into();
    object
}

/// An object by whose label the reconciler looks at the ConfigMaps of its namespace, also at those without.
fn seen(namespace: &str) -> Value {
    let mut object = config_map(namespace, "seen", [("k", "v")]);
    object["metadata"]["labels"] = json!({ "copyrator.dev/declares": "true" });
    object
}

#[test]
fn an_annotated_source_is_copied_where_it_says() {
    let story = Story::new(peaceful(), "by-annotation");
    let (named, blue, other) = (story.bystander("named"), story.target("blue"), story.bystander("other"));
    let asks =
        json!({ COPY_TO: format!("{named},{}", story.called("team-*")), SELECTOR: "story=by-annotation" });
    story.admin().create(&annotated(secret(&story.home, "app", [("k", "1")]), asks)).ok();
    for target in [&named, &blue] {
        let copy = story.until("Secret", target, "app", [("k", "1")]);
        assert_eq!(annotation(&copy, "copyrator.dev/rule"), Some("by-annotation-home/secret:app"));
        assert_eq!(annotation(&copy, COPY_TO), None, "a copy asks for no copies");
    }
    let team = story.bystander("team-a");
    story.until("Secret", &team, "app", [("k", "1")]);
    let again = json!({ "stringData": { "k": "2" } });
    story.admin().merge("Secret", &story.home, "app", &again).ok();
    for target in [&named, &blue, &team] {
        story.until("Secret", target, "app", [("k", "2")]);
    }
    assert!(story.admin().get("Secret", &other, "app").is_none());

    // There is no status: what was granted stands on the source, and Events tell.
    let source = eventually("the grant stands on the source", || {
        let source = story.admin().get("Secret", &story.home, "app").ok_or("it is gone")?;
        annotation(&source, AUTHORIZED)
            .is_some()
            .then_some(())
            .ok_or_else(|| source["metadata"].to_string())?;
        Ok(source)
    });
    assert!(annotation(&source, AUTHOR).is_some());
    until_told(&story, "app", "Allowed");

    // Narrowed, and then taken back: what nobody wants any more goes the way of every copy.
    let narrowed = json!({ "metadata": { "annotations": { SELECTOR: null } } });
    story.admin().merge("Secret", &story.home, "app", &narrowed).ok();
    story.until_leaving("Secret", &blue, "app");
    let none = json!({ "metadata": { "annotations": { COPY_TO: null } } });
    let after = story.admin().merge("Secret", &story.home, "app", &none).ok();
    for target in [&named, &team] {
        story.until_leaving("Secret", target, "app");
    }
    assert_eq!(annotation(&after, AUTHOR), None, "who asked is of no interest when nobody asks");
    // Wanted again, the mark goes and the copy stays what it was.
    let back = json!({ "metadata": { "annotations": { COPY_TO: named } } });
    story.admin().merge("Secret", &story.home, "app", &back).ok();
    eventually("the mark goes", || {
        let copy = story.admin().get("Secret", &named, "app").ok_or("it is gone")?;
        let mark = annotation(&copy, "copyrator.dev/remove-after");
        mark.map_or(Ok(()), |mark| Err(mark.to_owned()))
    });
}

/// There is no status to read: the command works it out.
#[test]
fn status_and_plan_know_sources_that_ask_by_annotation() {
    let story = Story::new(peaceful(), "annotated-status");
    let (target, blocked) = (story.bystander("a"), story.bystander("b"));
    let asks = json!({ COPY_TO: format!("{target},{blocked}") });
    story.admin().create(&config_map(&blocked, "app", [("k", "foreign")])).ok();
    story.admin().create(&annotated(config_map(&story.home, "app", [("k", "1")]), asks)).ok();
    story.until("ConfigMap", &target, "app", [("k", "1")]);
    until_told(&story, "app", "Conflict");
    let run = |arguments: &[&str]| {
        let output = story.bed.testbed.copyrator(arguments).output().expect("the command runs");
        (output.status.code(), String::from_utf8(output.stdout).expect("text"))
    };
    let (code, text) = run(&["status", "-n", &story.home]);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("ConfigMap") && text.contains("1 of 2 copies (declared by annotation)"), "{text}");
    let (_, json) = run(&["status", "-n", &story.home, "-o", "json"]);
    let rows: Value = serde_json::from_str(&json).expect("JSON");
    let rows = &rows["items"];
    assert_eq!(rows[0]["copies"].as_array().map(Vec::len), Some(2), "{rows}");
    let (code, text) = run(&["plan", "-n", &story.home]);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("ConfigMap annotated-status-home/app, by annotation"), "{text}");
}

/// A stamp is worth something only where the API server guards it: whatever stood on an object while nobody did is not
/// believed.
#[test]
fn a_stamp_that_nothing_guards_is_not_believed() {
    let bed = private("unguarded");
    // Else nothing would be shown by what passes now.
    bed.until_stamped();
    let story = Story::new(&bed, "unguarded");
    let (mine, other) = (story.target("mine"), story.target("other"));
    bed.admin.create(&binding(&story.home, "bob", "edit")).ok();
    for (kind, name) in [
        ("ValidatingAdmissionPolicyBinding", "copyrator-annotations-honest"),
        ("MutatingAdmissionPolicyBinding", "copyrator-annotations"),
    ] {
        bed.admin.delete(kind, "", name).ok();
    }
    let forged =
        json!({ COPY_TO: other, AUTHOR: "admin", "copyrator.dev/author-groups": "[\"system:masters\"]" });
    eventually("bob writes in another's name while nothing guards it", || {
        bed.admin.delete("ConfigMap", &story.home, "forged");
        let answer =
            bed.bob.create(&annotated(config_map(&story.home, "forged", [("k", "v")]), forged.clone()));
        match annotation(&answer.body, AUTHOR) {
            Some("admin") => Ok(()),
            _ => Err(answer.body.to_string()),
        }
    });
    // Without a webhook it is ready only until it leads: that is not waited for.
    let reconciler = bed.reconciler(0);
    until_told_of(&story, "forged", "IdentityRequired", "copyrator-annotations-honest");
    story.marker("then");
    assert!(bed.admin.get("ConfigMap", &other, "forged").is_none(), "a forged stamp was believed");
    assert!(bed.admin.get("ConfigMap", &mine, "forged").is_none());
    reconciler.kill();
}

/// reflector#186, #452, replicator#364: a user who could write a Secret in one namespace wrote into every namespace.
#[test]
fn an_annotation_takes_the_rights_that_a_rule_takes() {
    let story = Story::new(peaceful(), "annotated-rights");
    let (mine, other) = (story.target("mine"), story.target("other"));
    for (place, user) in [(&story.home, "alice"), (&story.home, "bob"), (&mine, "bob")] {
        story.admin().create(&binding(place, user, "edit")).ok();
    }
    let app = |to: &str| annotated(config_map(&story.home, "app", [("k", "v")]), json!({ COPY_TO: to }));
    let until_refused = |person: &Person, to: &str| {
        eventually("it is refused to somebody who may write ConfigMaps, but not this one", || {
            let refusal = person.create(&app(to)).refused();
            // Right after its creation RBAC may not have heard of the binding.
            if refusal.contains("cannot create resource") { Err(refusal) } else { Ok(refusal) }
        })
    };
    let refusal = until_refused(&story.bed.alice, &mine);
    for part in ["user \"alice\" may not create, delete or patch configmaps", &mine, "kubectl create role"] {
        assert!(refusal.contains(part), "{part:?} is missing in: {refusal}");
    }
    let refusal = until_refused(&story.bed.bob, "annotated-*");
    assert!(refusal.contains("in all namespaces"), "{refusal}");
    let refusal = story.bed.bob.create(&app("annotated-[")).refused();
    assert!(
        refusal.contains("copyrator.dev/copy-to[0]") && refusal.contains("is not a valid glob"),
        "{refusal}"
    );

    eventually("bob's is accepted", || match story.bed.bob.create(&app(&mine)) {
        answer if answer.code < 300 => Ok(()),
        answer => Err(answer.refused()),
    });
    story.until("ConfigMap", &mine, "app", [("k", "v")]);
    let more = json!({ "metadata": { "annotations": { COPY_TO: format!("{mine},{other}") } } });
    let refusal = story.bed.bob.merge("ConfigMap", &story.home, "app", &more).refused();
    assert!(refusal.contains(&other), "{refusal}");
    // What does not ask for anything new is nobody's business.
    let harmless = json!({ "data": { "k": "w" }, "metadata": { "labels": { "a": "b" } } });
    story.bed.alice.merge("ConfigMap", &story.home, "app", &harmless).ok();
    story.until("ConfigMap", &mine, "app", [("k", "w")]);
}

#[test]
fn nobody_asks_for_copies_in_anothers_name() {
    let story = Story::new(peaceful(), "annotated-names");
    let mine = story.target("mine");
    for place in [&story.home, &mine] {
        story.admin().create(&binding(place, "bob", "edit")).ok();
    }
    let forged =
        json!({ COPY_TO: mine, AUTHOR: "admin", "copyrator.dev/author-groups": "[\"system:masters\"]" });
    let source = eventually("bob writes a ConfigMap", || {
        let answer =
            story.bed.bob.create(&annotated(config_map(&story.home, "app", [("k", "v")]), forged.clone()));
        if answer.code < 300 { Ok(answer.body) } else { Err(answer.refused()) }
    });
    assert_eq!(annotation(&source, AUTHOR), Some("bob"));
    let groups = annotation(&source, "copyrator.dev/author-groups").unwrap();
    assert!(!groups.contains("masters"), "{groups}");

    let later = json!({ "metadata": { "annotations": { AUTHOR: "admin" } } });
    let after = story.bed.bob.merge("ConfigMap", &story.home, "app", &later).ok();
    assert_eq!(annotation(&after, AUTHOR), Some("bob"));
    // Prepared in advance, on an object that asks for nothing yet.
    let prepared = annotated(config_map(&story.home, "other", [("k", "v")]), json!({ AUTHOR: "admin" }));
    let prepared = story.bed.bob.create(&prepared).ok();
    assert_eq!(annotation(&prepared, AUTHOR), None);
    // Somebody else's word is somebody else's stamp.
    let again = json!({ "metadata": { "annotations": { COPY_TO: format!("{mine},{mine}") } } });
    let after = story.admin().merge("ConfigMap", &story.home, "app", &again).ok();
    assert_ne!(annotation(&after, AUTHOR), Some("bob"));
}

/// Annotations count beside the label alone: the policies that guard stamps see no other object. So neither a stamp prepared without it,
/// nor one forged while it was off, nor any change in the write that takes it off is worth anything.
#[test]
fn a_stamp_is_worth_nothing_however_the_label_comes_and_goes() {
    let story = Story::new(peaceful(), "undeclared");
    let (mine, other) = (story.target("mine"), story.target("other"));
    for place in [&story.home, &mine] {
        story.admin().create(&binding(place, "bob", "edit")).ok();
    }
    let bob = &story.bed.bob;
    let groups = "copyrator.dev/author-groups";
    let forged = json!({ COPY_TO: other, AUTHOR: "admin", groups: "[\"system:masters\"]" });
    let undeclared = |name: &str| {
        let mut object = config_map(&story.home, name, [("k", "v")]);
        object["metadata"]["annotations"] = forged.clone();
        object
    };
    let patched = |name: &str, metadata: Value| {
        bob.merge("ConfigMap", &story.home, name, &json!({ "metadata": metadata }))
    };
    let label = |value: Value| json!({ "labels": { "copyrator.dev/declares": value } });

    story.admin().create(&seen(&story.home)).ok();
    // Prepared without the label nobody minds it, and it counts for nothing: an Event says how it would.
    eventually("bob writes a ConfigMap", || match bob.create(&undeclared("prepared")) {
        answer if answer.code < 300 => Ok(()),
        answer => Err(answer.refused()),
    });
    let told = until_told(&story, "prepared", "LabelMissing");
    assert!(
        told.contains("kubectl -n undeclared-home label configmap prepared copyrator.dev/declares=true"),
        "{told}"
    );
    // With the label it is bob's word, whatever it was before, and bob may not.
    for before in [json!("yes"), json!(null)] {
        patched("prepared", label(before)).ok();
        let refusal = patched("prepared", label(json!("true"))).refused();
        assert!(refusal.contains("user \"bob\" may not") && refusal.contains(&other), "{refusal}");
    }
    let own = json!({ "labels": { "copyrator.dev/declares": "true" }, "annotations": { COPY_TO: mine } });
    let stored = patched("prepared", own).ok();
    assert_eq!(annotation(&stored, AUTHOR), Some("bob"));
    assert!(!annotation(&stored, groups).unwrap_or_default().contains("masters"));
    story.until("ConfigMap", &mine, "prepared", [("k", "v")]);

    // An administrator's word, which bob would turn to other ends.
    let declared = annotated(config_map(&story.home, "granted", [("k", "1")]), json!({ COPY_TO: mine }));
    let stamp = |object: &Value| annotation(object, AUTHOR).map(str::to_owned);
    let admin = stamp(&story.admin().create(&declared).ok());
    story.until("ConfigMap", &mine, "granted", [("k", "1")]);
    // In the write that takes the label off, the stamp is bob's as soon as bob says something else.
    let off = json!({ "labels": { "copyrator.dev/declares": null }, "annotations": { COPY_TO: other } });
    assert_eq!(stamp(&patched("granted", off).ok()).as_deref(), Some("bob"));
    // Without it bob forges any stamp, and what was copied stays as it was.
    patched("granted", json!({ "annotations": { AUTHOR: admin, groups: "[\"system:masters\"]" } })).ok();
    bob.merge("ConfigMap", &story.home, "granted", &json!({ "data": { "k": "2" } })).ok();
    until_told(&story, "granted", "LabelMissing");
    story.marker("then");
    story.until("ConfigMap", &mine, "granted", [("k", "1")]);
    let copy = story.admin().get("ConfigMap", &mine, "granted").expect("it stays");
    assert_eq!(annotation(&copy, "copyrator.dev/remove-after"), None);
    // Put back, it is bob's word again, and bob may not.
    let refusal = patched("granted", label(json!("true"))).refused();
    assert!(refusal.contains("user \"bob\" may not") && refusal.contains(&other), "{refusal}");
    let back = patched(
        "granted",
        json!({ "labels": { "copyrator.dev/declares": "true" }, "annotations": { COPY_TO: mine } }),
    );
    assert_eq!(stamp(&back.ok()).as_deref(), Some("bob"));
    story.until("ConfigMap", &mine, "granted", [("k", "2")]);
    assert!(story.admin().get("ConfigMap", &other, "granted").is_none());
}

/// A GitOps controller has rights everywhere; a user who can commit to its repository has not.
#[test]
fn a_foreign_account_that_annotates_is_told_by_event_why_nothing_happens() {
    let story = Story::new(peaceful(), "annotated-gitops");
    let (target, flux) = (story.target("a"), story.bystander("flux"));
    let account = json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "namespace": flux, "name": "applier" } });
    story.admin().create(&account).ok();
    let grant = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": { "name": "annotated-gitops" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin" },
        "subjects": [{ "kind": "ServiceAccount", "namespace": flux, "name": "applier" }],
    });
    story.admin().create(&grant).ok();
    let applier = story.bed.account(&flux, "applier");
    let source = annotated(config_map(&story.home, "app", [("k", "v")]), json!({ COPY_TO: target }));
    let warnings = eventually("it is accepted", || match applier.create(&source) {
        answer if answer.code < 300 => Ok(answer.warnings),
        answer => Err(answer.refused()),
    });
    assert!(warnings.iter().any(|warning| warning.contains("no effect")), "{warnings:?}");
    // Of a cluster that has just been installed something else is told first: its policies are not in force at once.
    let told = until_told_of(&story, "app", "IdentityRequired", "--trusted-writers");
    assert!(told.contains("CopyratorRule"), "{told}");
    story.marker("then");
    assert!(story.admin().get("ConfigMap", &target, "app").is_none());
}

/// What was written while the hooks were off is no stronger; what was granted stays granted, also when its author has
/// left and we have started again; and a start with everything in place writes nothing.
#[test]
fn a_grant_outlives_its_author_and_our_own_restart() {
    let (bed, _turn) = rough();
    // Nobody judges: no webhook runs, and no hook is there from before.
    bed.unhook();
    bed.until_stamped();
    let mut reconciler = bed.reconciler(0);
    let story = Story::new(bed, "annotated-restart");
    let (mine, other) = (story.target("mine"), story.target("other"));
    for place in [&story.home, &mine] {
        bed.admin.create(&binding(place, "bob", "edit")).ok();
    }
    let granted = annotated(config_map(&story.home, "granted", [("k", "1")]), json!({ COPY_TO: mine }));
    let refused = annotated(
        config_map(&story.home, "refused", [("k", "1")]),
        json!({ COPY_TO: format!("{mine},{other}") }),
    );
    for source in [&granted, &refused] {
        eventually("bob writes while nobody judges", || match bed.bob.create(source) {
            answer if answer.code < 300 => Ok(()),
            answer => Err(answer.refused()),
        });
    }
    story.until("ConfigMap", &mine, "granted", [("k", "1")]);
    until_told(&story, "refused", "Forbidden");
    let source = eventually("the grant stands on the source", || {
        let source = bed.admin.get("ConfigMap", &story.home, "granted").ok_or("it is gone")?;
        if annotation(&source, AUTHORIZED).is_some() {
            Ok(source)
        } else {
            Err(source["metadata"].to_string())
        }
    });
    let forged = json!({ "metadata": { "annotations": { AUTHORIZED: annotation(&source, AUTHORIZED) } } });
    bed.bob.merge("ConfigMap", &story.home, "refused", &forged).ok();

    reconciler.kill();
    for place in [&story.home, &mine] {
        bed.admin.delete("RoleBinding", place, "bob-edit").ok();
    }
    bed.release_lease();
    let before = version(&bed.admin.get("ConfigMap", &mine, "granted").expect("it is there"));
    reconciler = bed.reconciler(0);
    story.marker("started");
    let copy = bed.admin.get("ConfigMap", &mine, "granted").expect("it stays");
    assert_eq!(version(&copy), before, "written for nothing");
    let again = json!({ "data": { "k": "2" } });
    bed.admin.merge("ConfigMap", &story.home, "granted", &again).ok();
    story.until("ConfigMap", &mine, "granted", [("k", "2")]);
    assert!(bed.admin.get("ConfigMap", &mine, "refused").is_none(), "a pasted proof was believed");
    // Another namespace of that name has granted nobody anything.
    bed.admin.delete("Namespace", "", &mine).ok();
    story.until_gone("Namespace", "", &mine);
    bed.admin.create(&namespace(&mine, &data([]))).ok();
    until_told(&story, "granted", "Forbidden");
    assert!(bed.admin.get("ConfigMap", &mine, "granted").is_none(), "a grant outlived its namespace");
    for place in [&story.home, &mine] {
        bed.admin.create(&binding(place, "bob", "edit")).ok();
    }
    story.until("ConfigMap", &mine, "granted", [("k", "2")]);
    reconciler.kill();
}

/// The proof of a grant stands on the object, where its owner may read it, keep it, and write it again.
#[test]
fn a_grant_that_was_taken_away_does_not_come_back_with_its_proof() {
    let (bed, _turn) = rough();
    bed.unhook();
    bed.until_stamped();
    let mut reconciler = bed.reconciler(0);
    let story = Story::new(bed, "annotated-replay");
    let mine = story.target("mine");
    for place in [&story.home, &mine] {
        bed.admin.create(&binding(place, "bob", "edit")).ok();
    }
    let granted = annotated(config_map(&story.home, "granted", [("k", "1")]), json!({ COPY_TO: mine }));
    eventually("bob writes while nobody judges", || match bed.bob.create(&granted) {
        answer if answer.code < 300 => Ok(()),
        answer => Err(answer.refused()),
    });
    story.until("ConfigMap", &mine, "granted", [("k", "1")]);
    let mut kept = eventually("the grant stands on the source", || {
        let source = bed.admin.get("ConfigMap", &story.home, "granted").ok_or("it is gone")?;
        let is_there = annotation(&source, AUTHORIZED).is_some();
        if is_there { Ok(source) } else { Err(source["metadata"].to_string()) }
    });

    bed.admin.delete("RoleBinding", &mine, "bob-edit").ok();
    let away = json!({ "metadata": { "annotations": { COPY_TO: null, AUTHORIZED: null } } });
    bed.admin.merge("ConfigMap", &story.home, "granted", &away).ok();
    story.marker("taken");
    bed.admin.delete("ConfigMap", &mine, "granted").ok();
    // With managedFields as they were when it was granted: anybody may write those.
    kept["metadata"].as_object_mut().expect("metadata").remove("resourceVersion");
    bed.bob.replace(&kept).ok();
    until_told(&story, "granted", "Forbidden");
    story.marker("then");
    assert!(bed.admin.get("ConfigMap", &mine, "granted").is_none(), "a proof that was kept was believed");

    reconciler.kill();
    bed.release_lease();
    reconciler = bed.reconciler(0);
    story.marker("later");
    assert!(bed.admin.get("ConfigMap", &mine, "granted").is_none(), "the next leader believed it");
    reconciler.kill();
}

/// Without the label no webhook is asked, and nobody would say that such a word counts for nothing.
#[test]
fn a_misspelt_annotation_is_told_of_once_also_without_the_label() {
    let story = Story::new(peaceful(), "misspelt");
    story.admin().create(&seen(&story.home)).ok();
    let written = json!({ "copyrator.dev/copy-too": "shop", "copyrator.dev/restart": "yes" });
    let mut object = config_map(&story.home, "app", [("k", "v")]);
    object["metadata"]["annotations"] = written;
    story.admin().create(&object).ok();
    until_told_of(&story, "app", "MalformedAnnotation", "did you mean copyrator.dev/copy-to?");
    until_told_of(&story, "app", "MalformedAnnotation", "must be \"false\"");
    // With the label the author is warned at once.
    let mut declaring = config_map(&story.home, "declaring", [("k", "v")]);
    declaring["metadata"]["labels"] = json!({ "copyrator.dev/declares": "true" });
    declaring["metadata"]["annotations"] = json!({ "copyrator.dev/copy-too": "shop" });
    eventually("the author is warned", || {
        let told = story.admin().apply(&declaring).warnings;
        story.admin().delete("ConfigMap", &story.home, "declaring").ok();
        let is_told = told.iter().any(|told| told.contains("did you mean copyrator.dev/copy-to?"));
        if is_told { Ok(()) } else { Err(format!("{told:?}")) }
    });
    story.admin().apply(&declaring).ok();
    declaring["metadata"]["annotations"] =
        json!({ "copyrator.dev/copy-too": "shop", "copyrator.dev/restart": "yes" });
    let told = story.admin().apply(&declaring).warnings.join("; ");
    assert!(told.contains("copyrator.dev/restart on a ConfigMap or Secret must be"), "{told}");
    // The API server asks the hooks at each attempt of a write, and the author gets the warnings of all. The first attempt may compare with
    // an older version from the watch cache.
    let mut writes = 2..;
    eventually("the API server answers a write of data alone without a warning", || {
        declaring["data"] = json!({ "k": writes.next().map(|write| write.to_string()) });
        same(story.admin().apply(&declaring).warnings, Vec::new())
    });
    let labels: serde_json::Map<_, _> = (0..65).map(|at| (format!("l{at}"), json!("x"))).collect();
    let mut labelled = config_map(&story.home, "labelled", [("k", "v")]);
    labelled["metadata"]["labels"] = labels.into();
    story.admin().create(&labelled).ok();
    until_told_of(&story, "labelled", "PartlyRead", "more than 64 labels");
    // Another write with the same slip is no news; another slip is.
    story.admin().merge("ConfigMap", &story.home, "app", &json!({ "data": { "k": "2" } })).ok();
    let other = json!({ "metadata": { "annotations": { "copyrator.dev/copy-too": null, "copyrator.dev/restart": "no" } } });
    story.admin().merge("ConfigMap", &story.home, "app", &json!({ "data": { "k": "3" } })).ok();
    story.admin().merge("ConfigMap", &story.home, "app", &other).ok();
    eventually("each text is told once", || {
        let events = story.admin().list("Event", &story.home, "");
        let about = events.iter().filter(|event| event["regarding"]["name"] == "app");
        let told = about.filter(|event| event["reason"] == "MalformedAnnotation");
        let again = told.clone().filter(|event| !event["series"].is_null()).count();
        same((told.count(), again), (2, 0))
    });
}

fn until_told(story: &Story<'_>, name: &str, reason: &str) -> String {
    until_told_of(story, name, reason, "")
}

fn until_told_of(story: &Story<'_>, name: &str, reason: &str, words: &str) -> String {
    eventually(&format!("an Event tells {reason} {words} about {name}"), || {
        let events = story.admin().list("Event", &story.home, "");
        let about = events.iter().filter(|event| event["regarding"]["name"] == name);
        let mut notes =
            about.clone().filter(|event| event["reason"] == reason).filter_map(|it| it["note"].as_str());
        let text = notes.find(|note| note.contains(words)).map(str::to_owned);
        text.ok_or_else(|| about.map(|event| event["reason"].to_string()).collect::<Vec<_>>().join(", "))
    })
}
