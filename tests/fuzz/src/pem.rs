//! Certificates and keys as text: read, described, loaded as an authority and as what we serve with.

use std::{collections::BTreeMap, time::SystemTime};

use copyrator::testing::ServingCert;
use copyrator_certs::{Authority, CaSecret, Certificate, PrivateKeyPem, inspect::inspect};

use super::{canary, parts};

/// The first part of the input is taken for certificates, the second for a key, the third for earlier authorities.
pub fn check(input: &[u8]) {
    let Some(parts) = parts(input) else { return };
    let part = |at: usize| parts.get(at).copied().unwrap_or_default();
    if let Ok(certificates) = Certificate::all_from_pem(part(0)) {
        for certificate in certificates {
            let read = Certificate::from_pem(&certificate.pem()).expect("what we write we read");
            assert_eq!(read, certificate);
        }
    }
    read_all(part(0), part(1), part(2));
    if !canary::is_in(input) {
        let said = read_all(part(0), &canary::put_into(part(1)), part(2));
        canary::assert_kept_from(&said, "an error");
    }
}

/// Reads the texts by every way there is: what was said about them.
fn read_all(certificates: &str, key: &str, old: &str) -> String {
    let mut said = String::new();
    let texts = [("a.crt", certificates), ("a.key", key)];
    match inspect(texts, SystemTime::UNIX_EPOCH) {
        Ok(report) => said += &serde_json::to_string(&report).expect("a report is JSON"),
        Err(error) => said += &format!("{error} {error:?}"),
    }
    match Authority::from_pem(certificates, key) {
        Ok(authority) => said += &format!("{authority:?}"),
        Err(error) => said += &format!("{error} {error:?}"),
    }
    match ServingCert::new().install(certificates, &PrivateKeyPem::new(key)) {
        Ok(()) => {}
        Err(error) => said += &format!("{error} {error:?}"),
    }
    let data = [("ca.crt", certificates), ("ca.key", key), ("ca-old.crt", old)];
    let data = data.into_iter().filter(|(_, text)| !text.is_empty());
    let data: BTreeMap<String, Vec<u8>> = data.map(|(name, text)| (name.to_owned(), text.into())).collect();
    match CaSecret::from_data(&data) {
        Ok(secret) => {
            said += &format!("{secret:?}");
            let again = CaSecret::from_data(&secret.to_data()).expect("what we write we read");
            assert_eq!(again.to_data(), secret.to_data());
            let bundle = secret.trust_bundle(SystemTime::UNIX_EPOCH);
            assert!(Certificate::all_from_pem(&bundle).is_ok_and(|all| !all.is_empty()), "{bundle}");
        }
        Err(error) => said += &format!("{error} {error:?}"),
    }
    said
}
