//! How our own objects stand, from their statuses: read from the cluster, worst first.

pub(super) mod copies;
pub(super) mod restarts;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{ApiResource, ListParams},
    core::Object,
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use self::{copies::CopyStanding, restarts::RestartRow};
use super::{
    operator::Sight,
    survey::Survey,
    terminal::{Exit, aligned, refused::words},
};
use crate::{
    api::{
        ConfigMonitor, ConfigMonitorStatus, ConfigPolicy, ConfigPolicySpec, ConfigPolicyStatus,
        CopyratorRule, CopyratorRuleStatus, Problem, StandingViolation, WhileInUse, speaks_of,
    },
    names::{Kind, NamespacedName},
    plan::copy::rule_status,
};

/// Why nothing can be shown.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReadError {
    /// The API server said no.
    #[error("cannot list {plural} {scope}: {message}{hint}")]
    Refused {
        /// What was to be listed.
        plural: String,
        /// Where.
        scope: String,
        /// The API server's words.
        message: String,
        /// What may work instead.
        hint: &'static str,
    },
    /// No answer.
    #[error("cannot reach the cluster")]
    Unreachable(#[source] Box<kube::Error>),
}

impl ReadError {
    /// How a command ends that cannot go on.
    pub(super) fn exit(&self) -> Exit {
        if matches!(self, Self::Unreachable(_)) { Exit::Unreachable } else { Exit::Findings }
    }
}

/// One object and how it stands.
#[derive(Debug, Serialize)]
pub(super) struct Standing {
    /// The rule that it is, or whose source.
    #[serde(skip)]
    rule: Option<NamespacedName>,
    /// Its status speaks of an earlier spec, or of none.
    #[serde(skip)]
    is_behind: bool,
    kind: &'static str,
    namespace: String,
    name: String,
    ready: String,
    reason: String,
    /// Counts, in words.
    summary: String,
    message: String,
    degraded: bool,
    problems: Vec<Problem>,
    /// Of a rule: every copy, the worst first; absent where they may not be seen one by one.
    #[serde(skip_serializing_if = "Option::is_none")]
    copies: Option<Vec<CopyStanding>>,
    /// The monitor that it is.
    #[serde(skip)]
    monitor: Option<NamespacedName>,
    /// Of a monitor: every workload, the worst first; absent where they may not be seen one by one.
    #[serde(skip_serializing_if = "Option::is_none")]
    workloads: Option<Vec<RestartRow>>,
}

impl Standing {
    /// Something is not as declared.
    pub(super) fn is_worrying(&self) -> bool {
        self.ready != "True"
            || self.degraded
            || self.copies.iter().flatten().any(CopyStanding::is_worrying)
            || self.workloads.iter().flatten().any(RestartRow::is_worrying)
    }

    /// Somebody who waits for everything to be as declared waits for this.
    pub(super) fn is_unsettled(&self) -> bool {
        self.is_behind || self.ready != "True" || self.degraded
    }

    /// What keeps it from being as declared, in a line.
    pub(super) fn in_short(&self) -> String {
        let name = [self.namespace.as_str(), self.name.as_str()].join("/");
        let state = match (self.is_behind, self.ready == "True" && self.degraded) {
            (true, _) => "its status does not speak of its spec yet".to_owned(),
            (false, true) => "Degraded".to_owned(),
            (false, false) => format!("Ready is {}", self.ready),
        };
        let problem = self.problems.first();
        let (reason, message) = match problem.filter(|_| self.ready == "True") {
            Some(problem) => (&problem.reason, &problem.message),
            None => (&self.reason, &self.message),
        };
        format!("{} {}: {state}, {reason}: {message}", self.kind, name.trim_start_matches('/'))
    }

    /// As `-o name` has it.
    pub(super) fn kind_and_name(&self) -> (&'static str, &str) {
        (self.kind, &self.name)
    }

    /// The namespace that it is in; nothing of a policy.
    pub(super) fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Hands a monitor its workloads.
    pub(super) fn give_workloads(&mut self, workloads: Option<&[RestartRow]>) {
        if let (Some(monitor), Some(workloads)) = (&self.monitor, workloads) {
            self.workloads = Some(workloads.iter().filter(|row| row.is_of(monitor)).cloned().collect());
        }
    }

    /// Hands a rule its copies.
    pub(super) fn give(&mut self, copies: &[CopyStanding]) {
        if let Some(rule) = &self.rule {
            let is_ours = |copy: &&CopyStanding| copy.rule.as_ref() == Some(rule);
            self.copies = Some(copies.iter().filter(is_ours).cloned().collect());
        }
    }
}

