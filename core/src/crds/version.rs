//! What a Kubernetes server of a certain version supports.

use std::{
    fmt::{self, Display, Formatter},
    str::FromStr,
};

use super::ManifestFile;

/// A version of Kubernetes, as in `1.34`, or `v1.34.2-eks-1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KubeVersion {
    major: u32,
    minor: u32,
}

/// The first version that serves MutatingAdmissionPolicies in `admissionregistration.k8s.io/v1`.
const STAMPS: KubeVersion = KubeVersion { major: 1, minor: 36 };

/// A text that is not a version of Kubernetes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a version of Kubernetes: write one like 1.34")]
pub struct NoVersion(String);

impl FromStr for KubeVersion {
    type Err = NoVersion;

    fn from_str(text: &str) -> Result<Self, NoVersion> {
        let no_version = || NoVersion(text.to_owned());
        let mut numbers = text.strip_prefix('v').unwrap_or(text).splitn(3, '.');
        let mut number = || numbers.next().and_then(|part| part.trim_end_matches('+').parse().ok());
        Ok(Self { major: number().ok_or_else(no_version)?, minor: number().ok_or_else(no_version)? })
    }
}

impl Display for KubeVersion {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

impl KubeVersion {
    /// The oldest version that Copyrator runs on: the first with ValidatingAdmissionPolicies in v1.
    pub const OLDEST: Self = Self { major: 1, minor: 30 };

    /// Whether a server of this version can stamp authors by itself.
    pub fn stamps(self) -> bool {
        self >= STAMPS
    }

    /// Whether a server of this version accepts the file.
    pub(super) fn takes(self, file: &ManifestFile) -> bool {
        self.stamps() || !file.text.contains("\nkind: MutatingAdmissionPolicy\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_older_server_is_not_given_what_it_does_not_know() {
        let files = |version: &str| -> Vec<String> {
            let version = version.parse::<KubeVersion>().unwrap();
            let taken = crate::crds::files().into_iter().filter(|file| version.takes(file));
            taken.map(|file| file.name).collect()
        };
        let all = files("1.36");
        assert!(all.contains(&"author.yaml".to_owned()) && all.len() == 10, "{all:?}");
        for older in ["1.30", "v1.35.4-eks-12", "1.35+"] {
            let some = files(older);
            let stamps = |file: &String| ["author.yaml", "annotations.yaml"].contains(&file.as_str());
            assert!(!some.iter().any(stamps) && some.len() == 8, "{older}: {some:?}");
        }
        assert_eq!(files("v2.0.0"), all);
        for wrong in ["", "1", "one.two", "1.", "v"] {
            assert!(wrong.parse::<KubeVersion>().is_err(), "{wrong}");
        }
    }
}
