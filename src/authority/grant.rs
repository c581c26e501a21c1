//! What a status may be believed about a grant. Whoever may write a status could claim one, so only the proof counts,
//! which takes the key of digests to make.

use std::collections::BTreeSet;

use crate::{
    digest::DigestKey,
    marks::{AUTHOR, AUTHOR_GROUPS},
    model::{Declared, MonitorFacts, RuleFacts},
};

impl RuleFacts {
    /// The proof that this very spec was granted to its identity: for copies to these namespaces
    /// ([`crate::plan::targets::within`]), or `None` for all that it declares.
    pub fn grant(&self, key: &DigestKey, within: Option<&BTreeSet<String>>) -> String {
        let account = self.spec.service_account_name.as_deref();
        let only = |names: &BTreeSet<String>| names.iter().map(|name| format!(" {name}")).collect::<String>();
        match within {
            None => proof("CopyratorRule", self, account, key),
            Some(names) => proof(&format!("CopyratorRule into{}", only(names)), self, account, key),
        }
    }

    /// Whether it was, by an earlier leader or by us, as the status proves. What was granted for all holds for some.
    pub fn is_granted(&self, key: &DigestKey, within: Option<&BTreeSet<String>>) -> bool {
        let proof = self.status.as_ref().and_then(|status| status.authorized_proof.as_deref());
        let says =
            |proof: &str| proves(proof, &self.grant(key, None)) || proves(proof, &self.grant(key, within));
        proof.is_some_and(says)
    }
}

impl MonitorFacts {
    /// The proof that this very spec was granted to its identity.
    pub fn grant(&self, key: &DigestKey) -> String {
        proof("ConfigMonitor", self, self.spec.service_account_name.as_deref(), key)
    }

    /// Whether it was, by an earlier leader or by us, as the status proves.
    pub fn is_granted(&self, key: &DigestKey) -> bool {
        let proof = self.status.as_ref().and_then(|status| status.authorized_proof.as_deref());
        proof.is_some_and(|proof| proves(proof, &self.grant(key)))
    }
}

/// Whether what is written proves this grant. On an object that asks by annotations two proofs can stand side by side.
fn proves(written: &str, grant: &str) -> bool {
    written.split(',').any(|proof| proof == grant)
}

/// The author is part of it also where an account acts: he was asked whether he may impersonate it.
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
    use crate::api::{ConfigMonitorStatus, CopyratorRuleStatus};

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
        let proof = rule.grant(&key, None);
        let claim = |rule: &mut RuleFacts, proof: Option<String>| {
            let authorized_generation = Some(rule.generation);
            rule.status = Some(CopyratorRuleStatus {
                authorized_generation,
                authorized_proof: proof,
                ..CopyratorRuleStatus::default()
            });
        };
        claim(&mut rule, None);
        assert!(!rule.is_granted(&key, None), "a generation alone proves nothing");
        claim(&mut rule, Some(proof.clone()));
        assert!(rule.is_granted(&key, None));
        assert!(!rule.is_granted(&DigestKey::new(&[8; DigestKey::LENGTH]), None));

        let differs = |change: fn(&mut RuleFacts)| {
            let mut other = rule.clone();
            change(&mut other);
            assert!(!other.is_granted(&key, None), "{:?} {}", other.annotations, other.generation);
        };
        differs(|rule| rule.uid = "another".into());
        differs(|rule| rule.generation = 2);
        differs(|rule| rule.spec.service_account_name = Some("copier".into()));
        differs(|rule| drop(rule.annotations.insert(AUTHOR.into(), "bob".into())));
        differs(|rule| drop(rule.annotations.insert(AUTHOR_GROUPS.into(), r#"["admin"]"#.into())));
        differs(|rule| rule.annotations = BTreeMap::new());

        // What was asked of two namespaces says nothing of a third.
        let some = |names: &[&str]| -> BTreeSet<String> { names.iter().map(ToString::to_string).collect() };
        assert!(rule.is_granted(&key, Some(&some(&["a"]))), "granted for all is granted for one");
        let narrow = rule.grant(&key, Some(&some(&["a", "b"])));
        claim(&mut rule, Some(narrow));
        assert!(rule.is_granted(&key, Some(&some(&["a", "b"]))));
        for other in [None, Some(some(&["a", "b", "c"])), Some(some(&["a"])), Some(some(&[]))] {
            assert!(!rule.is_granted(&key, other.as_ref()), "{other:?}");
        }

        let mut monitor: MonitorFacts = declared(ConfigMonitorStatus::default());
        monitor.status.as_mut().unwrap().authorized_proof = Some(proof);
        assert!(!monitor.is_granted(&key), "a rule's proof is not a monitor's");
        monitor.status.as_mut().unwrap().authorized_proof = Some(monitor.grant(&key));
        assert!(monitor.is_granted(&key));
        // An annotated object carries the proofs of both.
        let both = format!("{},{}", rule.grant(&key, None), monitor.grant(&key));
        monitor.status.as_mut().unwrap().authorized_proof = Some(both.clone());
        claim(&mut rule, Some(both));
        assert!(monitor.is_granted(&key) && rule.is_granted(&key, None));
    }
}