/// Every rule and monitor of one namespace or all, and every policy, worst first; and whether a namespace of
/// several may not be read.
pub(super) async fn read(
    client: &Client,
    sight: &Sight,
    namespace: Option<&str>,
    labels: Option<&str>,
) -> Result<(Vec<Standing>, bool), ReadError> {
    let scopes = sight.scopes(namespace);
    let (rules, no_rules) = list::<CopyratorRule, _>(client, sight, &scopes, labels).await?;
    let mut rows: Vec<Standing> = rules.into_iter().map(of_rule).collect();
    let (monitors, no_monitors) =
        list::<ConfigMonitor, ConfigMonitorStatus>(client, sight, &scopes, labels).await?;
    for monitor in monitors {
        let status = monitor.status.clone().unwrap_or_default();
        let mut summary = format!("{} of {} workloads", status.up_to_date, status.workloads);
        for (count, word) in
            [(status.restarting, "restarting"), (status.waiting, "waiting"), (status.failed, "failed")]
        {
            if count > 0 {
                summary = format!("{summary}, {count} {word}");
            }
        }
        let name = NamespacedName::new(monitor.namespace().unwrap_or_default(), monitor.name_any());
        let row = standing("ConfigMonitor", &monitor, summary, &status.conditions, status.problems);
        rows.push(Standing { monitor: Some(name), ..row });
    }
    // Where only some namespaces are looked at, no policy is in force.
    if scopes.contains(&None) {
        let resource = ApiResource::erase::<ConfigPolicy>(&());
        let policies: Vec<Reported<ConfigPolicyStatus>> =
            items(Api::all_with(client.clone(), &resource), &resource, &Scope::Cluster, labels).await?;
        for policy in policies {
            let status = policy.status.clone().unwrap_or_default();
            let spec = serde_json::from_value(policy.spec.clone()).unwrap_or_default();
            let summary = match status.violation_count {
                Some(count) if count > 0 => format!("{}; violations {count}", demands(&spec)),
                _ => demands(&spec),
            };
            let problems = status.problems.into_iter().chain(status.violations.into_iter().map(violation));
            rows.push(standing("ConfigPolicy", &policy, summary, &status.conditions, problems.collect()));
        }
    }
    Ok((rows, no_rules || no_monitors))
}

/// The rules of other namespaces, of which copies land in this one.
pub(super) async fn read_rules(
    client: &Client,
    sight: &Sight,
    labels: Option<&str>,
    is_wanted: impl Fn(&str, &str) -> bool,
) -> Result<Vec<Standing>, ReadError> {
    let (mut rules, _) = list::<CopyratorRule, _>(client, sight, &sight.scopes(None), labels).await?;
    rules.retain(|rule| is_wanted(&rule.namespace().unwrap_or_default(), &rule.name_any()));
    Ok(rules.into_iter().map(of_rule).collect())
}

/// Puts the worst first.
pub(super) fn sort(rows: &mut [Standing]) {
    rows.sort_by_key(|row| {
        let worst_first = (row.ready == "True", !row.is_worrying());
        (worst_first, row.kind, row.namespace.clone(), row.name.clone())
    });
}

fn of_rule(rule: Reported<CopyratorRuleStatus>) -> Standing {
    let status = rule.status.clone().unwrap_or_default();
    let summary = format!("{} of {} copies", status.current, status.desired);
    let name = NamespacedName::new(rule.namespace().unwrap_or_default(), rule.name_any());
    let row = standing("CopyratorRule", &rule, summary, &status.conditions, status.problems);
    Standing { rule: Some(name), ..row }
}

/// The sources that ask for copies by annotations of their own, of these rules: they have no status, so that
/// it is worked out here.
pub(super) fn of_annotations(survey: &Survey, is_wanted: impl Fn(&NamespacedName) -> bool) -> Vec<Standing> {
    let wanted = survey.world.rules().keys().filter(|rule| is_wanted(rule));
    let row = |rule: &NamespacedName| {
        let source = rule.annotated()?;
        let status = rule_status(&survey.world, rule, survey.now)?;
        let ready = status.conditions.iter().find(|one| one.type_ == "Ready")?;
        Some(Standing {
            rule: Some(rule.clone()),
            is_behind: false,
            kind: match source.kind {
                Kind::ConfigMap => "ConfigMap",
                Kind::Secret => "Secret",
            },
            namespace: source.namespace.to_string(),
            name: source.name.to_string(),
            ready: ready.status.clone(),
            reason: ready.reason.clone(),
            summary: format!("{} of {} copies, by annotation", status.current, status.desired),
            message: ready.message.clone(),
            degraded: status.conditions.iter().any(|one| one.type_ == "Degraded" && one.status == "True"),
            problems: status.problems,
            copies: None,
            monitor: None,
            workloads: None,
        })
    };
    wanted.filter_map(row).collect()
}

