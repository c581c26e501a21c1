//! Which namespaces Copyrator looks at. A command that says what it does looks at the same ones, with the caller's own rights.

use std::{collections::BTreeSet, sync::Arc};

use k8s_openapi::api::apps::v1::Deployment;
use kube::{Api, Client, api::ListParams};

use super::{
    doctor::{Install, PART_OF},
    installed::Installed,
};

/// Where to look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Sight {
    /// In all namespaces, as Copyrator's Deployment does.
    Everywhere,
    /// In all namespaces, since nobody says otherwise: no Deployment could be read.
    NotTold,
    /// In these only.
    Places(BTreeSet<Arc<str>>),
}

impl Sight {
    /// What the command line says, or else the Deployment.
    pub(super) async fn find(client: &Client, installed: &Installed) -> Self {
        if !installed.places.is_empty() {
            return Self::Places(installed.places.clone());
        }
        let deployments: Api<Deployment> = Api::namespaced(client.clone(), &installed.namespace);
        let ours = ListParams::default().labels(&format!("app.kubernetes.io/part-of={PART_OF}"));
        match deployments.list(&ours).await {
            Ok(found) => Self::told(&installed.namespace, &found.items),
            // Who may not read it may see all there is; and where nobody answers, the next question tells.
            Err(_) => Self::NotTold,
        }
    }

    fn told(namespace: &str, deployments: &[Deployment]) -> Self {
        if deployments.is_empty() {
            return Self::NotTold;
        }
        let places = Install::new(namespace, deployments).places();
        let places: BTreeSet<Arc<str>> = places.into_iter().map(Arc::from).collect();
        if places.is_empty() { Self::Everywhere } else { Self::Places(places) }
    }

    /// The namespaces, where only some are looked at.
    pub(super) fn places(&self) -> Option<&BTreeSet<Arc<str>>> {
        match self {
            Self::Everywhere | Self::NotTold => None,
            Self::Places(places) => Some(places),
        }
    }

    /// Where to list what is of one namespace, or of all that are looked at: `None` lists the whole cluster at once.
    pub(super) fn scopes<'s>(&'s self, namespace: Option<&'s str>) -> Vec<Option<&'s str>> {
        match (namespace, self.places()) {
            (Some(one), _) => vec![Some(one)],
            (None, None) => vec![None],
            (None, Some(places)) => places.iter().map(|place| Some(&**place)).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn told(arguments: &[&str]) -> Sight {
        let deployment = json!({ "metadata": { "name": "copyrator" }, "spec": { "selector": {}, "template": { "spec": {
            "containers": [{ "name": "copyrator", "args": arguments }] } } } });
        Sight::told("ours", &[serde_json::from_value(deployment).unwrap()])
    }

    #[test]
    fn a_deployment_says_where_it_looks() {
        assert_eq!(Sight::told("ours", &[]), Sight::NotTold);
        assert_eq!(told(&["serve", "--roles=reconciler"]), Sight::Everywhere);
        let some = told(&["serve", "--namespaces=shop,web"]);
        assert_eq!(some.scopes(None), [Some("shop"), Some("web")]);
        assert_eq!(some.scopes(Some("other")), [Some("other")]);
        assert_eq!(Sight::Everywhere.scopes(None), [None]);
    }
}
