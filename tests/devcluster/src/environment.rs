//! The environment variables that steer this crate, read in one place.

use std::env;
use std::ffi::OsString;
use std::path::PathBuf;

use crate::error::Error;

/// What the environment says.
#[derive(Clone, Debug)]
pub(crate) struct Environment {
    /// `COPYRATOR_TEST_KUBECONFIG`: use this cluster instead of starting one.
    pub(crate) existing: Option<PathBuf>,
    /// `KUBEBUILDER_ASSETS`: a folder with etcd, kube-apiserver and kubectl.
    pub(crate) assets: Option<PathBuf>,
    /// Where built programs are kept, from `XDG_CACHE_HOME` or `HOME`.
    cache: Option<PathBuf>,
}

impl Environment {
    pub(crate) fn read() -> Environment {
        let path = |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        // The XDG specification has relative paths ignored.
        let cache = path("XDG_CACHE_HOME").filter(|dir| dir.is_absolute());
        let cache = cache.or_else(|| path("HOME").map(|home| home.join(".cache")));
        Environment {
            existing: path("COPYRATOR_TEST_KUBECONFIG"),
            assets: path("KUBEBUILDER_ASSETS"),
            cache: cache.map(|dir| dir.join("copyrator").join("devcluster")),
        }
    }

    /// Where built programs are kept.
    pub(crate) fn cache(&self) -> Result<PathBuf, Error> {
        self.cache.clone().ok_or(Error::NoCacheFolder)
    }
}

/// The names of the variables that begin with `prefix`.
pub(crate) fn variables(prefix: &str) -> impl Iterator<Item = OsString> {
    env::vars_os()
        .map(|(name, _)| name)
        .filter(move |name| name.as_encoded_bytes().starts_with(prefix.as_bytes()))
}