/// The workloads that no monitor speaks of, for machines: people have them in the table of workloads.
pub(super) fn of_workloads(workloads: &[RestartRow]) -> Vec<Standing> {
    let alone = workloads.iter().filter(|row| row.monitors.is_empty());
    let row = |row: &RestartRow| Standing {
        rule: None,
        is_behind: false,
        kind: match &*row.kind {
            "Deployment" => "Deployment",
            "StatefulSet" => "StatefulSet",
            _ => "DaemonSet",
        },
        namespace: row.namespace.clone(),
        name: row.name.clone(),
        ready: if row.is_worrying() { "False".into() } else { "True".into() },
        reason: row.reason.clone(),
        summary: if row.by_annotation { "by annotation".into() } else { String::new() },
        message: row.message.clone(),
        degraded: false,
        problems: Vec::new(),
        copies: None,
        monitor: None,
        workloads: Some(vec![row.clone()]),
    };
    alone.map(row).collect()
}

/// An object that breaks a policy already, as a problem of the policy.
fn violation(found: StandingViolation) -> Problem {
    let StandingViolation { kind, namespace, name, rule, key, message } = found;
    let key = key.map(|key| format!(", key {key}")).unwrap_or_default();
    let message = format!("{kind:?}, rule {rule}{key}: {message}");
    Problem { namespace, name, reason: "Violation".into(), message }
}

/// How much a policy demands, in words.
fn demands(spec: &ConfigPolicySpec) -> String {
    let labels = spec.labels.as_ref().map_or(0, |labels| labels.required.len() + labels.patterns.len());
    let defaults = spec.defaults.as_ref().map_or(0, |given| given.labels.len() + given.annotations.len());
    let counts = [
        (spec.data.len(), "data"),
        (labels, "labels"),
        (spec.validations.len(), "CEL"),
        (usize::from(spec.limits.is_some()), "limits"),
        (usize::from(spec.warn_above.is_some()), "warnAbove"),
        (usize::from(spec.while_in_use == WhileInUse::Refuse), "whileInUse"),
        (defaults, "defaults"),
    ];
    let words = counts.iter().filter(|(count, _)| *count > 0).map(|(count, word)| format!("{word} {count}"));
    words.collect::<Vec<_>>().join(", ")
}

/// An object of ours, whose spec a newer version may have written: only what its status says is shown.
type Reported<Status> = Object<Value, Status>;

/// Where something is listed.
enum Scope<'s> {
    /// In one namespace.
    One(&'s str),
    /// In one that Copyrator does not look at.
    Unserved(&'s str),
    /// In all of them.
    All,
    /// In none, since the kind has no namespaces.
    Cluster,
}

impl Scope<'_> {
    /// In words.
    fn said(&self) -> String {
        match self {
            Self::One(namespace) | Self::Unserved(namespace) => format!("in namespace {namespace}"),
            Self::All => "in all namespaces".into(),
            Self::Cluster => "in the cluster".into(),
        }
    }

    /// What may work for a user who may not list there.
    fn hint(&self) -> &'static str {
        match self {
            Self::One(_) => {
                "; a Role in it does that lets you list copyratorrules and configmonitors (copyrator.dev)"
            }
            Self::Unserved(_) => "; this Copyrator does not look at it (--namespaces)",
            Self::All => "; one namespace may do: copyrator status -n NAMESPACE",
            Self::Cluster => {
                "; it takes a ClusterRole that lets you list configpolicies (copyrator.dev), which one namespace does \
                 without: copyrator status -n NAMESPACE"
            }
        }
    }
}

/// What is in these namespaces, and whether one of several may not be read: it is left out.
async fn list<K, Status>(
    client: &Client,
    sight: &Sight,
    scopes: &[Option<&str>],
    labels: Option<&str>,
) -> Result<(Vec<Reported<Status>>, bool), ReadError>
where
    K: Resource<DynamicType = ()>,
    Status: Clone + std::fmt::Debug + Default + DeserializeOwned,
{
    let resource = ApiResource::erase::<K>(&());
    let (mut all, mut refused) = (Vec::new(), Vec::new());
    for scope in scopes {
        let (api, scope) = match scope {
            Some(namespace) => {
                let is_served = sight.places().is_none_or(|places| places.contains(*namespace));
                let scope = if is_served { Scope::One(namespace) } else { Scope::Unserved(namespace) };
                (Api::namespaced_with(client.clone(), namespace, &resource), scope)
            }
            None => (Api::all_with(client.clone(), &resource), Scope::All),
        };
        match items(api, &resource, &scope, labels).await {
            Ok(items) => all.extend(items),
            Err(error @ ReadError::Refused { .. }) => refused.push(error),
            Err(error) => return Err(error),
        }
    }
    match refused.pop() {
        Some(error) if refused.len() + 1 == scopes.len() => Err(error),
        last => Ok((all, last.is_some())),
    }
}

