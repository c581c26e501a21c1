//! A serving certificate signed by an authority.

use std::net::IpAddr;
use std::time::{Duration, SystemTime};

use rcgen::{
    CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, Issuer, KeyPair, KeyUsagePurpose,
    SanType,
};

use crate::ca::Authority;
use crate::certificate::Certificate;
use crate::error::CertError;
use crate::key::PrivateKeyPem;
use crate::validity::Validity;

/// Longest common name a certificate may carry (RFC 5280, `ub-common-name`). Service names can be longer.
const COMMON_NAME_MAX: usize = 64;

/// A serving certificate with its key. `Debug` shows no key.
#[derive(Clone, Debug)]
pub struct Leaf {
    /// The chain that a server sends: the leaf, and its authority unless the authority is a root.
    pub chain_pem: String,
    /// The leaf's private key.
    pub key_pem: PrivateKeyPem,
    /// Period in which the leaf may be served.
    pub validity: Validity,
}

/// Returns the DNS names of a Service. The API server verifies `name.namespace.svc`; people use the other two
/// names.
pub fn service_names(name: &str, namespace: &str) -> [String; 3] {
    [
        format!("{name}.{namespace}.svc"),
        format!("{name}.{namespace}"),
        format!("{name}.{namespace}.svc.cluster.local"),
    ]
}

impl Authority {
    /// Signs a new ECDSA P-256 server certificate for these names and addresses, valid from one hour
    /// before `now` until `lifetime` after it, but never outside the authority's own validity.
    ///
    /// # Errors
    /// [`CertError::NoNames`], [`CertError::AuthorityExpired`], [`CertError::Dates`], or [`CertError::Issue`]
    /// for an invalid name.
    pub fn issue_leaf(
        &self,
        dns_names: &[String],
        ip_addresses: &[IpAddr],
        now: SystemTime,
        lifetime: Duration,
    ) -> Result<Leaf, CertError> {
        let subject = dns_names
            .first()
            .cloned()
            .or_else(|| ip_addresses.first().map(IpAddr::to_string))
            .ok_or(CertError::NoNames)?;
        if self.validity().is_expired(now) {
            return Err(CertError::AuthorityExpired { subject, not_after: self.not_after() });
        }
        let (not_before, not_after) = Validity::starting(now, lifetime)
            .and_then(|validity| validity.within(self.validity()).as_dates())
            .ok_or_else(|| CertError::Dates { subject: subject.clone() })?;
        let refused = |source| CertError::Issue { subject: subject.clone(), source };

        let mut params = CertificateParams::default();
        params.not_before = not_before;
        params.not_after = not_after;
        params.distinguished_name = DistinguishedName::new();
        if subject.len() <= COMMON_NAME_MAX {
            params.distinguished_name.push(DnType::CommonName, subject.as_str());
        }
        for name in dns_names {
            let name = name.as_str().try_into().map_err(refused)?;
            params.subject_alt_names.push(SanType::DnsName(name));
        }
        params.subject_alt_names.extend(ip_addresses.iter().copied().map(SanType::IpAddress));
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        // During a rotation, clients trust two authorities with the same name. The key identifier shows a
        // verifier which authority signed.
        params.use_authority_key_identifier_extension = true;

        let key = KeyPair::generate().map_err(refused)?;
        let issuer =
            Issuer::from_ca_cert_der(self.certificate().der(), self.signing_key()).map_err(refused)?;
        let certificate = params.signed_by(&key, &issuer).map_err(refused)?;
        let certificate = Certificate::from_der(certificate.into())?;
        let mut chain_pem = certificate.pem();
        if !self.certificate().is_self_issued() {
            chain_pem.push_str(&self.cert_pem());
        }
        let key_pem = PrivateKeyPem::new(key.serialize_pem());
        Ok(Leaf { chain_pem, key_pem, validity: certificate.validity() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_secs(86_400);

    fn now() -> SystemTime {
        SystemTime::UNIX_EPOCH + 20_000 * DAY
    }

    #[test]
    fn the_api_servers_name_comes_first() {
        assert_eq!(service_names("hook", "ops"), ["hook.ops.svc", "hook.ops", "hook.ops.svc.cluster.local"]);
    }

    #[test]
    fn a_leaf_ends_with_its_authority_at_the_latest() {
        let authority = Authority::issue("ca", now(), 10 * DAY).unwrap();
        let names = service_names("hook", "ops");
        let leaf = authority.issue_leaf(&names, &[], now() + 8 * DAY, 7 * DAY).unwrap();
        assert_eq!(leaf.validity.not_after(), authority.not_after());
        let early = authority.issue_leaf(&names, &[], now(), DAY).unwrap();
        assert_eq!(early.validity.not_before(), authority.validity().not_before());
        assert_eq!(early.validity.not_after(), now() + DAY);
    }

    #[test]
    fn an_expired_authority_signs_nothing() {
        let authority = Authority::issue("ca", now(), DAY).unwrap();
        let refused = authority.issue_leaf(&service_names("hook", "ops"), &[], now() + 2 * DAY, DAY);
        assert!(matches!(refused, Err(CertError::AuthorityExpired { .. })));
    }

    #[test]
    fn names_that_are_none_are_refused() {
        let authority = Authority::issue("ca", now(), DAY).unwrap();
        assert!(matches!(authority.issue_leaf(&[], &[], now(), DAY), Err(CertError::NoNames)));
        let accented = ["höok.ops.svc".to_owned()];
        assert!(matches!(authority.issue_leaf(&accented, &[], now(), DAY), Err(CertError::Issue { .. })));
    }

    #[test]
    fn a_long_name_leaves_the_subject_empty() {
        let authority = Authority::issue("ca", now(), DAY).unwrap();
        let long = format!("{}.ops.svc", "a".repeat(63));
        let leaf = authority.issue_leaf(&[long], &[], now(), DAY).unwrap();
        assert_eq!(Certificate::from_pem(&leaf.chain_pem).unwrap().subject(), "");
    }

    #[test]
    fn debug_shows_no_key() {
        let authority = Authority::issue("ca", now(), DAY).unwrap();
        let leaf = authority.issue_leaf(&["a.test".to_owned()], &[], now(), DAY).unwrap();
        let shown = format!("{leaf:?}");
        assert!(leaf.key_pem.expose().lines().all(|line| !shown.contains(line)));
    }
}
