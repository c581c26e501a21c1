//! One benchmark's cluster, with Copyrator in it by its chart, and the processes that are measured.

use std::path::Path;
use std::time::{Duration, Instant};

use copyrator::testing::{Target, clients};
use devcluster::{Component, Options};
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use kube::{Api, Client};
use serde_json::{Value, json};
use testbed::{Operator, RELEASE, Role, Testbed};

use crate::Outcome;
use crate::audit::{AuditLog, Request};
use crate::objects::{HOME, collection, namespace};
use crate::program::Program;
use crate::sizes::Sizes;
use crate::wire::Endpoint;
use crate::writes::{self, Prepared};

/// Requests under way at once: as many as Copyrator has for anything but new namespaces.
pub(crate) const IN_FLIGHT: usize = 16;
/// How long anything that is waited for may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(300);
/// How often the audit log is read.
pub(crate) const LOOK: Duration = Duration::from_millis(20);

/// A cluster with Copyrator.
pub(crate) struct Arena {
    // Dropped in this order: the operator's processes end before their cluster.
    webhook: Option<Operator>,
    reconciler: Option<Operator>,
    bed: Testbed,
    more: Vec<&'static str>,
    /// How long nothing must be written before the next measurement begins.
    pub(crate) quiet: Duration,
    /// Above all rights, for the set-up.
    pub(crate) admin: Client,
    /// As the reconciler's account: what the bare client writes with, so that the API server asks of it what it asks
    /// of us.
    pub(crate) account: Client,
    pub(crate) audit: AuditLog,
    /// Hooks and policies that are taken away for a while.
    pub(crate) away: Away,
}

