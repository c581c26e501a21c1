//! The API server's certificate, the authority behind it, and the key that signs ServiceAccount tokens.

use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};

use crate::error::Error;
use crate::kubeconfig;

/// By which names clients reach the API server: from here, and as workloads would.
const NAMES: [&str; 6] =
    ["127.0.0.1", "localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "10.96.0.1"];

/// Files in PEM form, and the authority's certificate for kubeconfigs.
#[derive(Debug)]
pub(crate) struct Certificates {
    pub(crate) ca_pem: String,
    pub(crate) ca: PathBuf,
    pub(crate) server: PathBuf,
    pub(crate) server_key: PathBuf,
    pub(crate) service_account_key: PathBuf,
    pub(crate) service_account_public_key: PathBuf,
}

impl Certificates {
    /// Makes them all in `folder`. The API server is known by `address` too, where there is one.
    pub(crate) fn make(folder: &Path, address: Option<Ipv4Addr>) -> Result<Certificates, Error> {
        let (issuer, ca_pem) = authority().map_err(failed("the certificate authority"))?;
        let (server_pem, server_key_pem) = server(&issuer, address).map_err(failed("the API server"))?;
        let service_account = KeyPair::generate().map_err(failed("ServiceAccount tokens"))?;

        let certificates = Certificates {
            ca: folder.join("ca.pem"),
            server: folder.join("server.pem"),
            server_key: folder.join("server-key.pem"),
            service_account_key: folder.join("service-account-key.pem"),
            service_account_public_key: folder.join("service-account.pem"),
            ca_pem,
        };
        let write = |path: &Path, pem: &str| fs::write(path, pem).map_err(Error::file("write", path));
        write(&certificates.ca, &certificates.ca_pem)?;
        write(&certificates.server, &server_pem)?;
        write(&certificates.service_account_public_key, &service_account.public_key_pem())?;
        kubeconfig::write_secret(&certificates.server_key, server_key_pem.as_bytes())?;
        let key_pem = service_account.serialize_pem();
        kubeconfig::write_secret(&certificates.service_account_key, key_pem.as_bytes())?;
        Ok(certificates)
    }
}

fn authority() -> Result<(Issuer<'static, KeyPair>, String), rcgen::Error> {
    let mut params = CertificateParams::new(Vec::new())?;
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(DnType::CommonName, "devcluster");
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let key = KeyPair::generate()?;
    let pem = params.self_signed(&key)?.pem();
    Ok((Issuer::new(params, key), pem))
}

fn server(
    issuer: &Issuer<'static, KeyPair>,
    address: Option<Ipv4Addr>,
) -> Result<(String, String), rcgen::Error> {
    let names = NAMES.map(str::to_owned).into_iter().chain(address.map(|address| address.to_string()));
    let mut params = CertificateParams::new(names.collect::<Vec<_>>())?;
    params.distinguished_name.push(DnType::CommonName, "kube-apiserver");
    params.use_authority_key_identifier_extension = true;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let key = KeyPair::generate()?;
    let pem = params.signed_by(&key, issuer)?.pem();
    Ok((pem, key.serialize_pem()))
}

fn failed(subject: &'static str) -> impl FnOnce(rcgen::Error) -> Error {
    move |source| Error::Certificate { subject, source }
}
