//! The proof of a grant in a status. A user who can write a status could write a false grant, so only a proof
//! is accepted, and making a proof needs the key of digests.

use std::collections::BTreeSet;

use crate::{
    api::{CopyratorRuleSpec, CopyratorRuleStatus, CopyratorTemplateSpec},
    digest::{DigestKey, hex},
    marks::{AUTHOR, AUTHOR_GROUPS},
    model::{Declared, MonitorFacts},
};

/// Bytes of a namespace's tag; the tag's text has twice as many hexadecimal digits.
const TAG: usize = 6;

/// The existing namespaces for which the API server was asked one by one. The administrator of a namespace
/// gave the rights in the namespace; a new namespace of the same name may have a different administrator.
/// Deleting one namespace leaves the grants in the remaining namespaces unchanged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bounds {
    /// Tags of the sources' namespaces, without the rule's own, since the rule is deleted with its namespace.
    /// For a template, tags of the kind that the template is rendered for and of the granted kinds that the
    /// template declares.
    pub sources: BTreeSet<String>,
    /// Tags of the namespaces that copies are written to; `None` if the API server was asked about all
    /// namespaces at once.
    pub targets: Option<BTreeSet<String>>,
    /// Whether the targets can grow to any namespace, so that a grant for all namespaces is accepted, too.
    pub can_grow: bool,
}

impl Bounds {
    /// The tag of one namespace, from its name and UID: a namespace recreated under the same name has a new
    /// tag.
    pub fn tag(name: &str, uid: &str) -> String {
        let digest = ring::digest::digest(&ring::digest::SHA256, format!("{name} {uid}").as_bytes());
        digest.as_ref().get(..TAG).map(hex).unwrap_or_default()
    }

    /// The tags of all these namespaces, in order.
    fn tags(&self) -> String {
        self.sources.iter().chain(self.targets.iter().flatten()).map(String::as_str).collect()
    }

    /// Whether these tags include every source namespace that exists.
    fn holds_sources(&self, tags: &str) -> bool {
        holds(tags, &self.sources)
    }
}

fn holds(tags: &str, wanted: &BTreeSet<String>) -> bool {
    let known: BTreeSet<&[u8]> = tags.as_bytes().chunks(2 * TAG).collect();
    wanted.iter().all(|tag| known.contains(tag.as_bytes()))
}

/// A spec whose grant is bound to namespaces.
pub trait BoundSpec {
    /// The kind of the object, as a part of proofs.
    const KIND: &'static str;
    /// The ServiceAccount that the spec acts with; `None`: its author.
    fn account(&self) -> Option<&str>;
}

impl BoundSpec for CopyratorRuleSpec {
    const KIND: &'static str = "CopyratorRule";

    fn account(&self) -> Option<&str> {
        self.service_account_name.as_deref()
    }
}

impl BoundSpec for CopyratorTemplateSpec {
    const KIND: &'static str = "CopyratorTemplate";

    fn account(&self) -> Option<&str> {
        self.service_account_name.as_deref()
    }
}

impl<S: BoundSpec, C> Declared<S, C, CopyratorRuleStatus> {
    /// The proof that the API server allowed this exact spec to its identity in these namespaces: `<key
    /// id>.<MAC>`, and after a second dot the tags of the namespaces for which the API server was asked one
    /// by one.
    pub fn grant(&self, key: &DigestKey, bounds: &Bounds) -> String {
        self.signed(key, bounds.targets.is_none(), &bounds.tags())
    }

    /// Whether the status proves that the API server allowed this spec, to this leader or an earlier one.
    pub fn is_granted(&self, key: &DigestKey, bounds: &Bounds) -> bool {
        let written = self.status.as_ref().and_then(|status| status.authorized_proof.as_deref());
        written.is_some_and(|written| self.is_proven(key, written, bounds))
    }

    /// Whether `written` contains the proof. An object with annotations for copies and restarts can carry two
    /// proofs.
    pub fn is_proven(&self, key: &DigestKey, written: &str, bounds: &Bounds) -> bool {
        let proves = |proof: &str| {
            let tags = proof.splitn(3, '.').nth(2).unwrap_or_default();
            let everywhere = || bounds.can_grow && proof == self.signed(key, true, tags);
            let one_by_one = |targets| holds(tags, targets) && proof == self.signed(key, false, tags);
            bounds.holds_sources(tags) && (bounds.targets.as_ref().is_some_and(one_by_one) || everywhere())
        };
        written.split(',').any(proves)
    }

