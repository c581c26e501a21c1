//! What our account may do where only some namespaces are looked at: the chart's Role in each of them and at
//! home, as the RoleBindings there give it. Seeing that takes no right over the whole cluster.

use k8s_openapi::api::rbac::v1::PolicyRule;

use super::{
    chart::{AT_HOME, Given, IN_PLACES, rules},
    facts::{Facts, Rbac, Seen},
    finding::{Findings, Id},
    rights::{Grant, grants, lacking, listed, too_many},
};
use crate::cli::operator::{Install, Role};

/// Every right that the account lacks, or has too many, in one of the namespaces.
pub(super) fn check(facts: &Facts, install: &Install<'_>, found: &mut Findings) {
    let account = install.account(Role::Reconciler);
    let home = &facts.namespace;
    let object = format!("ServiceAccount {home}/{account}");
    for (place, rbac) in &facts.places {
        match rbac {
            Err(unread) => found.unknown(&[Id::RightMissing, Id::RightTooMany], unread),
            Ok(rbac) => {
                let rbac = with_the_clusters(rbac, &facts.rbac);
                let grants = grants(&rbac, home, &account);
                let look = Place { home, place, object: &object, install, cluster: &facts.rbac };
                look.missing(&grants, found);
                look.surplus(&grants, found);
            }
        }
    }
    match &facts.rbac {
        // Nothing of ours is bound over the cluster.
        Ok(rbac) => {
            let grants = grants(rbac, home, &account);
            let direct = grants.iter().filter(|grant| grant.is_direct && grant.namespace.is_none());
            direct.for_each(|grant| too_many(&object, grant, &[], &[], install, found));
        }
        Err(unread) => found.unknown(&[Id::RightTooMany], unread),
    }
}

/// Roles of a place, with those of the cluster as far as they may be read.
fn with_the_clusters(local: &Rbac, cluster: &Seen<Rbac>) -> Rbac {
    let cluster = cluster.as_ref().cloned().unwrap_or_default();
    Rbac { roles: local.roles.clone(), role_bindings: local.role_bindings.clone(), ..cluster }
}

struct Place<'f> {
    home: &'f str,
    place: &'f str,
    object: &'f str,
    install: &'f Install<'f>,
    cluster: &'f Seen<Rbac>,
}

impl Place<'_> {
    /// The roles of the chart that are for this namespace.
    fn given(&self) -> Vec<&'static Given> {
        let is_place = self.install.places().contains(self.place);
        let at_home = (self.place == self.home).then_some(&AT_HOME);
        is_place.then_some(&IN_PLACES).into_iter().chain(at_home).collect()
    }

    fn rules(&self, given: &Given, all: bool) -> Vec<PolicyRule> {
        rules(given, &self.install.stem(), self.place, None, all)
    }

    fn missing(&self, grants: &[Grant<'_>], found: &mut Findings) {
        let (place, stem) = (self.place, self.install.stem());
        for given in self.given() {
            let has: Vec<&PolicyRule> = grants.iter().flat_map(|grant| grant.rules).collect();
            let wanted =
                self.rules(given, self.install.told("annotations").is_none_or(|told| told == "true"));
            let lacking = lacking(&wanted, &has);
            if lacking.is_empty() {
                continue;
            }
            // It may be what a ClusterRole gives that cannot be read.
            if let (Err(unread), true) = (self.cluster, grants.iter().any(|grant| grant.is_of_cluster)) {
                found.unknown(&[Id::RightMissing], unread);
                continue;
            }
            let what = format!(
                "may not {} in namespace {place}, so that {}; Role {place}/{stem}{} and the RoleBinding of that name give it that",
                listed(&lacking),
                match self.place == self.home && given.suffix == AT_HOME.suffix {
                    true => "it cannot lead, or prove marks or stamps",
                    false => "what is there is not looked at, or not kept right",
                },
                given.suffix
            );
            found.error(Id::RightMissing, self.object, what, self.install.repair());
        }
    }

    fn surplus(&self, grants: &[Grant<'_>], found: &mut Findings) {
        let given = self.given();
        let wanted: Vec<PolicyRule> = given.iter().flat_map(|given| self.rules(given, true)).collect();
        let wanted: Vec<&PolicyRule> = wanted.iter().collect();
        let direct = grants.iter().filter(|grant| grant.is_direct && grant.namespace == Some(self.place));
        for grant in direct {
            match (self.cluster, grant.is_of_cluster) {
                (Err(unread), true) => found.unknown(&[Id::RightTooMany], unread),
                _ => too_many(self.object, grant, &wanted, &[IN_PLACES, AT_HOME], self.install, found),
            }
        }
    }
}
