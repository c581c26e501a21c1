//! Which namespaces a command reads: the namespaces that Copyrator reads, with the caller's own rights.

use std::{collections::BTreeSet, sync::Arc};

use k8s_openapi::api::apps::v1::Deployment;
use kube::{Api, Client, api::ListParams};

use super::{
    install::{Install, PART_OF},
    plan_settings::{Installed, Kinds},
};
use crate::{
    access::{AskError, Authorizer as _, CallerAuthorizer},
    api::GROUP,
    authority::Question,
    model::NamespaceScope,
    read::listing::ListError,
};

/// The namespaces to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadScope {
    /// All namespaces, according to Copyrator's Deployment.
    Everywhere,
    /// All namespaces, as an assumption: no Deployment could be read.
    Unknown,
    /// Only these namespaces, as the command line or the Deployment says.
    Only(BTreeSet<Arc<str>>),
    /// Only the namespace that the command is about, since the caller has rights only in this namespace;
    /// Copyrator reads all namespaces.
    One(Arc<str>),
    /// Only these namespaces, as the command line says; the text describes the different setting of the
    /// Deployment.
    Overridden(BTreeSet<Arc<str>>, String),
}

/// The settings of the operator: from the command line, else from the operator's Deployment, else the
/// defaults. The kinds that are copied beside ConfigMaps and Secrets, and the kinds whose objects templates
/// are rendered for, have no default: they are `None` if neither command line nor Deployment names them.
pub async fn settings(
    client: &Client,
    installed: &Installed,
    read_scope: &ReadScope,
) -> (Installed, Option<Kinds>) {
    let found = deployments(client, &installed.namespace).await.ok().filter(|found| !found.is_empty());
    let found = found.as_deref();
    let install = found.map(|found| Install::new(&installed.namespace, found).with_kinds(&installed.granted));
    let kinds = kinds(installed, install.as_ref());
    let kinds = kinds.map(|kinds| match read_scope.namespaces() {
        Some(_) => kinds.of_rules_in_some_namespaces(),
        None => kinds,
    });
    (install.map_or_else(|| installed.clone(), |install| installed.with(&install)), kinds)
}

fn kinds(installed: &Installed, install: Option<&Install<'_>>) -> Option<Kinds> {
    let said = Kinds { copied: installed.copy_kinds.clone(), templates: installed.template_kinds.clone() };
    let Some(install) = install else {
        return Some(said).filter(|said| !said.copied.is_empty() || !said.templates.is_empty());
    };
    Some(Kinds {
        copied: if said.copied.is_empty() { install.copy_kinds() } else { said.copied },
        templates: if said.templates.is_empty() { install.template_kinds() } else { said.templates },
    })
}

/// The Deployments in this namespace that carry the label of the chart.
async fn deployments(client: &Client, namespace: &str) -> kube::Result<Vec<Deployment>> {
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), namespace);
    let ours = ListParams::default().labels(&format!("app.kubernetes.io/part-of={PART_OF}"));
    deployments.list(&ours).await.map(|found| found.items)
}

impl ReadScope {
    /// The scope of the command line, or else of the Deployment.
    ///
    /// # Errors
    /// The command line names no namespaces, and the Deployment could not be read for a reason other than a
    /// refusal.
    pub(crate) async fn find(client: &Client, installed: &Installed) -> Result<Self, ListError> {
        let found = deployments(client, &installed.namespace).await;
        let is_refused = matches!(&found, Err(kube::Error::Api(status)) if status.code == 401);
        let told = Self::read(&installed.namespace, found);
        // A caller whose token is not valid can read no namespace, whatever Copyrator reads.
        if installed.namespaces.is_empty() || is_refused {
            return told;
        }
        Ok(Self::said(&installed.namespaces, told.ok()))
    }

