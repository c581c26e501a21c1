//! The messages about a kind that is not granted, whose objects are not known, or whose schema lacks a field
//! that a template writes.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::templates::{not_granted_objects, not_read_kind, unknown_kind};
use crate::{
    model::{InstancesRead, World},
    names::{InstanceKind, Kind, TemplateKind},
    plan::Reason,
    validate::CompiledTemplate,
};

/// The message, with a remedy, for a rule of a kind whose objects are not copied in this installation.
pub(crate) fn not_granted(kind: Kind) -> String {
    format!(
        "this Copyrator may not write {kind}: add {kind} to the chart's value copies.kinds (--copy-kinds); until then Copyrator writes \
         and removes nothing for this rule"
    )
}

/// An entry of the chart's value `templates.kinds`, for people.
pub(super) fn entry(kind: &InstanceKind, plural: &str, uses: &[&str]) -> String {
    let InstanceKind { api_version, kind } = kind;
    format!("{{apiVersion: {api_version}, kind: {kind}, resource: {plural}, use: [{}]}}", uses.join(", "))
}

/// The rights that a template needs and that Copyrator is not granted.
#[derive(Default)]
struct Lacking {
    /// Kinds that are missing in the chart's value `copies.kinds`.
    copied: BTreeSet<Kind>,
    /// Kinds of the chart's value `templates.kinds`, each with the uses that the template needs and that are
    /// not granted.
    others: BTreeMap<InstanceKind, Vec<&'static str>>,
}

impl Lacking {
    fn of(world: &World, compiled: &CompiledTemplate) -> Self {
        let mut lacking = Self::default();
        for object in not_granted_objects(world, compiled) {
            match Kind::written_as(&object.api_version, &object.kind) {
                Some(kind) => drop(lacking.copied.insert(kind)),
                None => {
                    let kind = InstanceKind::new(object.api_version.as_str(), object.kind.as_str());
                    lacking.others.entry(kind).or_default().push("render");
                }
            }
        }
        if let Some(kind) = not_read_kind(world, compiled) {
            let granted = world.settings().template_kind(kind);
            let has_status = granted.is_some_and(|granted| granted.status.is_some());
            let uses = lacking.others.entry(kind.clone()).or_default();
            uses.extend(granted.is_none().then_some("forEach"));
            uses.extend((compiled.writes_status() && !has_status).then_some("status"));
        }
        lacking
    }

    /// The command that grants all missing rights. The command also repeats the granted rights, since Helm
    /// replaces a list of values as a whole.
    fn command(&self, world: &World) -> String {
        let settings = world.settings();
        let mut command = format!(
            "helm upgrade copyrator charts/copyrator -n {} --reset-then-reuse-values",
            settings.own_namespace
        );
        if !self.copied.is_empty() {
            let all: BTreeSet<&str> =
                settings.copy_kinds.iter().chain(&self.copied).map(|kind| kind.resource().kind).collect();
            command.push_str(&format!(" --set-json 'copies.kinds={}'", json!(all)));
        }
        if !self.others.is_empty() {
            let known: BTreeSet<&InstanceKind> =
                settings.template_kinds.iter().map(|one| &one.kind).collect();
            let all = known.into_iter().chain(self.others.keys()).collect::<BTreeSet<_>>();
            let all: Vec<Value> =
                all.into_iter().map(|kind| self.value(&settings.template_kinds, kind)).collect();
            command.push_str(&format!(" --set-json 'templates.kinds={}'", json!(all)));
        }
        command
    }

    /// An entry of the chart's value `templates.kinds`: the uses that the kind is granted for, and the
    /// missing uses.
    fn value(&self, granted: &BTreeSet<TemplateKind>, kind: &InstanceKind) -> Value {
        let mut uses: Vec<&str> =
            granted.iter().filter(|one| one.kind == *kind).flat_map(TemplateKind::uses).collect();
        let has_place = uses.contains(&"statusField");
        let lacking = self.others.get(kind).into_iter().flatten();
        for one in lacking.filter(|one| **one != "status" || !has_place) {
            if !uses.contains(one) {
                uses.push(one);
            }
        }
        // All versions of a kind have one plural.
        let is_version = |one: &&TemplateKind| one.kind.group() == kind.group() && one.kind.kind == kind.kind;
        let plural =
            granted.iter().find(is_version).map_or_else(|| kind.usual_plural(), |one| one.plural.clone());
        json!({"apiVersion": *kind.api_version, "kind": *kind.kind, "resource": plural, "use": uses})
    }
}

