//! What users do, in order, and what they were promised.

mod appear;
mod fresh;
mod install;
mod refused;
mod uninstall;
mod upgrade;
mod writes;

use crate::boundary::Inside;
use crate::failure::Failure;
use crate::scene::Scene;
use crate::transcript;

/// Where Copyrator is installed.
const HOME: &str = "copyrator-system";

/// Tells the whole story on a new node.
pub(crate) fn tell(inside: &Inside) -> Result<(), Failure> {
    let mut scene = Scene::set(inside)?;
    if let Err(failure) = acts(&mut scene) {
        scene.keep_evidence();
        return Err(failure);
    }
    let text = scene.end();
    if inside.is_recorded { transcript::record(&text) } else { Ok(()) }
}

fn acts(scene: &mut Scene) -> Result<(), Failure> {
    install::act(scene)?;
    appear::act(scene)?;
    fresh::act(scene)?;
    refused::act(scene)?;
    upgrade::act(scene)?;
    uninstall::act(scene)
}
