//! Rules as they are drawn, and what each means: stated naively, from DESIGN §2.1 and §3.1 alone.

use copyrator::{
    marks,
    names::{Declarer, Kind, ObjectKey},
};
use proptest::{prelude::*, sample::select};
use serde_json::{Value, json};

use super::{
    copy_model::{
        server::Namespace,
        stored::{Field, Fields, Stored},
    },
    patterns::{self, any_pattern, is_of_a_namespace},
};

pub const RULES: [&str; 4] = ["home/one", "home/two", "a/three", "b/four"];

#[derive(Clone, Debug)]
pub struct Rule {
    pub kind: Kind,
    pub names: Option<&'static [&'static str]>,
    /// The object whose own annotations say so, and that alone is copied.
    pub annotated: Option<ObjectKey>,
    /// `objectSelector: {matchLabels: {app: x}}`.
    pub labelled: bool,
    pub from: &'static [&'static str],
    pub targets: Vec<Target>,
    pub exclude: &'static [&'static str],
    /// One more entry of `excludeTargets`. One that no namespace's name can match makes the rule invalid.
    pub pattern: Option<String>,
    pub shape: Shape,
    pub conflict: &'static str,
    pub retain: bool,
    pub grace: Option<u32>,
    pub suspend: bool,
    /// Says what nobody understands.
    pub broken: bool,
    pub created: i64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Target {
    Names(&'static [&'static str]),
    Everywhere,
    Blue,
    BlueOf(&'static [&'static str]),
}

#[derive(Clone, Copy, Debug)]
pub enum Shape {
    Plain,
    /// `{name}-of-{namespace}`
    Renamed,
    /// `x`, whatever the source is called.
    OneName,
    /// Key `a` becomes `b`.
    KeyRenamed,
    /// Without key `b`.
    KeyLeftOut,
    /// Label `tier` set, label `app` and annotation `note` kept.
    Labels,
    /// A ConfigMap of keys `a` and `c`; only of Secrets.
    Public,
}

/// What `copy-to` of a source may say, and what that means; `None`: nothing that is understood.
pub const COPY_TO: [(&str, Option<Target>); 4] = [
    ("a, b", Some(Target::Names(&["a", "b"]))),
    ("*", Some(Target::Names(&["*"]))),
    ("c*,home", Some(Target::Names(&["c*", "home"]))),
    ("sh[op", None),
];
/// The same of `copy-to-selector`.
pub const SELECTORS: [(&str, Option<Target>); 2] = [("team in (blue)", Some(Target::Blue)), ("=", None)];

/// The rule that an object declares by its own annotations, if it does.
pub fn declared(key: &ObjectKey, object: &Stored) -> Option<(Declarer, Rule)> {
    let annotations = object.annotations();
    let said = |mark: &str, words: &[(&str, Option<Target>)]| {
        let text = annotations.get(mark)?;
        words.iter().find(|(word, _)| word == text).map(|(_, target)| *target)
    };
    let said = [said(marks::COPY_TO, &COPY_TO), said(marks::COPY_TO_SELECTOR, &SELECTORS)];
    let said: Vec<Option<Target>> = said.into_iter().flatten().collect();
    if said.is_empty() {
        return None;
    }
    let broken = said.contains(&None);
    let rule = Rule {
        kind: key.kind,
        names: None,
        annotated: Some(key.clone()),
        labelled: false,
        from: &[],
        targets: said.into_iter().flatten().collect(),
        exclude: &[],
        pattern: None,
        shape: Shape::Plain,
        conflict: "Refuse",
        retain: false,
        grace: None,
        suspend: false,
        broken,
        created: object.uid as i64,
    };
    Some((Declarer::annotated(key.clone()), rule))
}

pub fn rule_name(index: usize) -> Declarer {
    Declarer::parse(RULES[index]).unwrap()
}

/// The namespace of a rule, where sources are looked for that name none.
pub fn home_of(index: usize) -> &'static [&'static str] {
    [&["home"], &["home"], &["a"], &["b"]][index]
}

