//! What one author's questions cost the API server, and nobody else.

use std::thread;

use serde_json::{Value, json};

use crate::bed::objects::{binding, config_map, ours};
use crate::bed::{Bed, Person, Request, Story, eventually, rough};

/// The webhook's questions so far.
fn asked(bed: &Bed) -> usize {
    let of_webhook = |user: &str| user.ends_with(":copyrator-webhook");
    let questions = |it: &&Request| it.resource == "subjectaccessreviews" && of_webhook(&it.user);
    bed.requests().iter().filter(questions).count()
}

/// 64 names in 64 namespaces were 4,355 questions once, as a dry run, too.
#[test]
fn a_dry_run_with_many_names_and_namespaces_costs_few_questions_and_holds_up_nobody_else() {
    let (bed, _turn) = rough();
    let _crew = bed.man();
    let story = Story::new(bed, "questions");
    let other = story.bystander("other");
    for (place, person) in [(&story.home, "bob"), (&other, "alice")] {
        bed.admin.create(&binding(place, person, "edit")).ok();
    }
    let rule = |place: &str, names: Value, namespaces: Value| {
        let source = json!({ "kind": "ConfigMap", "names": names, "namespaces": namespaces });
        let spec = json!({ "source": source, "targets": [{ "names": [place] }] });
        ours("CopyratorRule", place, "rule", spec)
    };
    bed.admin.create(&config_map(&other, "app", [("k", "v")])).ok();
    let small =
        |person: &Person, place: &str| person.try_create(&rule(place, json!(["app"]), json!([place])));
    for (person, place) in [(&bed.bob, &story.home), (&bed.alice, &other)] {
        eventually("the author may write rules", || {
            let answer = small(person, place);
            if answer.code < 300 { Ok(()) } else { Err(answer.refused()) }
        });
    }

    let many = |prefix: &str| -> Value { (0..64).map(|it| format!("{prefix}-{it}")).collect() };
    let wide = rule(&story.home, many("name"), many("place"));
    let before = asked(bed);
    let answer = bed.bob.try_create(&wide);
    // The questions are in the log before the review that asked them is answered, and the write after it.
    eventually("the dry run is in the log", || {
        let of_bob = |it: &Request| it.user == "bob" && it.namespace == story.home && it.code == 403;
        if bed.requests().iter().any(of_bob) { Ok(()) } else { Err("not yet".into()) }
    });
    let cost = asked(bed) - before;
    let refusal = answer.refused();
    assert!(refusal.contains("split it into several objects"), "{refusal}");
    assert!((1..400).contains(&cost), "{cost} questions were asked for one dry run");

    // Bob goes on, all at once, and alice is answered all the same.
    thread::scope(|scope| {
        let tries: Vec<_> = (0..8)
            .map(|_| scope.spawn(|| [bed.bob.try_create(&wide), bed.bob.try_create(&wide)].map(|it| it.code)))
            .collect();
        // On a machine that is busy with others a call of the webhook may time out: 500, for alice as for bob.
        let is_answered = || {
            let answer = small(&bed.alice, &other);
            assert!(answer.code < 300 || answer.code == 500, "alice pays for bob: {}", answer.body);
            if answer.code < 300 { Ok(()) } else { Err(answer.body.to_string()) }
        };
        while tries.iter().any(|one| !one.is_finished()) {
            eventually("alice is answered", is_answered);
        }
        let codes: Vec<u16> = tries.into_iter().flat_map(|one| one.join().expect("it ends")).collect();
        assert!(codes.iter().all(|code| [403, 429, 500].contains(code)), "{codes:?}");
    });
}
