//! Events on an object that templates are rendered for. An Event reports why the object lacks what the
//! templates declare for it. The object's author reads the Event with `kubectl describe`, and may be unable
//! to read the namespace of the template.

use super::context::{Context, now};
use crate::{
    act::report::{Hindrance, Reporter},
    model::RenderedSet,
    names::{Declarer, InstanceName, ObjectKey},
    plan::copy::{ProblemReason, hindrances},
};

/// Reports on objects that templates are rendered for.
pub(super) struct InstanceEvents {
    pub(super) context: Context,
    pub(super) reporter: Reporter,
}

impl InstanceEvents {
    /// Reports what could not be rendered, or written into the object's status; without such a fault, clears
    /// the report.
    pub(super) async fn of_rendering(&self, template: &Declarer, instance: &InstanceName) {
        let Some(object) = instance.object() else { return };
        let what = self.context.world().rendered(template, instance).and_then(unrendered);
        let of = Hindrance { template, object: &object, what: "rendering" };
        self.reporter.hindered(of, what.map(|what| (ProblemReason::RenderFailed.as_str(), what))).await;
    }

    /// Reports what keeps a rendered object from being written; without such a problem, clears the report.
    pub(super) async fn of_slot(&self, slot: &ObjectKey) {
        let told: Vec<_> = {
            let world = self.context.world();
            let hindrances = hindrances(&world, slot, now()).into_iter().flatten();
            let told = hindrances.filter_map(|(template, instance, problem)| {
                let what =
                    problem.map(|problem| (problem.reason.as_str(), format!("{slot}: {}", problem.message)));
                Some((template.clone(), instance.object()?, what))
            });
            told.collect()
        };
        let slot = slot.to_string();
        for (template, object, what) in told {
            let of = Hindrance { template: &template, object: &object, what: &slot };
            self.reporter.hindered(of, what).await;
        }
    }
}

/// Returns the first fault of a rendering. Waiting for other objects is no fault.
fn unrendered(set: &RenderedSet) -> Option<String> {
    let fault = set.faults.iter().find(|fault| !fault.waits);
    let of_object = fault.map(|fault| format!("{}: {}", fault.id, fault.message));
    of_object.or_else(|| Some(format!("writeStatus: {}", set.status_fault.as_ref()?.message)))
}