pub fn any_rule() -> impl Strategy<Value = Rule> {
    const NAMES: [Option<&[&str]>; 4] = [Some(&["x"]), Some(&["x*", "y"]), Some(&["*"]), None];
    const FROM: [&[&str]; 5] = [&[], &[], &["home"], &["b", "home"], &["a"]];
    const TARGETS: [&[Target]; 5] = [
        &[Target::Everywhere],
        &[Target::Names(&["a", "b"])],
        &[Target::Blue],
        &[Target::BlueOf(&["c*"]), Target::Names(&["home", "kube-system"])],
        &[Target::Names(&["*"])],
    ];
    const EXCLUDED: [&[&str]; 2] = [&[], &["a"]];
    let shape = prop_oneof![
        4 => Just(Shape::Plain),
        3 => select(&[Shape::Renamed, Shape::OneName, Shape::KeyRenamed][..]),
        3 => select(&[Shape::KeyLeftOut, Shape::Labels, Shape::Public][..]),
    ];
    let source = (rarely(5), select(&NAMES[..]), rarely(5), select(&FROM[..]));
    let pattern = prop_oneof![7 => Just(None), 1 => any_pattern().prop_map(Some)];
    let target = (select(&TARGETS[..]), select(&EXCLUDED[..]), pattern, shape);
    let policy = (
        select(&["Refuse", "Adopt", "Overwrite"][..]),
        rarely(4),
        select(&[None, Some(0), Some(5)][..]),
        rarely(12),
        rarely(16),
        0..3_i64,
    );
    (source, target, policy).prop_map(|(source, target, policy)| {
        let (secret, names, labelled, from) = source;
        let (targets, exclude, pattern, shape) = target;
        let (conflict, retain, grace, suspend, broken, created) = policy;
        let kind = if secret { Kind::Secret } else { Kind::ConfigMap };
        let shape =
            if matches!((kind, shape), (Kind::ConfigMap, Shape::Public)) { Shape::Plain } else { shape };
        let labelled = labelled || names.is_none();
        Rule {
            kind,
            names,
            annotated: None,
            labelled,
            from,
            targets: targets.to_vec(),
            exclude,
            shape,
            conflict,
            retain,
            grace,
            suspend,
            broken,
            pattern,
            created,
        }
    })
}

/// True once in so many times.
pub fn rarely(times: u32) -> impl Strategy<Value = bool> {
    prop_oneof![times - 1 => Just(false), 1 => Just(true)]
}

impl Rule {
    pub fn spec(&self) -> Value {
        let selector = self.labelled.then(|| json!({"matchLabels": {"app": "x"}}));
        let blue = json!({"matchLabels": {"team": "blue"}});
        let targets = self.targets.iter().map(|target| match target {
            Target::Names(names) => json!({"names": names}),
            Target::Everywhere => json!({"namespaceSelector": {}}),
            Target::Blue => json!({"namespaceSelector": blue}),
            Target::BlueOf(names) => json!({"names": names, "namespaceSelector": blue}),
        });
        let shape = match self.shape {
            Shape::Plain => json!({}),
            Shape::Renamed => json!({"name": "{name}-of-{namespace}"}),
            Shape::OneName => json!({"name": "x"}),
            Shape::KeyRenamed => json!({"keys": {"rename": {"a": "b"}}}),
            Shape::KeyLeftOut => json!({"keys": {"exclude": ["b"]}}),
            Shape::Labels => {
                json!({"labels": {"set": {"tier": "infra"}, "keep": ["app"]}, "annotations": {"keep": ["note"]}})
            }
            Shape::Public => json!({"kind": "ConfigMap", "keys": {"include": ["a", "c"]}}),
        };
        let grace = self.grace.map(|seconds| format!("{seconds}s"));
        json!({
            "source": {"kind": self.kind.to_string(), "names": self.names, "objectSelector": selector, "namespaces": self.from},
            "targets": targets.collect::<Vec<_>>(),
            "excludeTargets": self.exclude.iter().copied().chain(self.pattern.as_deref()).collect::<Vec<_>>(),
            "copy": shape,
            "conflictPolicy": self.conflict,
            "deletionPolicy": if self.retain { "Retain" } else { "Delete" },
            "deletionGrace": if self.broken { Some("soon".to_owned()) } else { grace },
            "suspend": self.suspend,
        })
    }

