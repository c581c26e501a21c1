//! UIDs and resource versions in little memory: the model has both for each workload of the cluster.

use std::fmt;

use uuid::{Uuid, fmt::Hyphenated};

/// An object's `metadata.uid`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Uid(UidText);

/// The API server gives UUIDs. Any other text is kept as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
enum UidText {
    Uuid(Uuid),
    Other(Box<str>),
}

impl From<&str> for Uid {
    fn from(text: &str) -> Self {
        let uuid = Uuid::try_parse(text).ok().filter(|uuid| {
            let mut buffer = [0; Hyphenated::LENGTH];
            *uuid.hyphenated().encode_lower(&mut buffer) == *text
        });
        Self(uuid.map_or_else(|| UidText::Other(text.into()), UidText::Uuid))
    }
}

impl fmt::Display for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            UidText::Uuid(uuid) => uuid.hyphenated().fmt(f),
            UidText::Other(text) => f.write_str(text),
        }
    }
}

/// An object's `metadata.resourceVersion`, compared for equality only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceVersion(VersionText);

/// The API server gives numbers. Any other text is kept as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
enum VersionText {
    Number(u64),
    Other(Box<str>),
}

impl From<&str> for ResourceVersion {
    fn from(text: &str) -> Self {
        let number = text.parse().ok().filter(|number: &u64| number.to_string() == text);
        Self(number.map_or_else(|| VersionText::Other(text.into()), VersionText::Number))
    }
}

impl fmt::Display for ResourceVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            VersionText::Number(number) => number.fmt(f),
            VersionText::Other(text) => f.write_str(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_text_is_given_back_as_it_came() {
        for text in [
            "0ee7bf3f-7fb9-4b0c-9d2c-5b4f0bd4a0ce",
            "0EE7BF3F-7FB9-4B0C-9D2C-5B4F0BD4A0CE",
            "0ee7bf3f7fb94b0c9d2c5b4f0bd4a0ce",
            "u",
            "",
        ] {
            assert_eq!(Uid::from(text).to_string(), text);
        }
        for text in ["7", "18446744073709551615", "18446744073709551616", "007", "+7", "-7", "a", ""] {
            assert_eq!(ResourceVersion::from(text).to_string(), text);
        }
    }

    #[test]
    fn what_the_api_server_gives_takes_no_room_elsewhere() {
        assert!(matches!(Uid::from("0ee7bf3f-7fb9-4b0c-9d2c-5b4f0bd4a0ce").0, UidText::Uuid(_)));
        assert!(matches!(ResourceVersion::from("123456").0, VersionText::Number(123_456)));
    }
}
