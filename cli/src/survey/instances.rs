//! Lists the objects that templates are rendered for, with the caller's own rights.

use kube::Client;

use crate::{
    intake::watched::note_unreadable,
    model::{InstancesRead, World},
    read::{
        hindered::hindered,
        instances::{InstancesOf, resource},
        kept::Kept as _,
        listing::{ListError, list_instances},
    },
};

/// Lists the objects of each kind that templates may be rendered for into the world. Returns notes on the
/// kinds that the caller may not list.
pub(super) async fn take(client: &Client, world: &mut World) -> Result<Vec<String>, ListError> {
    let (granted, mut notes) = (world.settings().template_kinds.clone(), Vec::new());
    for kind in granted.iter().filter(|kind| kind.for_each) {
        let read = match list_instances(client, kind).await {
            Ok(objects) => {
                for object in objects {
                    match object.read() {
                        Ok(object) => object.put(&kind.kind, world),
                        Err(left) => {
                            note_unreadable(&InstancesOf(kind.clone()).named(&left.metadata), &left, world)
                        }
                    };
                }
                hindered(client, &resource(kind)).await.unwrap_or(InstancesRead::Listed)
            }
            Err(ListError::NotServed { .. }) => InstancesRead::NotServed,
            Err(error @ ListError::Refused { .. }) => {
                notes.push(format!("cannot show templates for each {}: {error}", kind.kind.kind));
                InstancesRead::Failed(error.to_string())
            }
            Err(error) => return Err(error),
        };
        world.set_instances_read(&kind.kind, read);
    }
    Ok(notes)
}
