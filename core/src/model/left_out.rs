//! Objects that lists and watches leave out, by field selectors: no rule copies these objects, and no
//! workload restarts for them.

use crate::{api::DataKind, names::ObjectKey};

/// Field selector of Secrets (HNC#241; Helm releases are up to 1 MiB each).
pub const SECRETS: &str =
    "type!=helm.sh/release.v1,type!=kubernetes.io/service-account-token,type!=bootstrap.kubernetes.io/token";
/// Field selector of ConfigMaps: each namespace has its own `kube-root-ca.crt`.
pub const CONFIG_MAPS: &str = "metadata.name!=kube-root-ca.crt";
/// Field selector of ServiceAccounts: each namespace has its own `default`, and its deletion makes the tokens
/// of running pods invalid.
pub const SERVICE_ACCOUNTS: &str = "metadata.name!=default";

/// Whether the field selectors leave out a ConfigMap or Secret of this type.
pub fn is_left_out(object: &ObjectKey, type_: Option<&str>) -> bool {
    let excludes = |selector: &str, field: &str, value: &str| {
        selector.split(',').any(|term| term.strip_prefix(field) == Some(value))
    };
    match object.kind.data() {
        Some(DataKind::Secret) => type_.is_some_and(|type_| excludes(SECRETS, "type!=", type_)),
        Some(DataKind::ConfigMap) => excludes(CONFIG_MAPS, "metadata.name!=", &object.name),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::Kind;

    #[test]
    fn what_the_selectors_exclude_is_left_out() {
        for (kind, name, type_, expected) in [
            (Kind::Secret, "app", Some("Opaque"), false),
            (Kind::Secret, "app", Some("helm.sh/release.v1"), true),
            (Kind::Secret, "app", None, false),
            (Kind::ConfigMap, "kube-root-ca.crt", None, true),
            (Kind::ConfigMap, "app", None, false),
            (Kind::ServiceAccount, "default", None, false),
        ] {
            let object = ObjectKey::new(kind, "shop", name);
            assert_eq!(is_left_out(&object, type_), expected, "{object} {type_:?}");
        }
    }
}
