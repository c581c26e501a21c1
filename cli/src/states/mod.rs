//! The state of rules, templates, monitors and policies, according to their statuses in the cluster.

pub mod copies;
mod list;
mod object_row;
pub mod restarts;
mod table;

use kube::{Api, Client, ResourceExt, api::ApiResource};

pub use self::{
    list::ReadError,
    object_row::{ObjectRow, of_annotations, of_workloads, sort},
    table::table,
};
use self::{
    list::{Reported, Scope, items, list},
    object_row::{of_monitor, of_policy, of_rule, of_template},
};
use crate::{
    api::{
        ConfigMonitor, ConfigMonitorStatus, ConfigPolicy, ConfigPolicyStatus, CopyratorRule,
        CopyratorTemplate, CopyratorTemplateStatus, ExistingViolation,
    },
    installed::ReadScope,
};

/// Reads every rule, template and monitor of one namespace or all, and every policy. Also returns whether the
/// caller may not read some namespace.
pub async fn read(
    client: &Client,
    read_scope: &ReadScope,
    namespace: Option<&str>,
    labels: Option<&str>,
) -> Result<(Vec<ObjectRow>, bool), ReadError> {
    let scopes = read_scope.scopes(namespace);
    let (rules, no_rules) = list::<CopyratorRule, _>(client, read_scope, &scopes, labels).await?;
    let mut rows: Vec<ObjectRow> = rules.into_iter().map(of_rule).collect();
    rows.extend(templates(client, read_scope, &scopes, labels).await?);
    let (monitors, no_monitors) =
        list::<ConfigMonitor, ConfigMonitorStatus>(client, read_scope, &scopes, labels).await?;
    rows.extend(monitors.into_iter().map(of_monitor));
    // If Copyrator reads only some namespaces, no policy is in force.
    if scopes.contains(&None) {
        let resource = ApiResource::erase::<ConfigPolicy>(&());
        let policies: Vec<Reported<ConfigPolicyStatus>> =
            items(Api::all_with(client.clone(), &resource), &resource, &Scope::Cluster, labels).await?;
        rows.extend(policies.into_iter().map(of_policy));
    }
    Ok((rows, no_rules || no_monitors))
}

/// The violations by existing objects, each with its policy, from the policies' statuses.
pub async fn existing_violations(client: &Client) -> Result<Vec<(String, ExistingViolation)>, ReadError> {
    let resource = ApiResource::erase::<ConfigPolicy>(&());
    let policies: Vec<Reported<ConfigPolicyStatus>> =
        items(Api::all_with(client.clone(), &resource), &resource, &Scope::Cluster, None).await?;
    let of = |policy: Reported<ConfigPolicyStatus>| {
        let (name, status) = (policy.name_any(), policy.status.unwrap_or_default());
        status.violations.into_iter().map(move |found| (name.clone(), found))
    };
    Ok(policies.into_iter().flat_map(of).collect())
}

/// Reads the templates. The list is empty if Copyrator reads only some namespaces, or if an earlier install
/// does not have the kind.
async fn templates(
    client: &Client,
    read_scope: &ReadScope,
    scopes: &[Option<&str>],
    labels: Option<&str>,
) -> Result<Vec<ObjectRow>, ReadError> {
    if read_scope.namespaces().is_some() {
        return Ok(Vec::new());
    }
    match list::<CopyratorTemplate, CopyratorTemplateStatus>(client, read_scope, scopes, labels).await {
        Ok((templates, _)) => Ok(templates.into_iter().map(of_template).collect()),
        Err(ReadError::Refused { .. }) => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// Reads the rules of other namespaces that have copies in this namespace.
pub(super) async fn read_rules(
    client: &Client,
    read_scope: &ReadScope,
    labels: Option<&str>,
    is_wanted: impl Fn(&str, &str) -> bool,
) -> Result<Vec<ObjectRow>, ReadError> {
    let (mut rules, _) =
        list::<CopyratorRule, _>(client, read_scope, &read_scope.scopes(None), labels).await?;
    rules.retain(|rule| is_wanted(&rule.namespace().unwrap_or_default(), &rule.name_any()));
    Ok(rules.into_iter().map(of_rule).collect())
}