    /// Returns this scope, or only the given namespace if the caller may not list namespaces and rules
    /// everywhere.
    ///
    /// # Errors
    /// The API server did not answer what the caller may do.
    pub(crate) async fn within_rights(
        self,
        client: &Client,
        namespace: Option<&str>,
    ) -> Result<Self, AskError> {
        let Some(namespace) = namespace.filter(|_| self.namespaces().is_none()) else { return Ok(self) };
        let caller = CallerAuthorizer::new(client.clone()).await?;
        let may_list = |group: &'static str, resource: &'static str| Question {
            subject: caller.caller().clone(),
            verb: "list",
            group: group.into(),
            resource: resource.into(),
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

    /// The scope of the command line, whatever the Deployment says.
    fn said(places: &BTreeSet<Arc<str>>, told: Option<Self>) -> Self {
        let elsewhere = match &told {
            None | Some(Self::Unknown) => return Self::Only(places.clone()),
            Some(told) if told.namespaces() == Some(places) => return Self::Only(places.clone()),
            Some(told) => told.in_words(),
        };
        let note = format!(
            "this output is for {} (--namespaces), but Copyrator's Deployment reads {elsewhere}: remove the flag",
            Self::Only(places.clone()).in_words()
        );
        Self::Overridden(places.clone(), note)
    }

    fn in_words(&self) -> String {
        match self.namespaces() {
            Some(places) => NamespaceScope::new(places.iter().cloned()).said(),
            None => "all namespaces".into(),
        }
    }

    fn read(namespace: &str, found: kube::Result<Vec<Deployment>>) -> Result<Self, ListError> {
        match found {
            Ok(deployments) => Ok(Self::told(namespace, &deployments)),
            // A caller who may not read the Deployment may have rights in all namespaces.
            Err(kube::Error::Api(status)) if matches!(status.code, 403 | 404) => Ok(Self::Unknown),
            Err(kube::Error::Api(status)) => Err(ListError::Failed {
                resource: format!(
                    "deployments in namespace {namespace} (Copyrator's Deployment shows which namespaces it reads)"
                ),
                code: status.code,
                message: status.message.clone(),
            }),
            Err(error) => Err(ListError::Unreachable(Box::new(error))),
        }
    }

    fn told(namespace: &str, deployments: &[Deployment]) -> Self {
        let install = Install::new(namespace, deployments);
        if deployments.is_empty() || install.hides_places() {
            return Self::Unknown;
        }
        let places: BTreeSet<Arc<str>> = install.namespaces().into_iter().map(Arc::from).collect();
        if places.is_empty() { Self::Everywhere } else { Self::Only(places) }
    }

    /// The namespaces, if only some are read.
    pub fn namespaces(&self) -> Option<&BTreeSet<Arc<str>>> {
        match self {
            Self::Everywhere | Self::Unknown | Self::One(_) => None,
            Self::Only(places) | Self::Overridden(places, _) => Some(places),
        }
    }

    /// The scopes of a list, for one namespace or all: `None` lists the whole cluster at once.
    pub(crate) fn scopes<'s>(&'s self, namespace: Option<&'s str>) -> Vec<Option<&'s str>> {
        match (namespace, self.namespaces()) {
            (Some(one), _) => vec![Some(one)],
            (None, None) if let Self::One(place) = self => vec![Some(place)],
            (None, None) => vec![None],
            (None, Some(places)) => places.iter().map(|place| Some(&**place)).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use clap::Parser as _;
    use http::{Request, Response};
    use kube::{client::Body, core::Status};
    use serde_json::{Value, json};

    use super::*;
    use crate::{installed::InstalledArgs, names::Kind};

    fn deployment(container: Value) -> Deployment {
        let deployment = json!({ "metadata": { "name": "copyrator" }, "spec": { "selector": {}, "template": { "spec": {
            "containers": [container] } } } });
        serde_json::from_value(deployment).unwrap()
    }

    fn told(arguments: &[&str], env: Value) -> ReadScope {
        let container = json!({ "name": "copyrator", "args": arguments, "env": env });
        ReadScope::told("ours", &[deployment(container)])
    }

    /// Whatever the values of the chart grant, a Copyrator that looks at some namespaces only copies no custom resource.
    #[tokio::test]
    async fn custom_resources_are_not_copied_in_some_namespaces() {
        let list = json!({ "metadata": {}, "items": [deployment(json!({
            "name": "copyrator", "args": ["serve", "--copy-kinds=NetworkPolicy", "--template-kinds=a.b/v1/A/as/render+copy"]
        }))] });
        let service = tower::service_fn(move |_: Request<Body>| {
            let answer = Response::new(Body::from(list.to_string().into_bytes()));
            async move { Ok::<_, Infallible>(answer) }
        });
        let client = Client::new(service, "default");
        let installed = Settings::parse_from(["command"]).installed.check().unwrap();
        let everywhere = settings(&client, &installed, &ReadScope::Everywhere).await.1.unwrap();
        assert_eq!((everywhere.copied.len(), everywhere.templates.len()), (2, 1));
        let some = settings(&client, &installed, &ReadScope::Only(places(&["shop"]))).await.1.unwrap();
        assert_eq!((some.copied, some.templates.len()), ([Kind::NetworkPolicy].into(), 0));
    }

    /// A plan with other limits than those of the operator would be false.
    #[tokio::test]
    async fn settings_are_those_of_the_deployment_where_no_flag_says_otherwise() {
        let list = json!({ "metadata": {}, "items": [deployment(json!({
            "name": "copyrator", "args": ["serve", "--deletion-grace=1h", "--max-copies-per-rule=7", "--annotations=false",
                "--system-namespaces=infra,$(POD_NAMESPACE)-x", "--trusted-writers=argo@apps", "--max-spread-bytes=nonsense"]
        }))] });
        let service = tower::service_fn(move |_: Request<Body>| {
            let answer = Response::new(Body::from(list.to_string().into_bytes()));
            async move { Ok::<_, Infallible>(answer) }
        });
        let client = Client::new(service, "default");
        let installed =
            Settings::parse_from(["command", "--max-copies-per-rule=9"]).installed.check().unwrap();
        let (told, _) = settings(&client, &installed, &ReadScope::Everywhere).await;
        let world = told.world(Kinds::default());
        let (settings, defaults) = (world.settings(), crate::model::Settings::default());
        assert_eq!(settings.default_grace.as_secs(), 3600);
        assert_eq!((settings.spread_limits.max_copies, settings.annotations), (9, false));
        assert_eq!(settings.spread_limits.max_bytes, defaults.spread_limits.max_bytes);
        let system = ["infra", "copyrator-system-x", "copyrator-system", "kube-system"];
        assert!(system.iter().all(|name| settings.system_namespaces.contains(*name)));
        assert_eq!(told.trusted(), ["argo@apps"].into_iter().collect());
        assert_eq!(installed.world(Kinds::default()).settings().default_grace.as_secs(), 300);
    }

    #[derive(clap::Parser)]
    struct Settings {
        #[command(flatten)]
        installed: InstalledArgs,
    }

    fn places(names: &[&str]) -> BTreeSet<Arc<str>> {
        names.iter().map(|name| Arc::from(*name)).collect()
    }

    #[test]
    fn a_deployment_says_where_it_looks() {
        assert_eq!(ReadScope::told("ours", &[]), ReadScope::Unknown);
        assert_eq!(told(&["serve", "--roles=reconciler"], json!([])), ReadScope::Everywhere);
        let some = told(&["serve", "--namespaces=shop,web"], json!([]));
        assert_eq!(some.scopes(None), [Some("shop"), Some("web")]);
        assert_eq!(some.scopes(Some("other")), [Some("other")]);
        assert_eq!(ReadScope::Everywhere.scopes(None), [None]);
    }

    /// As clap reads flags: they add up, and override the environment.
    #[test]
    fn all_that_serve_is_told_counts() {
        let name = "COPYRATOR_NAMESPACES";
        let by_name = json!([{ "name": name, "value": "shop, web" }]);
        let elsewhere =
            json!([{ "name": name, "valueFrom": { "configMapKeyRef": { "name": "c", "key": "k" } } }]);
        let by_flags = ["serve", "--namespaces=shop", "--namespaces", "$(POD_NAMESPACE),web"];
        for (arguments, env, expected) in [
            (&by_flags[..], &json!([]), ReadScope::Only(places(&["ours", "shop", "web"]))),
            (&["serve"], &by_name, ReadScope::Only(places(&["shop", "web"]))),
            (&["serve", "--namespaces=docs"], &by_name, ReadScope::Only(places(&["docs"]))),
            (&["serve"], &elsewhere, ReadScope::Unknown),
            (&["serve", "--namespaces=docs"], &elsewhere, ReadScope::Only(places(&["docs"]))),
        ] {
            assert_eq!(told(arguments, env.clone()), expected, "{arguments:?} {env}");
        }
    }

    /// A lost answer must not turn an install for some namespaces into one for all.
    #[test]
    fn only_a_refusal_leaves_it_open() {
        let answer = |code: u16| {
            let status = Status { code, message: "no".into(), ..Status::default() };
            ReadScope::read("ours", Err(kube::Error::Api(Box::new(status))))
        };
        for code in [403, 404] {
            assert!(matches!(answer(code), Ok(ReadScope::Unknown)), "{code}");
        }
        for code in [401, 429, 500, 503] {
            let error = answer(code).unwrap_err();
            assert!(matches!(error, ListError::Failed { .. }), "{code}: {error}");
        }
        let lost = ReadScope::read("ours", Err(kube::Error::LinesCodecMaxLineLengthExceeded));
        assert!(matches!(lost, Err(ListError::Unreachable(_))), "{lost:?}");
    }

    #[test]
    fn a_flag_that_differs_from_the_deployment_is_told() {
        let said = places(&["shop", "web"]);
        for told in [None, Some(ReadScope::Unknown), Some(ReadScope::Only(said.clone()))] {
            assert_eq!(ReadScope::said(&said, told), ReadScope::Only(said.clone()));
        }
        for (told, words) in [
            (ReadScope::Everywhere, "all namespaces"),
            (ReadScope::Only(places(&["docs", "shop"])), "namespaces docs, shop"),
        ] {
            let ReadScope::Overridden(looked, note) = ReadScope::said(&said, Some(told)) else {
                panic!("{words}")
            };
            assert_eq!(looked, said);
            assert!(note.starts_with("this output is for namespaces shop, web (--namespaces), "), "{note}");
            assert!(note.contains(&format!("Deployment reads {words}: ")), "{note}");
        }
    }
}
