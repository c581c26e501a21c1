//! Which namespaces Copyrator looks at. A command that says what it does looks at the same ones, with the
//! caller's own rights.

use std::{collections::BTreeSet, sync::Arc};

use k8s_openapi::api::apps::v1::Deployment;
use kube::{Api, Client, api::ListParams};

use super::{
    install::{Install, PART_OF},
    installed::Installed,
};
use crate::{
    access::{AskError, Authorizer as _, CallerAuthorizer},
    api::GROUP,
    authority::Question,
    model::Places,
    observe::listing::ListError,
};

/// Where to look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Sight {
    /// In all namespaces, as Copyrator's Deployment does.
    Everywhere,
    /// In all namespaces, since nobody says otherwise: no Deployment could be read.
    NotTold,
    /// In these only.
    Places(BTreeSet<Arc<str>>),
    /// In the namespace that is asked about only, since the caller's rights end there; Copyrator looks at
    /// all.
    One(Arc<str>),
    /// In these only, as the command line says; the Deployment says something else, in words.
    Contrary(BTreeSet<Arc<str>>, String),
}

impl Sight {
    /// What the command line says, or else the Deployment.
    ///
    /// # Errors
    /// Nothing says it, and whether the Deployment does is not known: the API server did not answer, or with
    /// something else than a refusal.
    pub(crate) async fn find(client: &Client, installed: &Installed) -> Result<Self, ListError> {
        let deployments: Api<Deployment> = Api::namespaced(client.clone(), &installed.namespace);
        let ours = ListParams::default().labels(&format!("app.kubernetes.io/part-of={PART_OF}"));
        let found = deployments.list(&ours).await.map(|found| found.items);
        let told = Self::read(&installed.namespace, found);
        if installed.places.is_empty() { told } else { Ok(Self::said(&installed.places, told.ok())) }
    }

    /// The same for a caller who may not list namespaces and rules everywhere, and asks about one namespace:
    /// that one only.
    ///
    /// # Errors
    /// The API server did not say what the caller may.
    pub(crate) async fn within_rights(
        self,
        client: &Client,
        namespace: Option<&str>,
    ) -> Result<Self, AskError> {
        let Some(namespace) = namespace.filter(|_| self.places().is_none()) else { return Ok(self) };
        let caller = CallerAuthorizer::new(client.clone()).await?;
        let may_list = |group, resource| Question {
            subject: caller.caller().clone(),
            verb: "list",
            group,
            resource,
            subresource: None,
            name: None,
            namespace: String::new(),
        };
        for (group, resource) in [("", "namespaces"), (GROUP, "copyratorrules")] {
            if !caller.allowed(&may_list(group, resource)).await? {
                return Ok(Self::One(namespace.into()));
            }
        }
        Ok(self)
    }

    /// What the command line says, whatever the Deployment does.
    fn said(places: &BTreeSet<Arc<str>>, told: Option<Self>) -> Self {
        let elsewhere = match &told {
            None | Some(Self::NotTold) => return Self::Places(places.clone()),
            Some(told) if told.places() == Some(places) => return Self::Places(places.clone()),
            Some(told) => told.in_words(),
        };
        let note = format!(
            "--namespaces says {}, and so does what follows; Copyrator's Deployment looks at {elsewhere}: leave the flag out",
            Self::Places(places.clone()).in_words()
        );
        Self::Contrary(places.clone(), note)
    }

    fn in_words(&self) -> String {
        match self.places() {
            Some(places) => Places::new(places.iter().cloned()).said(),
            None => "all namespaces".into(),
        }
    }

    fn read(namespace: &str, found: kube::Result<Vec<Deployment>>) -> Result<Self, ListError> {
        match found {
            Ok(deployments) => Ok(Self::told(namespace, &deployments)),
            // A caller who may not read the Deployment may see all namespaces there are.
            Err(kube::Error::Api(status)) if matches!(status.code, 403 | 404) => Ok(Self::NotTold),
            Err(kube::Error::Api(status)) => Err(ListError::Failed {
                resource: format!(
                    "deployments in namespace {namespace}, of which Copyrator's says where it looks"
                ),
                message: status.message.clone(),
            }),
            Err(error) => Err(ListError::Unreachable(Box::new(error))),
        }
    }

    fn told(namespace: &str, deployments: &[Deployment]) -> Self {
        let install = Install::new(namespace, deployments);
        if deployments.is_empty() || install.hides_places() {
            return Self::NotTold;
        }
        let places: BTreeSet<Arc<str>> = install.places().into_iter().map(Arc::from).collect();
        if places.is_empty() { Self::Everywhere } else { Self::Places(places) }
    }

