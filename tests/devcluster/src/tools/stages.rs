//! kwok's stages: what it makes of a node and of a pod. They come with its module as YAML and are kept
//! beside the program, so that a start needs no Go.

use std::fs;
use std::path::{Path, PathBuf};

use crate::error::Error;

const USED: [&str; 3] = ["node/fast", "node/heartbeat-with-lease", "pod/fast"];
const FOLDER: &str = "stages";

/// Copies the stages in use from kwok's module to the folder of its program.
pub(super) fn copy(module: &Path, programs: &Path) -> Result<(), Error> {
    let target = programs.join(FOLDER);
    fs::create_dir_all(&target).map_err(Error::file("create", &target))?;
    for stage in USED {
        for file in yaml_files(&module.join("kustomize/stage").join(stage))? {
            let name = file.file_name().unwrap_or_default();
            // Written anew rather than copied: Go's module cache is read-only, mode bits included.
            let text = fs::read(&file).map_err(Error::file("read", &file))?;
            fs::write(target.join(name), text).map_err(Error::file("write", &target.join(name)))?;
        }
    }
    Ok(())
}

/// The stages kept beside kwok's program.
pub(crate) fn files(programs: &Path) -> Result<Vec<PathBuf>, Error> {
    yaml_files(&programs.join(FOLDER))
}

fn yaml_files(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).map_err(Error::file("list", folder))? {
        let path = entry.map_err(Error::file("list", folder))?.path();
        // kustomization.yaml only says which of the others to take.
        let is_stage = path.file_stem().is_some_and(|stem| stem != "kustomization");
        if is_stage && path.extension().is_some_and(|extension| extension == "yaml") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}