    /// Whether it is invalid, so that it writes and removes nothing.
    pub fn is_broken(&self) -> bool {
        self.broken || self.pattern.as_deref().is_some_and(|pattern| !is_of_a_namespace(pattern))
    }

    pub fn takes(&self, name: &str, namespace: &Namespace) -> bool {
        let is_blue = namespace.labels.get("team").is_some_and(|team| team == "blue");
        let is_named = self.targets.iter().any(|target| match target {
            Target::Names(names) => matches(names, name),
            Target::Everywhere => true,
            Target::Blue => is_blue,
            Target::BlueOf(names) => is_blue && matches(names, name),
        });
        let is_excluded = self.pattern.as_deref().is_some_and(|pattern| patterns::matches(pattern, name));
        is_named && !is_excluded && !matches(self.exclude, name)
    }

    /// Whether it copies an object that is not a copy.
    pub fn copies(&self, rule: &Declarer, key: &ObjectKey, object: &Stored) -> bool {
        key.kind == self.kind
            && self.looks_in(rule, &key.namespace)
            && self.annotated.as_ref().is_none_or(|annotated| annotated == key)
            && self.names.is_none_or(|names| matches(names, &key.name))
            && (!self.labelled || object.labels().get("app").is_some_and(|app| app == "x"))
    }

    /// Whether its sources are in this namespace.
    pub fn looks_in(&self, rule: &Declarer, namespace: &str) -> bool {
        if self.from.is_empty() { *namespace == **rule.namespace() } else { self.from.contains(&namespace) }
    }

    /// Where the copy of a source goes in a namespace.
    pub fn slot(&self, source: &ObjectKey, namespace: &str) -> ObjectKey {
        let kind = if matches!(self.shape, Shape::Public) { Kind::ConfigMap } else { self.kind };
        let name = match self.shape {
            Shape::Renamed => format!("{}-of-{}", source.name, source.namespace),
            Shape::OneName => "x".into(),
            _ => source.name.to_string(),
        };
        ObjectKey::new(kind, namespace, name)
    }

    /// All that is to be found in the copy of a source, but for our marks.
    pub fn wants(&self, source: &Stored) -> Fields {
        let has_a = [Field::Data("a".into()), Field::Binary("a".into())]
            .iter()
            .any(|a| source.values.contains_key(a));
        let mut wanted = Fields::new();
        for (field, value) in &source.values {
            let is_text = std::str::from_utf8(value).is_ok();
            let field = match (self.shape, field) {
                (Shape::KeyRenamed, Field::Data(key) | Field::Binary(key)) if key == "b" => match has_a {
                    true => continue,
                    false => field.clone(),
                },
                (Shape::KeyRenamed, Field::Data(key)) if key == "a" => Field::Data("b".into()),
                (Shape::KeyRenamed, Field::Binary(key)) if key == "a" => Field::Binary("b".into()),
                (Shape::KeyLeftOut, Field::Data(key) | Field::Binary(key)) if key == "b" => continue,
                (Shape::Public, Field::Data(key)) if key != "a" && key != "c" => continue,
                (Shape::Public, Field::Data(key)) if !is_text => Field::Binary(key.clone()),
                (Shape::Public, Field::Type) => continue,
                (Shape::Labels, Field::Label(key)) if key == "app" => field.clone(),
                (Shape::Labels, Field::Annotation(key)) if key == "note" => field.clone(),
                (_, Field::Label(_) | Field::Annotation(_)) => continue,
                (_, Field::Immutable) if value == b"false" => continue,
                _ => field.clone(),
            };
            wanted.insert(field, value.clone());
        }
        if let Shape::Labels = self.shape {
            wanted.insert(Field::Label("tier".into()), b"infra".to_vec());
        }
        wanted
    }
}

fn matches(globs: &[&str], name: &str) -> bool {
    globs.iter().any(|glob| match glob.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => *glob == name,
    })
}
