//! Plans as text.

use copyrator::{
    model::{ForeignField, World},
    names::ObjectKey,
    plan::copy::{CopyAction, SlotPlan, SlotState, rule_status},
};
use jiff::Timestamp;

/// What the rules say of themselves, where it is more than that all is copied.
pub fn statuses(world: &World, now: Timestamp) -> Vec<String> {
    let line = |rule| {
        let status = rule_status(world, rule, now).unwrap();
        let is = |name: &str| status.conditions.iter().find(|one| one.type_ == name);
        let ready = is("Ready").map_or_else(String::new, |ready| ready.reason.clone());
        let problems = status.problems.iter();
        let problems: Vec<_> =
            problems.map(|one| format!("{} {}", one.reason, one.place()).trim_end().to_owned()).collect();
        assert!(status.problem_count >= problems.len() as i64, "rule {rule}: {status:?}");
        let count = match status.problem_count {
            0 => None,
            1 => Some("1 problem".to_owned()),
            number => Some(format!("{number} problems")),
        };
        let copies = vec![format!("{ready} {}/{}", status.current, status.desired)];
        let says = [copies, count.into_iter().collect(), problems].concat().join(", ");
        (says != format!("AllCopied {0}/{0}", status.desired)).then(|| format!("rule {rule}: {says}"))
    };
    world.rules().keys().filter_map(line).collect()
}

pub fn name(slot: &ObjectKey) -> String {
    format!("{} {}/{}", slot.kind.resource().singular(), slot.namespace, slot.name)
}

pub fn state(plan: &SlotPlan) -> Option<String> {
    let state = match &plan.state {
        SlotState::Nothing => {
            assert_eq!(plan.action, None);
            return None;
        }
        SlotState::Blocked(problem) => {
            let message: String = problem.message.chars().take_while(|c| *c != ':').collect();
            format!("Blocked {} ({message})", problem.reason.as_str())
        }
        SlotState::Altered(problem) => format!("Altered {}", problem.reason.as_str()),
        SlotState::Braked(until) => format!("Braked until {}", until.as_second()),
        SlotState::Leaving(Some(after)) => format!("Leaving at {}", after.as_second()),
        SlotState::Leaving(None) => "Leaving".into(),
        SlotState::Inert(why) => format!("Inert {why:?}"),
        other => format!("{other:?}"),
    };
    Some(plan.rule.as_ref().map_or_else(|| state.clone(), |rule| format!("{state} {rule}")))
}

pub fn print(action: &CopyAction) -> String {
    let fields = |fields: &[ForeignField]| -> String {
        let path = |field: &ForeignField| match field {
            ForeignField::Data(key) => format!(" data/{key}"),
            ForeignField::BinaryData(key) => format!(" binaryData/{key}"),
            ForeignField::Path(path) => format!(" {path}"),
            other => format!(" {other:?}"),
        };
        fields.iter().map(path).collect()
    };
    match action {
        CopyAction::Write(write) => {
            let verb = match (&write.replaces, write.anew) {
                (None, _) => "create",
                (_, true) => "delete and create",
                _ => "update",
            };
            let mut text = format!("{verb} from {}/{}", write.source.namespace, write.source.name);
            let updates = write.replaces.is_some() && !write.anew;
            if let Some(taken) = write.take_over.as_ref().filter(|_| updates) {
                text += &format!(", take over{}", fields(taken));
            }
            if updates && write.disown {
                text += ", disown";
            }
            if updates && !write.surplus.is_empty() {
                text += &format!(", strip{}", fields(&write.surplus));
            }
            if let Some(definition) = &write.definition {
                text += &format!(", under {definition}");
            }
            text
        }
        CopyAction::MarkRemoval(_, after) => format!("mark removal at {}", after.as_second()),
        CopyAction::MarkStaying(_, after) => format!("mark staying at {}", after.as_second()),
        CopyAction::Unmark(_) => "unmark".into(),
        CopyAction::Vouch(_, definition) => format!("vouch under {definition}"),
        CopyAction::Delete(_) => "delete".into(),
        CopyAction::Release(_) => "release".into(),
    }
}
