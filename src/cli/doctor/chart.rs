//! What the chart gives our accounts: its own templates, as far as RBAC has to do with them.

use k8s_openapi::api::rbac::v1::PolicyRule;

use crate::cli::operator::Role;

/// A role of the chart.
pub(super) struct Given {
    /// The template.
    text: &'static str,
    /// What follows the stem in its name.
    pub(super) suffix: &'static str,
    /// Whether it is of our own namespace only.
    pub(super) is_local: bool,
    /// Who holds it.
    pub(super) holders: &'static [Role],
}

/// Every role of the chart that an account of ours holds.
pub(super) const GIVEN: [Given; 7] = [
    Given {
        text: include_str!("../../../charts/copyrator/templates/clusterrole.yaml"),
        suffix: "",
        is_local: false,
        holders: &[Role::Webhook, Role::Reconciler],
    },
    Given {
        text: include_str!("../../../charts/copyrator/templates/clusterrole-copy.yaml"),
        suffix: "-copy",
        is_local: false,
        holders: &[Role::Reconciler],
    },
    Given {
        text: include_str!("../../../charts/copyrator/templates/clusterrole-hooks.yaml"),
        suffix: "-hooks",
        is_local: false,
        holders: &[Role::Reconciler],
    },
    Given {
        text: include_str!("../../../charts/copyrator/templates/clusterrole-report.yaml"),
        suffix: "-report",
        is_local: false,
        holders: &[Role::Reconciler],
    },
    Given {
        text: include_str!("../../../charts/copyrator/templates/clusterrole-restart.yaml"),
        suffix: "-restart",
        is_local: false,
        holders: &[Role::Reconciler],
    },
    Given {
        text: include_str!("../../../charts/copyrator/templates/role-reconciler.yaml"),
        suffix: "-reconciler",
        is_local: true,
        holders: &[Role::Reconciler],
    },
    Given {
        text: include_str!("../../../charts/copyrator/templates/role-webhook.yaml"),
        suffix: "-webhook",
        is_local: true,
        holders: &[Role::Webhook],
    },
];

/// What an account of ours holds in each namespace that is looked at, where only some are.
pub(super) const IN_PLACES: Given = Given {
    text: include_str!("../../../charts/copyrator/templates/namespaced-role.yaml"),
    suffix: "",
    is_local: true,
    holders: &[Role::Reconciler],
};

/// What it holds at home then.
pub(super) const AT_HOME: Given = Given {
    text: include_str!("../../../charts/copyrator/templates/namespaced-home-role.yaml"),
    suffix: "-reconciler",
    is_local: true,
    holders: &[Role::Reconciler],
};

/// The condition that the Deployments answer: no directory of certificates is mounted.
const SELF_MANAGED: &str = "if eq .Values.certificates.mode \"self-managed\"";
/// The opposite.
const MOUNTED: &str = "if ne .Values.certificates.mode \"self-managed\"";

