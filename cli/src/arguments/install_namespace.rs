//! The flag for the namespace of Copyrator's own objects.

#[derive(Clone, Debug, clap::Args)]
#[expect(missing_docs, reason = "clap would print a docstring as the description of each command")]
pub struct InstallNamespace {
    /// The namespace of Copyrator's own objects (lease, CA, digest key) [default: copyrator-system].
    #[arg(long, visible_alias = "copyrator-namespace", env = "COPYRATOR_NAMESPACE", value_name = "NS")]
    namespace: Option<String>,
    /// Its name in the environment of the first Copyrator.
    #[arg(long, env = "NAMESPACE", default_value = "copyrator-system", hide = true)]
    seed_namespace: String,
}

impl InstallNamespace {
    /// Returns the namespace of Copyrator's own objects.
    pub fn namespace(self) -> String {
        self.namespace.filter(|name| !name.is_empty()).unwrap_or(self.seed_namespace)
    }
}
