//! The console's feed: what Copyrator reports, as it happens.

use serde_json::{Value, json};

use crate::bed::objects::{ours, secret, uid};
use crate::bed::{Story, eventually, peaceful};
use crate::console::{CANARY, Run, tenant};

/// Has a copy made anew, which is reported in the namespace of its rule.
fn replace_a_copy(story: &Story<'_>, home: &str, target: &str, value: &str) {
    let mut source = secret(home, "frozen", [("k", value)]);
    source["immutable"] = true.into();
    story.admin().delete("Secret", home, "frozen");
    let before = story.admin().get("Secret", target, "frozen");
    story.admin().create(&source).ok();
    eventually("the copy is another object", || {
        let copy = story.admin().get("Secret", target, "frozen").ok_or("it is not there")?;
        let is_new = before.as_ref().is_none_or(|before| uid(before) != uid(&copy));
        if is_new && copy["data"] == source["data"] { Ok(()) } else { Err(copy["metadata"].to_string()) }
    });
}

fn rule(story: &Story<'_>, home: &str, target: &str) {
    let spec = json!({ "source": { "kind": "Secret", "names": ["frozen"] }, "targets": [{ "names": [target] }],
        "deletionGrace": "1h" });
    story.admin().create(&ours("CopyratorRule", home, "frozen", spec)).ok();
}

/// The next copy that is replaced, with the id of that event. Nothing is told of another namespace than this one.
fn replaced(lines: &mut impl Iterator<Item = String>, place: &str) -> (Value, String) {
    let mut id = String::new();
    for line in lines {
        assert!(!line.contains(CANARY), "a value: {line}");
        assert!(!line.contains("event: "), "a problem: {line}");
        if let Some(text) = line.strip_prefix("id: ") {
            id = text.to_owned();
        }
        let Some(text) = line.strip_prefix("data: ") else { continue };
        let told: Value = serde_json::from_str(text).expect("JSON");
        assert_eq!(told["about"]["namespace"], json!(place), "{told}");
        if told["reason"] == "CopyReplaced" {
            return (told, id);
        }
    }
    panic!("the stream has ended");
}

#[test]
fn what_is_reported_arrives_where_its_reader_may_see_it() {
    let story = Story::new(peaceful(), "live");
    let (home, theirs) = (story.called("elsewhere"), &story.home);
    for place in [&home, &story.called("target-a"), &story.called("target-b")] {
        story.admin().create(&crate::bed::objects::namespace(place, &Default::default())).ok();
    }
    let targets = [story.called("target-a"), story.called("target-b")];
    for (home, target) in [(&home, &targets[0]), (theirs, &targets[1])] {
        rule(&story, home, target);
        replace_a_copy(&story, home, target, "1");
    }
    let mut admin = Run::start(&story, None, &[]);
    let tenant = Run::start(&story, Some(&tenant(&story)), &["--namespaces", theirs]);
    let mut all = admin.follow(&format!("/api/v1/events?namespaces={home}"), "");
    let mut some = tenant.follow("/api/v1/events", "");
    assert!(all.next().is_some_and(|line| line.contains("200 OK")));
    assert!(some.next().is_some_and(|line| line.contains("200 OK")));

    replace_a_copy(&story, &home, &targets[0], CANARY);
    let (told, first) = replaced(&mut all, &home);
    assert_eq!(told["warning"], json!(false), "{told}");
    assert_eq!(told["about"]["page"], json!(format!("/object/copyratorrule/{home}/frozen")), "{told}");
    assert_eq!(told["related"]["namespace"], json!(targets[0]), "{told}");
    drop(all);

    // What happens meanwhile is told to a stream that goes on where the last one has ended.
    replace_a_copy(&story, &home, &targets[0], "3");
    let mut again = admin.follow(&format!("/api/v1/events?namespaces={home}"), &first);
    let (told, second) = replaced(&mut again, &home);
    assert_ne!(first, second, "{told}");

    // Of all that, the tenant of another namespace was told nothing.
    replace_a_copy(&story, theirs, &targets[1], CANARY);
    replaced(&mut some, theirs);
    let live = |run: &Run| run.send("GET", "/live", &[], "").2;
    let (seen, all) = (live(&tenant), live(&admin));
    assert!(seen.contains("CopyReplaced") && seen.contains(theirs) && !seen.contains(&home), "{seen}");
    assert!(all.contains(&home) && !all.contains(CANARY) && !seen.contains(CANARY));

    assert!(admin.interrupt().success());
    assert!(again.last().is_none_or(|line| !line.starts_with("data")), "the stream ends with it");
}