/// What was taken away: its collection, and the object to be put back.
pub(crate) type Away = Vec<(&'static str, Value)>;

impl Arena {
    /// Starts a cluster, and the webhook and the reconciler in it, and waits until the hooks are in force.
    pub(crate) async fn start(program: &Program, sizes: &Sizes) -> Outcome<Arena> {
        eprintln!("  starting a cluster");
        let cluster = devcluster::DevCluster::start(Options::default().audit(true))?;
        let logs = cluster.dir().join("logs");
        let bed = Testbed::on(cluster, &program.path, &logs)?;
        let admin = connect(bed.cluster().admin_kubeconfig()).await?;
        let account = connect(bed.account(Role::Reconciler)).await?;
        let audit = AuditLog::follow(bed.cluster().audit_log().ok_or("the cluster writes no audit log")?)?;
        let (webhook, reconciler, away) = (None, None, Away::new());
        let more = program.serve_flags.clone();
        let quiet = Duration::from_millis(sizes.quiet_ms);
        let mut arena = Arena { webhook, reconciler, bed, more, quiet, admin, account, audit, away };
        // The webhook is ready once the reconciler has made a CA.
        let mut webhook = arena.bed.operator(Role::Webhook, 0, &arena.more)?;
        arena.restart(Role::Reconciler)?;
        webhook.wait_ready()?;
        arena.webhook = Some(webhook);
        arena.bed.wait_hooked()?;
        arena.create("/api/v1/namespaces", [namespace(HOME, &[])]).await?;
        Ok(arena)
    }

    /// Ends a role's process in order, if there is one, starts another and waits until it is ready: how long that
    /// took.
    pub(crate) fn restart(&mut self, role: Role) -> Outcome<Duration> {
        self.stop(role)?;
        let begun = Instant::now();
        let mut process = self.bed.operator(role, 0, &self.more)?;
        process.wait_ready()?;
        let took = begun.elapsed();
        *self.slot(role) = Some(process);
        Ok(took)
    }

    /// The same with another program, or other flags, from now on.
    pub(crate) fn restart_as(&mut self, role: Role, program: &Program) -> Outcome<Duration> {
        self.more.clone_from(&program.serve_flags);
        self.restart(role)
    }

    /// Ends a role's process in order, if there is one: the lease is free at once.
    pub(crate) fn stop(&mut self, role: Role) -> Outcome<()> {
        if let Some(process) = self.slot(role).take() {
            process.terminate()?;
        }
        Ok(())
    }

    /// Ends a role's process at once, as a crash would: its lease has to run out.
    pub(crate) fn kill(&mut self, role: Role) {
        if let Some(process) = self.slot(role).take() {
            process.kill();
        }
    }

    fn slot(&mut self, role: Role) -> &mut Option<Operator> {
        if role == Role::Webhook { &mut self.webhook } else { &mut self.reconciler }
    }

    /// The operator's process in this role; it must have been started.
    pub(crate) fn process(&self, role: Role) -> Outcome<&Operator> {
        let slot = if role == Role::Webhook { &self.webhook } else { &self.reconciler };
        slot.as_ref().ok_or_else(|| format!("the {} does not run", role.name()).into())
    }

    /// The cluster, and the programs in it.
    pub(crate) fn bed(&self) -> &Testbed {
        &self.bed
    }

    /// The process id of a component.
    pub(crate) fn component(&self, component: Component) -> Outcome<u32> {
        Ok(self.bed.cluster().component(component).pid().ok_or("a component does not run")?)
    }

    /// Stops the controllers of Kubernetes in their tracks, or has them go on.
    pub(crate) fn hold_controllers(&self, hold: bool) -> Outcome<()> {
        let controllers = self.bed.cluster().component(Component::ControllerManager);
        if hold {
            controllers.pause()?
        } else {
            controllers.resume()?
        }
        Ok(())
    }

    /// Where the webhook listens and whom to trust there, as its hooks say.
    pub(crate) async fn webhook_endpoint(&self) -> Outcome<Endpoint> {
        let hooks = Api::<ValidatingWebhookConfiguration>::all(self.admin.clone()).get(RELEASE).await?;
        let first = hooks.webhooks.unwrap_or_default().into_iter().next().map(|hook| hook.client_config);
        let first = first.ok_or("there is no hook")?;
        Endpoint::of(
            &first.url.ok_or("a hook has no URL")?,
            &first.ca_bundle.ok_or("a hook trusts nobody")?.0,
        )
    }

    /// `kubectl` with all rights, to which arguments are still to be added.
    pub(crate) fn kubectl(&self) -> std::process::Command {
        self.bed.cluster().kubectl()
    }

    /// Creates objects of one collection as admin.
    pub(crate) async fn create(
        &self,
        collection: &str,
        objects: impl IntoIterator<Item = Value>,
    ) -> Outcome<()> {
        let requests: Outcome<Vec<Prepared>> =
            objects.into_iter().map(|object| writes::create(collection, &object)).collect();
        writes::set_up(&self.admin, requests?, IN_FLIGHT).await
    }

    /// Gives the reconciler's account all verbs for these resources, as the chart does for the kinds that it is told of.
    pub(crate) async fn grant(&self, name: &str, groups: &[&str], resources: &[&str]) -> Outcome<()> {
        let rbac = "rbac.authorization.k8s.io";
        let rules = json!([{ "apiGroups": groups, "resources": resources, "verbs": ["*"] }]);
        let subject = json!({ "kind": "ServiceAccount", "namespace": testbed::NAMESPACE, "name": "copyrator-reconciler" });
        let role = json!({ "apiVersion": format!("{rbac}/v1"), "kind": "ClusterRole", "metadata": { "name": name },
            "rules": rules });
        let binding = json!({ "apiVersion": format!("{rbac}/v1"), "kind": "ClusterRoleBinding",
            "metadata": { "name": name }, "subjects": [subject],
            "roleRef": { "apiGroup": rbac, "kind": "ClusterRole", "name": name } });
        self.create(&format!("/apis/{rbac}/v1/clusterroles"), [role]).await?;
        self.create(&format!("/apis/{rbac}/v1/clusterrolebindings"), [binding]).await
    }

    /// Creates a Secret in the home namespace, for rules to copy.
    pub(crate) async fn create_source(&self, source: Value) -> Outcome<()> {
        self.create(&collection(HOME, "secrets"), [source]).await
    }

    /// Creates a CopyratorRule in the home namespace.
    pub(crate) async fn create_rule(&self, rule: Value) -> Outcome<()> {
        let path = format!("/apis/copyrator.dev/v1alpha1/namespaces/{HOME}/copyratorrules");
        self.create(&path, [rule]).await
    }

    /// Whether a request is the reconciler's, or the bare client's, which has its account.
    pub(crate) fn is_ours(request: &Request) -> bool {
        request.user == format!("system:serviceaccount:{}:copyrator-reconciler", testbed::NAMESPACE)
    }

    /// Reads the audit log until `enough` of the requests that pass `wanted` have finished well: those.
    pub(crate) async fn collect(
        &mut self,
        what: &str,
        enough: usize,
        wanted: impl Fn(&Request) -> bool,
    ) -> Outcome<Vec<Request>> {
        let deadline = Instant::now() + PATIENCE;
        let mut found = Vec::new();
        loop {
            found.extend(self.audit.news()?.into_iter().filter(|request| wanted(request)));
            if found.len() >= enough {
                return Ok(found);
            }
            if Instant::now() > deadline {
                let logs = self.bed.logs().display();
                let seen = found.len();
                return Err(format!("{what}: {seen} of {enough} after {PATIENCE:?}; see {logs}").into());
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Waits until our account has written nothing but leases for a while: what finished meanwhile.
    pub(crate) async fn settle(&mut self) -> Outcome<Vec<Request>> {
        let deadline = Instant::now() + PATIENCE;
        let mut last = Instant::now();
        let mut seen = Vec::new();
        while last.elapsed() < self.quiet {
            let news = self.audit.news()?;
            if let Some(write) = news.iter().rfind(|request| Self::is_ours(request) && counts(request)) {
                if Instant::now() > deadline {
                    let Request { verb, resource, namespace, name, .. } = write;
                    let what = format!("{verb} {resource} {namespace}/{name}");
                    return Err(format!("the reconciler still writes after {PATIENCE:?}: {what}").into());
                }
                last = Instant::now();
            }
            seen.extend(news);
            tokio::time::sleep(LOOK).await;
        }
        Ok(seen)
    }
}

/// Whether a request is a write that says something: neither the lease, nor a question in the form of a creation.
pub(crate) fn counts(request: &Request) -> bool {
    request.is_done_write() && !["leases", "subjectaccessreviews"].contains(&request.resource.as_str())
}

pub(crate) async fn connect(kubeconfig: &Path) -> Outcome<Client> {
    let target = Target { kubeconfig: Some(kubeconfig.to_owned()), ..Target::default() };
    Ok(clients(&target, &std::sync::Arc::default()).await?.1.client())
}
