//! Who may talk to the API server, and by which token.

use std::path::Path;

use ring::rand::{SecureRandom, SystemRandom};

use crate::error::Error;
use crate::kubeconfig;
use crate::options::User;

/// The user for set-up, above all rights.
pub(crate) const ADMIN: &str = "admin";
/// The users that the components are, as in a real cluster.
pub(crate) const CONTROLLER_MANAGER: &str = "system:kube-controller-manager";
pub(crate) const SCHEDULER: &str = "system:kube-scheduler";
pub(crate) const KWOK: &str = "system:kwok";

/// A user with a token.
#[derive(Debug)]
pub(crate) struct Identity {
    pub(crate) user: User,
    pub(crate) token: String,
}

/// The cluster's own users and the caller's, each with a new token.
pub(crate) fn make(users: &[User]) -> Result<Vec<Identity>, Error> {
    let own = [
        User::new(ADMIN, &["system:masters"]),
        User::new(CONTROLLER_MANAGER, &[]),
        User::new(SCHEDULER, &[]),
        User::new(KWOK, &[]),
    ];
    let identity = |user| Ok(Identity { user, token: random_hex("a token")? });
    own.into_iter().chain(users.iter().cloned()).map(identity).collect()
}

/// Writes the file that kube-apiserver's `--token-auth-file` reads.
pub(crate) fn write_tokens(identities: &[Identity], path: &Path) -> Result<(), Error> {
    let lines: String = identities.iter().map(line).collect();
    kubeconfig::write_secret(path, lines.as_bytes())
}

fn line(identity: &Identity) -> String {
    let User { name, groups } = &identity.user;
    format!("{},{},{},{}\n", identity.token, quote(name), quote(name), quote(&groups.join(",")))
}

/// A field of a CSV file, whatever is in it.
fn quote(field: &str) -> String {
    format!("\"{}\"", field.replace('"', "\"\""))
}

/// 32 hexadecimal digits that nobody can guess.
pub(crate) fn random_hex(purpose: &'static str) -> Result<String, Error> {
    let mut bytes = [0; 16];
    SystemRandom::new().fill(&mut bytes).map_err(|_| Error::Random { purpose })?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::{Identity, line};
    use crate::options::User;

    #[test]
    fn a_token_line_is_csv() {
        let user = User::new("o\"brien", &["a", "b"]);
        assert_eq!(line(&Identity { user, token: "t".into() }), "t,\"o\"\"brien\",\"o\"\"brien\",\"a,b\"\n");
    }
}
