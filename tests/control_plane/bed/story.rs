//! One test's corner of a cluster.

use serde_json::{Value, json};

use super::objects::{self, Data, data_of};
use super::{Bed, Person, eventually, same};

/// One test's corner of a cluster: namespaces whose names begin with the story's.
pub struct Story<'a> {
    /// The cluster.
    pub bed: &'a Bed,
    name: &'static str,
    /// A namespace for sources and rules.
    pub home: String,
}

impl<'a> Story<'a> {
    /// Begins a story.
    pub fn new(bed: &'a Bed, name: &'static str) -> Story<'a> {
        let story = Story { bed, name, home: format!("{name}-home") };
        story.admin().create(&objects::namespace(&story.home, &Data::new())).ok();
        story
    }

    /// Above all rights.
    pub fn admin(&self) -> &'a Person {
        &self.bed.admin
    }

    /// Begins a story whose namespaces are there.
    pub fn at_home(bed: &'a Bed, name: &'static str) -> Story<'a> {
        Story { bed, name, home: format!("{name}-home") }
    }

    /// The same from another of its namespaces.
    pub fn at_place(bed: &'a Bed, name: &'static str, home: &str) -> Story<'a> {
        Story { bed, name, home: home.to_owned() }
    }

    /// A selector of the story's targets.
    pub fn selector(&self) -> Value {
        json!({ "matchLabels": { "story": self.name } })
    }

    /// The name of another namespace of the story.
    pub fn called(&self, part: &str) -> String {
        format!("{}-{part}", self.name)
    }

    /// Makes a namespace that [`Story::selector`] finds.
    pub fn target(&self, part: &str) -> String {
        let name = self.called(part);
        self.admin().create(&objects::namespace(&name, &objects::data([("story", self.name)]))).ok();
        name
    }

    /// Makes a namespace that it doesn't find.
    pub fn bystander(&self, part: &str) -> String {
        let name = self.called(part);
        self.admin().create(&objects::namespace(&name, &Data::new())).ok();
        name
    }

    /// A rule that copies from home into the targets, removing at once what nobody wants.
    pub fn rule(&self, kind: &str, names: &[&str]) -> Value {
        let spec = json!({
            "source": { "kind": kind, "names": names },
            "targets": [{ "namespaceSelector": self.selector() }],
            "deletionGrace": "0s",
        });
        objects::ours("CopyratorRule", &self.home, "rule", spec)
    }

    /// A policy for the targets; cluster-scoped, so named after the story.
    pub fn policy(&self, kinds: &[&str], spec: Value) -> Value {
        let mut policy = objects::ours("ConfigPolicy", "", self.name, spec);
        policy["spec"]["match"]["kinds"] = json!(kinds);
        policy["spec"]["match"]["namespaceSelector"] = self.selector();
        policy
    }

    /// Waits until an object has exactly this content.
    #[track_caller]
    pub fn until<const N: usize>(
        &self,
        kind: &str,
        namespace: &str,
        name: &str,
        pairs: [(&str, &str); N],
    ) -> Value {
        let wanted = objects::data(pairs);
        eventually(&format!("{kind} {namespace}/{name} holds {wanted:?}"), || {
            let object = self.admin().get(kind, namespace, name).ok_or("it does not exist")?;
            same(&data_of(&object), &wanted)?;
            Ok(object)
        })
    }

    /// Waits until an object is gone.
    #[track_caller]
    pub fn until_gone(&self, kind: &str, namespace: &str, name: &str) {
        eventually(&format!("{kind} {namespace}/{name} is gone"), || {
            self.admin()
                .get(kind, namespace, name)
                .map_or(Ok(()), |object| Err(object["metadata"].to_string()))
        });
    }

    /// Waits until a copy says when it goes.
    #[track_caller]
    pub fn until_leaving(&self, kind: &str, namespace: &str, name: &str) {
        eventually(&format!("{kind} {namespace}/{name} is about to go"), || {
            let copy = self.admin().get(kind, namespace, name).ok_or("it has gone already")?;
            let mark = objects::annotation(&copy, "copyrator.dev/remove-after");
            mark.map(|_| ()).ok_or_else(|| copy["metadata"]["annotations"].to_string())
        });
    }

    /// Waits until an object of ours has a condition with this status and reason.
    #[track_caller]
    pub fn until_condition(
        &self,
        kind: &str,
        name: &str,
        condition: &str,
        status: &str,
        reason: &str,
    ) -> Value {
        eventually(&format!("{kind} {}/{name} is {condition}={status}, {reason}", self.home), || {
            let object = self.admin().get(kind, &self.home, name).ok_or("it does not exist")?;
            let seen = objects::condition(&object, condition);
            let current = object["status"]["observedGeneration"] == object["metadata"]["generation"];
            if current && seen == Some((status.to_owned(), reason.to_owned())) {
                return Ok(object);
            }
            Err(object["status"].to_string())
        })
    }

    /// Has the operator do something that it can only do after it has seen everything that happened so far, and
    /// waits for it: what has not happened by then does not happen.
    #[track_caller]
    pub fn marker(&self, part: &str) {
        let (source, target) =
            (self.bystander(&format!("{part}-from")), self.bystander(&format!("{part}-to")));
        let spec = json!({ "source": { "kind": "ConfigMap", "names": ["marker"] }, "targets": [{ "names": [target] }] });
        self.admin().create(&objects::config_map(&source, "marker", [("seen", "yes")])).ok();
        self.admin().create(&objects::ours("CopyratorRule", &source, "marker", spec)).ok();
        self.until("ConfigMap", &target, "marker", [("seen", "yes")]);
    }
}