/// Why a template's kinds are not granted, with the remedy; `None` if all are granted.
pub(crate) fn not_granted_to(world: &World, compiled: &CompiledTemplate) -> Option<String> {
    let lacking = Lacking::of(world, compiled);
    let of_others = |word: &str| {
        let others = lacking.others.iter().filter(|(_, uses)| uses.contains(&word));
        others.map(|(kind, _)| kind.to_string()).collect::<Vec<_>>()
    };
    let written =
        lacking.copied.iter().map(ToString::to_string).chain(of_others("render")).collect::<Vec<_>>();
    let (read, status) = (of_others("forEach"), of_others("status"));
    let lacks = [("writes no", &written), ("reads no", &read), ("may not write the status of", &status)];
    let lacks = lacks.into_iter().filter(|(_, kinds)| !kinds.is_empty());
    let lacks: Vec<String> = lacks.map(|(word, kinds)| format!("{word} {}", kinds.join(", "))).collect();
    if lacks.is_empty() {
        return None;
    }
    let mut hints = Vec::new();
    if !lacking.others.is_empty() {
        hints.push("check each resource with `kubectl api-resources`");
    }
    if !status.is_empty() {
        hints.push(
            "a CustomResourceDefinition without the status subresource needs statusField instead of status",
        );
    }
    let hints = if hints.is_empty() { String::new() } else { format!(" ({})", hints.join("; ")) };
    Some(format!(
        "this Copyrator {}; until an administrator grants these kinds, it writes and removes nothing for this template; command: {}{hints}",
        lacks.join(", and "),
        lacking.command(world)
    ))
}

/// Why objects that a template is rendered for, or declares, are not known: reason and message.
pub(crate) fn not_listed(world: &World, compiled: &CompiledTemplate) -> Option<(Reason, String)> {
    unknown_kind(world, compiled).map(|(kind, read)| unknown(&kind, read))
}

/// Why the sources of a rule are not known: reason and message.
pub(crate) fn not_listed_sources(world: &World, kind: Kind) -> (Reason, String) {
    let resource = kind.resource();
    unknown(&InstanceKind::new(resource.api_version, resource.kind), world.granted_read(kind))
}

fn unknown(kind: &InstanceKind, read: InstancesRead) -> (Reason, String) {
    match read {
        InstancesRead::NotServed => {
            let message = format!(
                "the API server does not serve {kind}: apply its CustomResourceDefinition; until then Copyrator writes and removes \
                 nothing here"
            );
            (Reason::KindNotServed, message)
        }
        InstancesRead::Failed(why) => (
            Reason::KindUnread,
            format!("Copyrator cannot list {kind}, so it writes and removes nothing here: {why}"),
        ),
        InstancesRead::NotYet | InstancesRead::Listed | InstancesRead::Doubtful => {
            (Reason::KindUnread, format!("Copyrator has not listed {kind} yet"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::GrantedKinds;

    #[test]
    fn everything_that_is_not_granted_is_told_with_one_command() {
        let mut world = World::default();
        world.settings_mut().own_namespace = "copyrator-system".into();
        world.settings_mut().copy_kinds = [Kind::Service].into();
        let granted =
            ["web.example.com/v1/Site/sites/forEach", "cert-manager.io/v1/Issuer/issuers/render+copy"];
        world.settings_mut().template_kinds =
            TemplateKind::read_all(granted, &GrantedKinds::default()).unwrap();
        let site = InstanceKind::new("web.example.com/v1", "Site");
        let lacking = Lacking {
            copied: [Kind::NetworkPolicy].into(),
            others: [
                (InstanceKind::new("networking.k8s.io/v1", "Ingress"), vec!["render"]),
                (site, vec!["forEach", "status"]),
            ]
            .into(),
        };
        assert_eq!(
            lacking.command(&world),
            "helm upgrade copyrator charts/copyrator -n copyrator-system --reset-then-reuse-values \
             --set-json 'copies.kinds=[\"NetworkPolicy\",\"Service\"]' \
             --set-json 'templates.kinds=[\
             {\"apiVersion\":\"cert-manager.io/v1\",\"kind\":\"Issuer\",\"resource\":\"issuers\",\"use\":[\"render\",\"copy\"]},\
             {\"apiVersion\":\"networking.k8s.io/v1\",\"kind\":\"Ingress\",\"resource\":\"ingresses\",\"use\":[\"render\"]},\
             {\"apiVersion\":\"web.example.com/v1\",\"kind\":\"Site\",\"resource\":\"sites\",\"use\":[\"forEach\",\"status\"]}]'"
        );
    }
}