/// The rules of a role of the chart; `all`: with the rules for chart values that we cannot know.
/// `is_self_managed`: whether the webhook's CA is our own; `None`: not known either.
pub(super) fn rules(
    given: &Given,
    stem: &str,
    namespace: &str,
    is_self_managed: Option<bool>,
    all: bool,
) -> Vec<PolicyRule> {
    let body = given.text.split_once("\nrules:\n").map_or("", |(_, rules)| rules);
    let mut conditions: Vec<bool> = Vec::new();
    let mut text = String::new();
    for line in body.lines() {
        let word = line.trim_start().trim_start_matches("{{").trim_start_matches('-').trim_start();
        let is_control = line.trim_start().starts_with("{{");
        match word.split_whitespace().next() {
            Some("if" | "with" | "range") if is_control => {
                let condition = word.trim_end().trim_end_matches("}}").trim_end_matches('-').trim_end();
                let holds = match condition {
                    SELF_MANAGED => is_self_managed,
                    MOUNTED => is_self_managed.map(|it| !it),
                    _ => None,
                };
                conditions.push(holds.unwrap_or(all));
            }
            Some("end") if is_control => drop(conditions.pop()),
            _ if is_control => {}
            _ if conditions.iter().all(|holds| *holds) => {
                let line = line.replace("{{ include \"copyrator.fullname\" . }}", stem);
                let line = line.replace("{{ . | quote }}", &format!("{namespace:?}"));
                text.push_str(&line.replace("{{ .Release.Namespace }}", namespace));
                text.push('\n');
            }
            _ => {}
        }
    }
    // The text is part of the binary, and a test of this module reads all of it.
    serde_saphyr::from_str(&text).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEMPLATES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/charts/copyrator/templates");

    /// A role that the chart gains is one that must be looked at.
    #[test]
    fn every_role_that_the_chart_binds_is_known_with_its_holders() {
        let mut bindings = 0;
        for entry in std::fs::read_dir(TEMPLATES).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            let Some(suffix) = name.strip_prefix("clusterrolebinding").or(name.strip_prefix("rolebinding"))
            else {
                continue;
            };
            bindings += 1;
            let suffix = suffix.trim_end_matches(".yaml");
            let text = std::fs::read_to_string(&path).unwrap();
            let is_local = name.starts_with("rolebinding");
            let given = GIVEN.iter().find(|it| it.suffix == suffix && it.is_local == is_local);
            let given = given.unwrap_or_else(|| panic!("{name} binds a role that is not in GIVEN"));
            for (role, include) in [
                (Role::Webhook, "copyrator.webhookAccount"),
                (Role::Reconciler, "copyrator.reconcilerAccount"),
            ] {
                let is_bound = text.contains(&format!("name: {{{{ include \"{include}\" . }}}}"));
                assert_eq!(given.holders.contains(&role), is_bound, "{name}: {role:?}");
            }
        }
        assert_eq!(bindings, GIVEN.len());
    }

    /// The same where only some namespaces are looked at: what a template grants there is looked at, too.
    #[test]
    fn every_role_of_some_namespaces_is_known_with_its_holders() {
        let known = [&IN_PLACES, &AT_HOME];
        let (mut roles, mut bindings) = (0, 0);
        for entry in std::fs::read_dir(TEMPLATES).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if !name.starts_with("namespaced-") {
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            for kind in text.lines().filter_map(|line| line.strip_prefix("kind: ")) {
                match kind {
                    "Role" => {
                        roles += 1;
                        assert!(known.iter().any(|given| given.text == text), "{name} is not looked at");
                    }
                    "RoleBinding" => {
                        bindings += 1;
                        let (_, bound) = text.split_once("roleRef:").unwrap();
                        let stem =
                            bound.lines().find_map(|line| line.trim().strip_prefix("name: {{")).unwrap();
                        let suffix = stem.split_once("}}").unwrap().1;
                        let given = known.iter().find(|given| given.suffix == suffix);
                        let given =
                            given.unwrap_or_else(|| panic!("{name} binds a role that is not looked at"));
                        for (role, include) in [
                            (Role::Webhook, "copyrator.webhookAccount"),
                            (Role::Reconciler, "copyrator.reconcilerAccount"),
                        ] {
                            assert_eq!(
                                given.holders.contains(&role),
                                bound.contains(include),
                                "{name}: {role:?}"
                            );
                        }
                    }
                    other => panic!("{name} has a {other}, which nothing here looks at"),
                }
            }
        }
        assert_eq!((roles, bindings), (known.len(), known.len()));
    }

    #[test]
    fn the_charts_roles_are_understood() {
        for given in GIVEN.iter().chain([&IN_PLACES, &AT_HOME]) {
            let listed = given.text.lines().filter(|line| line.starts_with("- apiGroups:")).count();
            assert_eq!(rules(given, "copyrator", "ours", None, true).len(), listed, "{}", given.suffix);
            assert!(!rules(given, "copyrator", "ours", None, false).is_empty(), "{}", given.suffix);
        }
        let named = &rules(&IN_PLACES, "stem", "shop", None, false)[0].resource_names;
        assert_eq!(*named, Some(vec!["shop".into()]));
        let hooks = rules(&GIVEN[2], "stem", "ours", None, false);
        assert!(hooks.iter().any(|rule| rule.resource_names == Some(vec!["stem".into()])), "{hooks:?}");
    }

    #[test]
    fn what_only_some_values_ask_for_is_allowed_and_not_needed() {
        let given = Given {
            text: "kind: Role\nrules:\n- apiGroups: [\"\"]\n  resources: [pods]\n  verbs: [list]\n{{- if .Values.x }}\n\
                   - apiGroups: [\"\"]\n  resources: [secrets]\n  verbs: [get]\n{{- end }}\n",
            suffix: "",
            is_local: true,
            holders: &[],
        };
        assert_eq!(rules(&given, "", "", Some(true), false).len(), 1);
        assert_eq!(rules(&given, "", "", Some(false), true).len(), 2);
    }

    #[test]
    fn a_ca_of_our_own_takes_rights_to_it_and_a_mounted_one_none() {
        let counted = |is_self_managed, all| {
            let of = |given| rules(given, "", "", is_self_managed, all);
            let rights = GIVEN.iter().filter(|given| given.is_local).flat_map(of);
            rights.filter(|rule| rule.resources.iter().flatten().any(|one| one == "secrets")).count()
        };
        assert_eq!([counted(Some(true), false), counted(Some(true), true)], [2, 2]);
        assert_eq!([counted(Some(false), false), counted(Some(false), true)], [0, 0]);
        assert_eq!([counted(None, false), counted(None, true)], [0, 2]);
    }

    #[test]
    fn whoever_answers_reads_hooks_where_certificates_are_mounted_and_writes_none() {
        let verbs = |is_self_managed, all| -> Vec<String> {
            let of = |given| rules(given, "", "", is_self_managed, all);
            let held = GIVEN.iter().filter(|given| given.holders.contains(&Role::Webhook)).flat_map(of);
            let is_hooks = |rule: &PolicyRule| {
                rule.resources.iter().flatten().any(|one| one == "validatingwebhookconfigurations")
            };
            held.filter(is_hooks).flat_map(|rule| rule.verbs).collect()
        };
        assert_eq!([verbs(Some(true), false), verbs(Some(true), true)], [[""; 0]; 2]);
        assert_eq!([verbs(Some(false), false), verbs(Some(false), true)], [["get"]; 2]);
        assert_eq!((verbs(None, false), verbs(None, true)), (vec![], vec!["get".to_owned()]));
    }
}
