//! Kinds that a process learns at run time, from the chart's value `templates.kinds` (`--template-kinds`).

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, PoisonError},
};

use crate::api::{GrantedKind, Kind, ResourceType};

/// More kinds are granted than a process accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "more than {} kinds have the use render: remove some from the chart's value templates.kinds (--template-kinds)",
    GrantedKinds::MOST
)]
pub struct TooManyKinds;

/// The kinds that one process has learned at run time. Every key contains names of kinds, so their memory is
/// never freed. Code that reads flags repeatedly, such as the console, keeps one `GrantedKinds`, so each kind
/// is allocated once.
#[derive(Clone, Debug, Default)]
pub struct GrantedKinds(Arc<Mutex<BTreeSet<&'static ResourceType>>>);

impl GrantedKinds {
    /// Maximum number of kinds.
    pub const MOST: usize = 64;

    /// Returns the kind of these names, such as `certificates` of kind `Certificate` in `cert-manager.io/v1`.
    /// `is_copied`: whether rules copy it.
    ///
    /// # Errors
    /// The kind would be one more than [`GrantedKinds::MOST`].
    pub fn kind(
        &self,
        api_version: &str,
        kind: &str,
        plural: &str,
        is_copied: bool,
    ) -> Result<Kind, TooManyKinds> {
        if let Some(known) = Kind::written_as(api_version, kind) {
            return Ok(known);
        }
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_it =
            |one: &&&ResourceType| one.api_version == api_version && one.kind == kind && one.plural == plural;
        if let Some(known) = known.iter().find(is_it) {
            return Ok(Kind::Granted(GrantedKind::new(known, is_copied)));
        }
        if known.len() >= Self::MOST {
            return Err(TooManyKinds);
        }
        let text = |text: &str| -> &'static str { Box::leak(text.into()) };
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let resource: &'static ResourceType = Box::leak(Box::new(ResourceType {
            group: text(group),
            version: text(version),
            api_version: text(api_version),
            kind: text(kind),
            plural: text(plural),
        }));
        known.insert(resource);
        Ok(Kind::Granted(GrantedKind::new(resource, is_copied)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_kept_once_and_their_number_is_bounded() {
        let kinds = GrantedKinds::default();
        let certificate = kinds.kind("cert-manager.io/v1", "Certificate", "certificates", false).unwrap();
        let resource = certificate.resource();
        assert_eq!(
            (resource.group, resource.version, resource.plural),
            ("cert-manager.io", "v1", "certificates")
        );
        assert_eq!(certificate.to_string(), "Certificate");
        assert_eq!(kinds.kind("apps/v1", "Deployment", "deployments", false), Ok(Kind::Deployment));
        for at in 1..GrantedKinds::MOST {
            kinds.kind("a.b/v1", &format!("A{at}"), "as", false).unwrap();
        }
        assert_eq!(kinds.kind("a.b/v1", "A0", "as", false), Err(TooManyKinds));
        let same = kinds.clone().kind("cert-manager.io/v1", "Certificate", "certificates", false).unwrap();
        assert_eq!(same, certificate);
    }
}
