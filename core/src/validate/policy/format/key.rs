//! Private keys that servers with OpenSSL or Go accept, and the public keys that belong to them.

use p256::elliptic_curve::{
    Curve, FieldBytesSize,
    sec1::{ModulusSize, ToEncodedPoint},
};
use pkcs1::RsaPrivateKey;
use pkcs8::{
    ObjectIdentifier, PrivateKeyInfo,
    der::{Decode as _, Encode as _, asn1::OctetStringRef},
};
use ring::signature::{Ed25519KeyPair, KeyPair as _};
use sec1::{EcParameters, EcPrivateKey};
use x509_parser::num_bigint::BigUint;

const RSA: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.1");
const RSA_PSS: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.10");
const EC: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.2.1");
const P256: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.3.1.7");
const P384: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.132.0.34");
const P521: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.132.0.35");
const ED25519: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.101.112");

/// The accepted lengths of an RSA modulus, in bits: OpenSSL reads no longer modulus, and current
/// distributions accept no shorter modulus.
const RSA_BITS: std::ops::RangeInclusive<u64> = 2_048..=16_384;

/// A public key in the encoding of a certificate.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::validate::policy) struct PublicKey {
    algorithm: ObjectIdentifier,
    bits: Vec<u8>,
}

impl PublicKey {
    /// Whether a certificate has this key.
    pub(super) fn is_of(&self, certificate: &x509_parser::certificate::X509Certificate<'_>) -> bool {
        let theirs = certificate.public_key();
        theirs.algorithm.algorithm.to_id_string() == self.algorithm.to_string()
            && *theirs.subject_public_key.data == *self.bits
    }

    /// Returns the public key of a private key; `None` if no server accepts the private key. `label` is the
    /// label of its PEM section.
    pub(super) fn of(label: &str, private: &[u8]) -> Option<Self> {
        // Old tools write PKCS #8 under the old labels, and servers accept the combination.
        match label {
            "PRIVATE KEY" => pkcs8(private),
            "RSA PRIVATE KEY" => rsa(RSA, private).or_else(|| pkcs8(private)),
            "EC PRIVATE KEY" => ec(private, None).or_else(|| pkcs8(private)),
            _ => None,
        }
    }
}

fn pkcs8(private: &[u8]) -> Option<PublicKey> {
    let PrivateKeyInfo { algorithm, private_key, .. } = PrivateKeyInfo::from_der(private).ok()?;
    match algorithm.oid {
        RSA | RSA_PSS => rsa(algorithm.oid, private_key),
        EC => ec(private_key, Some(algorithm.parameters_oid().ok()?)),
        ED25519 => ed25519(private_key),
        _ => None,
    }
}

fn rsa(algorithm: ObjectIdentifier, private: &[u8]) -> Option<PublicKey> {
    let key = RsaPrivateKey::from_der(private).ok().filter(|key| key.other_prime_infos.is_none())?;
    let [n, e, d, p, q] = [key.modulus, key.public_exponent, key.private_exponent, key.prime1, key.prime2]
        .map(|number| BigUint::from_bytes_be(number.as_bytes()));
    let one = BigUint::from(1_u8);
    let inverts = |prime: &BigUint| *prime > one && (&d * &e) % (prime - &one) == one;
    let is_key = RSA_BITS.contains(&n.bits()) && &p * &q == n && inverts(&p) && inverts(&q);
    let bits = key.public_key().to_der().ok().filter(|_| is_key)?;
    Some(PublicKey { algorithm, bits })
}

/// Reads an EC key. The curve is named beside the key or in the key. A public key in the private key must
/// match.
fn ec(private: &[u8], curve: Option<ObjectIdentifier>) -> Option<PublicKey> {
    let key = EcPrivateKey::from_der(private).ok()?;
    let inner = key.parameters.and_then(EcParameters::named_curve);
    let scalar = key.private_key;
    let bits = match curve.or(inner)? {
        P256 => bits(&p256::SecretKey::from_slice(scalar).ok()?.public_key()),
        P384 => bits(&p384::SecretKey::from_slice(scalar).ok()?.public_key()),
        P521 => bits(&p521::SecretKey::from_slice(scalar).ok()?.public_key()),
        _ => return None,
    };
    let is_right = key.public_key.is_none_or(|public| *public == *bits);
    is_right.then_some(PublicKey { algorithm: EC, bits })
}

fn bits<C: Curve>(public: &impl ToEncodedPoint<C>) -> Vec<u8>
where
    FieldBytesSize<C>: ModulusSize,
{
    public.to_encoded_point(false).as_bytes().to_vec()
}

fn ed25519(private: &[u8]) -> Option<PublicKey> {
    let seed = OctetStringRef::from_der(private).ok()?;
    let key = Ed25519KeyPair::from_seed_unchecked(seed.as_bytes()).ok()?;
    Some(PublicKey { algorithm: ED25519, bits: key.public_key().as_ref().to_vec() })
}

#[cfg(test)]
mod tests {
    use super::super::pem::{key, pair};

    /// OpenSSL 3.0 made each of these keys, and servers with OpenSSL or Go 1.26 accept them.
    #[test]
    fn keys_that_servers_take_belong_to_their_certificates() {
        macro_rules! pairs {
            ($($name:literal),*) => {
                [$((
                    $name,
                    include_str!(concat!("fixtures/", $name, ".crt")),
                    include_str!(concat!("fixtures/", $name, ".key")),
                )),*]
            };
        }
        let pairs =
            pairs!["p256", "p384", "p521", "rsa-5120", "rsa-pkcs1", "rsa-pss", "rsa-pss-salt", "ed25519"];
        for (name, certificate, private) in pairs {
            let said = pair(certificate.as_bytes(), private.as_bytes())
                .map_err(|(key, fault)| format!("{key} {}", fault.what));
            assert_eq!(said, Ok(()), "{name}");
            for (other, other_certificate, _) in pairs.iter().filter(|(other, ..)| *other != name) {
                let (_, fault) = pair(other_certificate.as_bytes(), private.as_bytes()).unwrap_err();
                assert!(fault.what.starts_with("does not belong"), "{name} {other}: {}", fault.what);
            }
        }
        // Java writes the key like this, without the public key.
        let (certificate, private) =
            (include_str!("fixtures/p256.crt"), include_str!("fixtures/p256-private-only.key"));
        assert!(pair(certificate.as_bytes(), private.as_bytes()).is_ok());
    }

    #[test]
    fn what_no_server_takes_is_refused() {
        let pkcs1 = include_str!("fixtures/rsa-pkcs1.key");
        let p256 = include_str!("fixtures/p256.key");
        let (first, rest) = p256.split_at(p256.find("MIGH").unwrap());
        for (text, is_taken) in [
            (pkcs1.to_owned(), true),
            // OpenSSL decides by the words of the label.
            (pkcs1.replace("RSA PRIVATE KEY", "PRIVATE KEY"), false),
            (p256.replace("PRIVATE KEY", "EC PRIVATE KEY"), true),
            (p256.replace("PRIVATE KEY", "DSA PRIVATE KEY"), false),
            (format!("{first}AAAA{}", &rest[4..]), false),
            (
                format!(
                    "{p256}-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n"
                ),
                true,
            ),
            (
                format!(
                    "-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n-----END OPENSSH PRIVATE KEY-----\n{p256}"
                ),
                false,
            ),
        ] {
            assert_eq!(key(text.as_bytes()).is_ok(), is_taken, "{text}");
        }
    }
}
