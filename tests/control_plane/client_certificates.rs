//! The webhook answers the API server, which shows a certificate, and nobody else.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use copyrator_certs::Authority;
use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, Issuer, KeyPair};
use rustls::pki_types::{CertificateDer, ServerName, pem::PemObject};
use rustls::{ClientConfig, ClientConnection, RootCertStore, Stream};
use serde_json::{Value, json};
use testbed::{NAMESPACE, Role};

use crate::bed::objects::ours;
use crate::bed::{Bed, eventually, presenting};

const NAME: &str = "kube-apiserver-webhook-client";

/// The example of docs/callers.md, on a real API server; and a ConfigMap volume, swapped as the kubelet does, which
/// a watch of the file itself sees once (kubewarden policy-server), and controller-runtime never reads again.
#[test]
fn the_api_server_alone_is_answered_and_each_swapped_bundle_counts() {
    let folder = tempfile::tempdir().unwrap();
    let (first, second) = (authority("first"), authority("second"));
    let bed = presenting("client-certificates", &admission_configuration(folder.path(), &first));
    let mount = Mount::new(folder.path().join("client-ca"));
    mount.publish("..1", &first.cert_pem());
    let flags = ["--client-ca", mount.file.to_str().unwrap(), "--client-names", NAME];
    let mut webhook = bed.testbed.operator(Role::Webhook, 0, &flags).unwrap();
    let mut reconciler = bed.reconciler(0);
    webhook.wait_ready().expect("the webhook becomes ready");
    // The canary came through, so the certificate was shown.
    reconciler.wait_ready().expect("the reconciler becomes ready");
    bed.testbed.wait_hooked().expect("the hooks are applied");
    until_answered(&bed);
    let said = ask_without_a_certificate(&bed).expect_err("somebody without a certificate was answered");
    assert!(said.to_string().contains("CertificateRequired"), "{said}");

    for (version, bundle, answered) in [
        ("..2", second.cert_pem(), false),
        ("..3", second.cert_pem() + &first.cert_pem(), true),
        ("..4", second.cert_pem(), false),
        ("..5", first.cert_pem(), true),
    ] {
        mount.publish(version, &bundle);
        if answered { until_answered(&bed) } else { until_refused(&bed) }
    }
    mount.publish("..6", &second.cert_pem()[..300]);
    let kept = "the webhook keeps the last valid bundle of client authorities";
    eventually("the log tells of the torn bundle", || match webhook.log().contains(kept) {
        true => Ok(()),
        false => Err(webhook.log()),
    });
    until_answered(&bed);
    mount.publish("..7", &first.cert_pem());
    eventually("the bundle after the torn one is in use", || {
        match webhook.log().matches("the webhook accepts client certificates of these authorities").count() {
            6 => Ok(()),
            other => Err(format!("{other} bundles have been taken")),
        }
    });
    until_answered(&bed);
    assert_eq!(webhook.log().matches(kept).count(), 1, "{}", webhook.log());
}

fn authority(name: &str) -> Authority {
    Authority::issue(name, SystemTime::now(), Duration::from_secs(3600)).unwrap()
}

/// What an administrator of the control plane writes, as docs/callers.md has it; the user is that of every webhook.
fn admission_configuration(folder: &Path, authority: &Authority) -> PathBuf {
    let issuer = KeyPair::from_pem(authority.key_pem().expose()).unwrap();
    let issuer = Issuer::from_ca_cert_pem(&authority.cert_pem(), issuer).unwrap();
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.distinguished_name.push(DnType::CommonName, NAME);
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    let key = KeyPair::generate().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.join(name);
        fs::write(&path, text).unwrap();
        path
    };
    let certificate = write("client.crt", &params.signed_by(&key, &issuer).unwrap().pem());
    let key = write("client.key", &key.serialize_pem());
    let user = json!({ "client-certificate": certificate, "client-key": key });
    let kubeconfig =
        json!({ "apiVersion": "v1", "kind": "Config", "users": [{ "name": "*", "user": user }] });
    let kubeconfig = write("webhooks.kubeconfig", &kubeconfig.to_string());
    let plugin = |name: &str| {
        json!({ "name": name, "configuration": { "apiVersion": "apiserver.config.k8s.io/v1",
            "kind": "WebhookAdmissionConfiguration", "kubeConfigFile": kubeconfig } })
    };
    let plugins = [plugin("ValidatingAdmissionWebhook"), plugin("MutatingAdmissionWebhook")];
    let configuration = json!({ "apiVersion": "apiserver.config.k8s.io/v1", "kind": "AdmissionConfiguration",
        "plugins": plugins });
    write("admission.yaml", &configuration.to_string())
}

/// A volume of one file, as the kubelet keeps it.
struct Mount {
    folder: PathBuf,
    file: PathBuf,
}

impl Mount {
    fn new(folder: PathBuf) -> Mount {
        fs::create_dir(&folder).unwrap();
        let file = folder.join("ca.crt");
        symlink("..data/ca.crt", &file).unwrap();
        Mount { folder, file }
    }

    fn publish(&self, version: &str, content: &str) {
        let (new, data) = (self.folder.join("..data_tmp"), self.folder.join("..data"));
        fs::create_dir(self.folder.join(version)).unwrap();
        fs::write(self.folder.join(version).join("ca.crt"), content).unwrap();
        symlink(version, &new).unwrap();
        fs::rename(new, data).unwrap();
    }
}

/// What becomes of a rule that only the webhook knows to be wrong.
fn verdict(bed: &Bed) -> String {
    let spec = json!({ "source": { "kind": "ConfigMap", "names": ["a["] }, "targets": [{ "names": ["x"] }] });
    bed.admin.try_create(&ours("CopyratorRule", "default", "bad", spec)).refused()
}

#[track_caller]
fn until_answered(bed: &Bed) {
    eventually("the webhook answers the API server", || {
        let said = verdict(bed);
        if said.contains("spec.source.names[0]") { Ok(()) } else { Err(said) }
    });
}

#[track_caller]
fn until_refused(bed: &Bed) {
    eventually("the webhook takes the API server's certificate no more", || {
        let said = verdict(bed);
        if said.contains("failed calling webhook") { Ok(()) } else { Err(said) }
    });
}

/// As any pod could: what the webhook says to a review.
fn ask_without_a_certificate(bed: &Bed) -> std::io::Result<String> {
    let hooks = bed.admin.get("ValidatingWebhookConfiguration", "", "copyrator").unwrap();
    let url: http::Uri = hooks["webhooks"][0]["clientConfig"]["url"].as_str().unwrap().parse().unwrap();
    let secret: Value = bed.admin.get("Secret", NAMESPACE, "copyrator-webhook-ca").unwrap();
    let pem = STANDARD.decode(secret["data"]["ca.crt"].as_str().unwrap()).unwrap();
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&pem) {
        roots.add(certificate.unwrap()).unwrap();
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = config.with_root_certificates(roots).with_no_client_auth();
    let name = ServerName::try_from(url.host().unwrap().to_owned()).unwrap();
    let mut connection = ClientConnection::new(Arc::new(config), name).unwrap();
    let mut socket = TcpStream::connect(url.authority().unwrap().as_str())?;
    socket.set_read_timeout(Some(Duration::from_secs(20)))?;
    let mut stream = Stream::new(&mut connection, &mut socket);
    stream.write_all(b"POST /validate HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n")?;
    let mut said = [0; 12];
    stream.read_exact(&mut said)?;
    Ok(String::from_utf8_lossy(&said).into_owned())
}