    fn signed(&self, key: &DigestKey, is_everywhere: bool, tags: &str) -> String {
        let word = if is_everywhere { "" } else { " one by one" };
        let (of, end) = match tags {
            "" => (String::new(), String::new()),
            tags => (format!(" in {tags}"), format!(".{tags}")),
        };
        proof(&format!("{}{word}{of}", S::KIND), self, self.spec.account(), key) + &end
    }
}

impl MonitorFacts {
    /// The proof that the API server allowed this very spec to its identity.
    pub fn grant(&self, key: &DigestKey) -> String {
        proof("ConfigMonitor", self, self.spec.service_account_name.as_deref(), key)
    }

    /// Whether the status proves that the API server allowed this spec, to this leader or an earlier one.
    pub fn is_granted(&self, key: &DigestKey) -> bool {
        let proof = self.status.as_ref().and_then(|status| status.authorized_proof.as_deref());
        proof.is_some_and(|proof| self.is_proven(key, proof))
    }

    /// Whether `written` contains the proof, alone or beside other proofs.
    pub fn is_proven(&self, key: &DigestKey, written: &str) -> bool {
        let grant = self.grant(key);
        written.split(',').any(|proof| proof == grant)
    }
}

/// The author is part of the proof even if a ServiceAccount acts: the API server was asked whether the author
/// may impersonate the ServiceAccount.
fn proof<S, C, T>(kind: &str, facts: &Declared<S, C, T>, account: Option<&str>, key: &DigestKey) -> String {
    let stamp = |name| facts.annotations.get(name).map(String::as_str).unwrap_or_default();
    let identity = [account.unwrap_or_default(), stamp(AUTHOR), stamp(AUTHOR_GROUPS)];
    key.grant(kind, &facts.uid, facts.generation, identity)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use jiff::Timestamp;

    use super::*;
    use crate::{api::ConfigMonitorStatus, model::RuleFacts};

    fn declared<S: Default, C, T>(status: T) -> Declared<S, C, T> {
        let stamp = [(AUTHOR, "alice"), (AUTHOR_GROUPS, r#"["dev"]"#)];
        Declared {
            uid: "u".into(),
            resource_version: "1".into(),
            generation: 1,
            created: Timestamp::UNIX_EPOCH,
            annotations: stamp.map(|(key, value)| (key.to_owned(), value.to_owned())).into(),
            spec: S::default(),
            compiled: Err(Vec::new()),
            status: Some(status),
        }
    }

    #[test]
    fn only_the_proof_of_this_very_spec_counts() {
        let key = DigestKey::new(&[7; DigestKey::LENGTH]);
        let mut rule: RuleFacts = declared(CopyratorRuleStatus::default());
        let everywhere = Bounds { can_grow: true, ..Bounds::default() };
        let proof = rule.grant(&key, &everywhere);
        let claim = |rule: &mut RuleFacts, proof: Option<String>| {
            let authorized_generation = Some(rule.generation);
            rule.status = Some(CopyratorRuleStatus {
                authorized_generation,
                authorized_proof: proof,
                ..CopyratorRuleStatus::default()
            });
        };
        claim(&mut rule, None);
        assert!(!rule.is_granted(&key, &everywhere), "a generation alone proves nothing");
        claim(&mut rule, Some(proof.clone()));
        assert!(rule.is_granted(&key, &everywhere));
        assert!(!rule.is_granted(&DigestKey::new(&[8; DigestKey::LENGTH]), &everywhere));

        let differs = |change: fn(&mut RuleFacts)| {
            let mut other = rule.clone();
            change(&mut other);
            assert!(!other.is_granted(&key, &everywhere), "{:?} {}", other.annotations, other.generation);
        };
        differs(|rule| rule.uid = "another".into());
        differs(|rule| rule.generation = 2);
        differs(|rule| rule.spec.service_account_name = Some("copier".into()));
        differs(|rule| drop(rule.annotations.insert(AUTHOR.into(), "bob".into())));
        differs(|rule| drop(rule.annotations.insert(AUTHOR_GROUPS.into(), r#"["admin"]"#.into())));
        differs(|rule| rule.annotations = BTreeMap::new());

        let mut monitor: MonitorFacts = declared(ConfigMonitorStatus::default());
        monitor.status.as_mut().unwrap().authorized_proof = Some(proof);
        assert!(!monitor.is_granted(&key), "a rule's proof is not a monitor's");
        monitor.status.as_mut().unwrap().authorized_proof = Some(monitor.grant(&key));
        assert!(monitor.is_granted(&key));
        // An annotated object carries the proofs of a rule and of a monitor.
        let both = format!("{},{}", rule.grant(&key, &everywhere), monitor.grant(&key));
        monitor.status.as_mut().unwrap().authorized_proof = Some(both.clone());
        claim(&mut rule, Some(both));
        assert!(monitor.is_granted(&key) && rule.is_granted(&key, &everywhere));
    }

    fn tags(namespaces: &[(&str, &str)]) -> BTreeSet<String> {
        namespaces.iter().map(|(name, uid)| Bounds::tag(name, uid)).collect()
    }

    fn granted_in(sources: &[(&str, &str)], targets: Option<&[(&str, &str)]>, can_grow: bool) -> Bounds {
        Bounds { sources: tags(sources), targets: targets.map(tags), can_grow }
    }

    /// A deleted namespace takes its Roles and RoleBindings with it; a new namespace of the same name gives
    /// no rights.
    #[test]
    fn a_grant_ends_with_the_namespaces_that_gave_it() {
        let key = DigestKey::new(&[7; DigestKey::LENGTH]);
        let mut rule: RuleFacts = declared(CopyratorRuleStatus::default());
        let mut granted = |then: &Bounds, now: &Bounds| {
            let proof = rule.grant(&key, then);
            rule.status = Some(CopyratorRuleStatus { authorized_proof: Some(proof), ..Default::default() });
            rule.is_granted(&key, now)
        };
        let (vault, shop, web) = (("vault", "1"), ("shop", "2"), ("web", "3"));
        let then = granted_in(&[vault], Some(&[shop, web]), false);
        assert!(granted(&then, &then));
        assert!(
            granted(&then, &granted_in(&[], Some(&[web]), false)),
            "two have gone, the third stays granted"
        );
        for anew in [
            granted_in(&[("vault", "9")], Some(&[shop, web]), false),
            granted_in(&[vault], Some(&[("shop", "9"), web]), false),
            granted_in(&[vault], Some(&[shop, web, ("later", "4")]), false),
            granted_in(&[vault, ("later", "4")], Some(&[]), false),
            granted_in(&[vault], None, true),
        ] {
            assert!(!granted(&then, &anew), "{anew:?}");
        }
        // The API server was asked about all namespaces at once: the grant holds for all readable namespaces,
        // but not for a source namespace that was created again.
        let all = granted_in(&[vault], None, true);
        assert!(granted(&all, &all) && granted(&all, &granted_in(&[vault], Some(&[shop]), true)));
        assert!(!granted(&all, &granted_in(&[vault], Some(&[shop]), false)), "it names them all");
        assert!(!granted(&all, &granted_in(&[("vault", "9")], None, true)));
    }

    /// A proof with unsigned text contains no valid tag.
    #[test]
    fn nobody_adds_a_namespace_to_a_proof() {
        let key = DigestKey::new(&[7; DigestKey::LENGTH]);
        let mut rule: RuleFacts = declared(CopyratorRuleStatus::default());
        let wanted = granted_in(&[], Some(&[("shop", "2")]), false);
        let bare = rule.grant(&key, &granted_in(&[], Some(&[]), false));
        for forged in [format!("{bare}.{}", Bounds::tag("shop", "2")), bare, String::new(), "..".into()] {
            rule.status =
                Some(CopyratorRuleStatus { authorized_proof: Some(forged.clone()), ..Default::default() });
            assert!(!rule.is_granted(&key, &wanted), "{forged}");
        }
    }
}