    /// The namespaces, where only some are looked at.
    pub(crate) fn places(&self) -> Option<&BTreeSet<Arc<str>>> {
        match self {
            Self::Everywhere | Self::NotTold | Self::One(_) => None,
            Self::Places(places) | Self::Contrary(places, _) => Some(places),
        }
    }

    /// Where to list what is of one namespace, or of all that are looked at: `None` lists the whole cluster
    /// at once.
    pub(crate) fn scopes<'s>(&'s self, namespace: Option<&'s str>) -> Vec<Option<&'s str>> {
        match (namespace, self.places()) {
            (Some(one), _) => vec![Some(one)],
            (None, None) if let Self::One(place) = self => vec![Some(place)],
            (None, None) => vec![None],
            (None, Some(places)) => places.iter().map(|place| Some(&**place)).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use kube::core::Status;
    use serde_json::{Value, json};

    use super::*;

    fn deployment(container: Value) -> Deployment {
        let deployment = json!({ "metadata": { "name": "copyrator" }, "spec": { "selector": {}, "template": { "spec": {
            "containers": [container] } } } });
        serde_json::from_value(deployment).unwrap()
    }

    fn told(arguments: &[&str], env: Value) -> Sight {
        let container = json!({ "name": "copyrator", "args": arguments, "env": env });
        Sight::told("ours", &[deployment(container)])
    }

    fn places(names: &[&str]) -> BTreeSet<Arc<str>> {
        names.iter().map(|name| Arc::from(*name)).collect()
    }

    #[test]
    fn a_deployment_says_where_it_looks() {
        assert_eq!(Sight::told("ours", &[]), Sight::NotTold);
        assert_eq!(told(&["serve", "--roles=reconciler"], json!([])), Sight::Everywhere);
        let some = told(&["serve", "--namespaces=shop,web"], json!([]));
        assert_eq!(some.scopes(None), [Some("shop"), Some("web")]);
        assert_eq!(some.scopes(Some("other")), [Some("other")]);
        assert_eq!(Sight::Everywhere.scopes(None), [None]);
    }

    /// As clap takes it: flags add up, and say more than the environment.
    #[test]
    fn all_that_serve_is_told_counts() {
        let name = "COPYRATOR_NAMESPACES";
        let by_name = json!([{ "name": name, "value": "shop, web" }]);
        let elsewhere =
            json!([{ "name": name, "valueFrom": { "configMapKeyRef": { "name": "c", "key": "k" } } }]);
        let by_flags = ["serve", "--namespaces=shop", "--namespaces", "$(POD_NAMESPACE),web"];
        for (arguments, env, expected) in [
            (&by_flags[..], &json!([]), Sight::Places(places(&["ours", "shop", "web"]))),
            (&["serve"], &by_name, Sight::Places(places(&["shop", "web"]))),
            (&["serve", "--namespaces=docs"], &by_name, Sight::Places(places(&["docs"]))),
            (&["serve"], &elsewhere, Sight::NotTold),
            (&["serve", "--namespaces=docs"], &elsewhere, Sight::Places(places(&["docs"]))),
        ] {
            assert_eq!(told(arguments, env.clone()), expected, "{arguments:?} {env}");
        }
    }

    /// An answer that is lost must not turn an install for some namespaces into one for all.
    #[test]
    fn only_a_refusal_leaves_it_open() {
        let answer = |code: u16| {
            let status = Status { code, message: "no".into(), ..Status::default() };
            Sight::read("ours", Err(kube::Error::Api(Box::new(status))))
        };
        for code in [403, 404] {
            assert!(matches!(answer(code), Ok(Sight::NotTold)), "{code}");
        }
        for code in [401, 429, 500, 503] {
            let error = answer(code).unwrap_err();
            assert!(matches!(error, ListError::Failed { .. }), "{code}: {error}");
        }
        let lost = Sight::read("ours", Err(kube::Error::LinesCodecMaxLineLengthExceeded));
        assert!(matches!(lost, Err(ListError::Unreachable(_))), "{lost:?}");
    }

    #[test]
    fn who_says_otherwise_than_the_deployment_is_told() {
        let said = places(&["shop", "web"]);
        for told in [None, Some(Sight::NotTold), Some(Sight::Places(said.clone()))] {
            assert_eq!(Sight::said(&said, told), Sight::Places(said.clone()));
        }
        for (told, words) in [
            (Sight::Everywhere, "all namespaces"),
            (Sight::Places(places(&["docs", "shop"])), "namespaces docs, shop"),
        ] {
            let Sight::Contrary(looked, note) = Sight::said(&said, Some(told)) else { panic!("{words}") };
            assert_eq!(looked, said);
            assert!(note.starts_with("--namespaces says namespaces shop, web, "), "{note}");
            assert!(note.contains(&format!("Deployment looks at {words}: ")), "{note}");
        }
    }
}
