//! What etcd has stored, for clusters that begin with what another one came to.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use crate::error::Error;

/// Copies etcd's folder. That etcd has ended: what it writes meanwhile would be there in part.
///
/// A single etcd dials no peer, so it minds no address of the other cluster that is stored.
pub(crate) fn copy(from: &Path, to: &Path) -> Result<(), Error> {
    // etcd complains of any other mode.
    DirBuilder::new().mode(0o700).create(to).map_err(Error::file("create", to))?;
    for entry in fs::read_dir(from).map_err(Error::file("read", from))? {
        let entry = entry.map_err(Error::file("read", from))?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        match source.is_dir() {
            true => copy(&source, &target)?,
            false => drop(fs::copy(&source, &target).map_err(Error::file("copy", &source))?),
        }
    }
    Ok(())
}
