//! Puts a rotation into the Secret with the webhook's CA. [`crate::read::ca`] reads the Secret.

use std::collections::BTreeMap;

use copyrator_certs::Rotation;
use jiff::Timestamp;
use k8s_openapi::{ByteString, api::core::v1::Secret, apimachinery::pkg::apis::meta::v1::ObjectMeta};

use crate::marks::{CA_PUBLISHED, CA_SECRET, CA_SWITCHED, ROTATE};

/// Creates a Secret with only this rotation.
pub(super) fn encode(rotation: &Rotation) -> Secret {
    let metadata = ObjectMeta { name: Some(CA_SECRET.into()), ..ObjectMeta::default() };
    update(Secret { metadata, ..Secret::default() }, rotation)
}

/// Puts this rotation into the Secret. Other labels and annotations stay, and so does the resource version.
pub(super) fn update(mut secret: Secret, rotation: &Rotation) -> Secret {
    let data: BTreeMap<_, _> =
        rotation.secret.to_data().into_iter().map(|(key, value)| (key, ByteString(value))).collect();
    secret.data = Some(data);
    let annotations = secret.metadata.annotations.get_or_insert_default();
    annotations.remove(ROTATE);
    for (key, time) in [(CA_PUBLISHED, rotation.published), (CA_SWITCHED, rotation.switched)] {
        match time.and_then(|time| Timestamp::try_from(time).ok()) {
            Some(time) => annotations.insert(key.to_owned(), time.to_string()),
            None => annotations.remove(key),
        };
    }
    secret
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use copyrator_certs::{Authority, Step, Times};

    use super::*;
    use crate::read::ca::rotation_of;

    #[test]
    fn a_rotation_read_back_is_the_same() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_millis(1_700_000_000_500);
        let first = Rotation::new(Authority::issue("ca", now, Duration::from_secs(86_400)).unwrap(), now);
        let announced = first.take(&Step::Announce, &Times::default(), now).unwrap();
        let published = announced.take(&Step::Publish, &Times::default(), now).unwrap();
        for rotation in [first, announced, published] {
            let read = rotation_of(&encode(&rotation)).unwrap();
            assert_eq!(read.secret.to_data(), rotation.secret.to_data());
            assert_eq!(
                (read.asked, read.published, read.switched),
                (false, rotation.published, rotation.switched)
            );
        }
    }

    #[test]
    fn what_others_wrote_on_it_stays_and_a_wish_is_granted_once() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
        let rotation = Rotation::new(Authority::issue("ca", now, Duration::from_secs(86_400)).unwrap(), now);
        let mut secret = encode(&rotation);
        let annotations = secret.metadata.annotations.get_or_insert_default();
        annotations.insert("example.com/team".into(), "platform".into());
        annotations.insert(ROTATE.into(), "now".into());
        annotations.insert(CA_SWITCHED.into(), "yesterday".into());
        secret.metadata.resource_version = Some("7".into());
        let read = rotation_of(&secret).unwrap();
        assert_eq!((read.asked, read.switched), (true, None));

        let written = update(secret, &rotation);
        assert_eq!(written.metadata.resource_version.as_deref(), Some("7"));
        let annotations = written.metadata.annotations.unwrap();
        let keys: Vec<_> = annotations.keys().map(String::as_str).collect();
        assert_eq!(keys, [CA_SWITCHED, "example.com/team"]);
    }
}