async fn items<Status>(
    api: Api<Reported<Status>>,
    resource: &ApiResource,
    scope: &Scope<'_>,
    labels: Option<&str>,
) -> Result<Vec<Reported<Status>>, ReadError>
where
    Status: Clone + std::fmt::Debug + Default + DeserializeOwned,
{
    let refused = |message: String, hint| ReadError::Refused {
        plural: resource.plural.clone(),
        scope: scope.said(),
        message,
        hint,
    };
    let params = labels.map_or_else(ListParams::default, |labels| ListParams::default().labels(labels));
    match api.list(&params).await {
        Ok(list) => Ok(list.items),
        Err(kube::Error::Api(status)) if status.code == 403 => Err(refused(status.message, scope.hint())),
        Err(kube::Error::Api(status)) if status.code == 404 => Err(refused(
            "the cluster does not know this kind".into(),
            "; is Copyrator installed? copyrator crds | kubectl apply --server-side -f -",
        )),
        Err(kube::Error::Api(status)) => Err(refused(words(&status), "")),
        Err(error) => Err(ReadError::Unreachable(Box::new(error))),
    }
}

fn standing<K: ResourceExt>(
    kind: &'static str,
    object: &K,
    summary: String,
    conditions: &[Condition],
    problems: Vec<Problem>,
) -> Standing {
    let ready = conditions.iter().find(|condition| condition.type_ == "Ready");
    let generation = object.meta().generation.unwrap_or_default();
    Standing {
        rule: None,
        is_behind: !speaks_of(conditions, "Ready", generation),
        kind,
        namespace: object.namespace().unwrap_or_default(),
        name: object.name_any(),
        ready: ready.map_or_else(|| "Unknown".into(), |condition| condition.status.clone()),
        reason: ready.map_or_else(|| "NotSeenYet".into(), |condition| condition.reason.clone()),
        message: ready.map(|condition| condition.message.clone()).unwrap_or_default(),
        degraded: conditions
            .iter()
            .any(|condition| condition.type_ == "Degraded" && condition.status == "True"),
        summary,
        problems,
        copies: None,
        monitor: None,
        workloads: None,
    }
}

/// For people: a line an object, and below it what is wrong.
pub(super) fn table(rows: &[Standing]) -> String {
    if rows.is_empty() {
        return "no rules, monitors or policies\n".into();
    }
    let header = ["KIND", "NAMESPACE", "NAME", "READY", "REASON", "SUMMARY"].map(str::to_owned);
    let cells = rows.iter().map(|row| {
        [
            row.kind.to_owned(),
            if row.namespace.is_empty() { "-".into() } else { row.namespace.clone() },
            row.name.clone(),
            if row.ready == "True" && row.degraded { "Degraded".into() } else { row.ready.clone() },
            row.reason.clone(),
            row.summary.clone(),
        ]
    });
    let lines: Vec<[String; 6]> = std::iter::once(header).chain(cells).collect();
    let mut text = String::new();
    for (index, line) in aligned(&lines).iter().enumerate() {
        text.push_str(line);
        text.push('\n');
        if let Some(row) = index.checked_sub(1).and_then(|row| rows.get(row)) {
            if row.ready != "True" && !row.message.is_empty() {
                text.push_str(&format!("    {}\n", row.message));
            }
            for problem in &row.problems {
                let at = [problem.namespace.as_str(), problem.name.as_str()].join("/");
                text.push_str(&format!(
                    "    {} {}: {}\n",
                    problem.reason,
                    at.trim_matches('/'),
                    problem.message
                ));
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_may_not_list_is_told_what_lets_him_list_there() {
        let said = |scope: &Scope<'_>, plural: &str| {
            let (plural, message) = (plural.to_owned(), "forbidden".to_owned());
            ReadError::Refused { plural, scope: scope.said(), message, hint: scope.hint() }.to_string()
        };
        assert_eq!(
            said(&Scope::One("shop"), "copyratorrules"),
            "cannot list copyratorrules in namespace shop: forbidden; a Role in it does that lets you list copyratorrules \
             and configmonitors (copyrator.dev)"
        );
        assert_eq!(
            said(&Scope::Unserved("shop"), "copyratorrules"),
            "cannot list copyratorrules in namespace shop: forbidden; this Copyrator does not look at it (--namespaces)"
        );
        assert_eq!(
            said(&Scope::All, "copyratorrules"),
            "cannot list copyratorrules in all namespaces: forbidden; one namespace may do: copyrator status -n NAMESPACE"
        );
        assert_eq!(
            said(&Scope::Cluster, "configpolicies"),
            "cannot list configpolicies in the cluster: forbidden; it takes a ClusterRole that lets you list configpolicies \
             (copyrator.dev), which one namespace does without: copyrator status -n NAMESPACE"
        );
    }
}
