//! What `copyrator plan` says, in the shape that `-o json` shows. Fields are only ever added.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::Serialize;

use crate::{
    cli::survey::{Asked, Survey},
    model::NamespacedName,
    plan::{Course, Difference, Outlook, rule_status},
};

/// What would happen.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Report {
    /// The marks of copies were verified; else they are taken at their word.
    pub verified: bool,
    /// What to know before reading on.
    pub notes: Vec<String>,
    /// Every rule, by namespace and name; a rule of a file that would be refused has a row of its own.
    pub rules: Vec<RuleRow>,
    /// Every copy that something would happen to, or should; with `-o wide` those in order, too.
    pub copies: Vec<CopyRow>,
    /// How many copies there are of each kind.
    pub summary: Summary,
}

/// A rule.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RuleRow {
    pub namespace: String,
    pub name: String,
    /// `FILE:LINE`, where it comes from a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Whose rights it acts with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub identity: Option<String>,
    /// How it is known what it may do.
    pub authority: Authority,
    /// `refuse`, `unknown` or `wait`, where that is true of the rule as a whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub action: Option<Course>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// What whoever applies it would be warned of.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// How it is known what a rule may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Authority {
    /// It may.
    Allowed,
    /// It may, as its status says.
    AllowedByStatus,
    /// It may not.
    Refused,
    /// Nobody could be asked; planned as if it may.
    NotAsked,
    /// It is not valid, so that it does not matter.
    NotValid,
}

/// A copy.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CopyRow {
    pub action: Course,
    pub kind: String,
    pub namespace: String,
    pub name: String,
    /// `namespace/name`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// `namespace/name`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    pub reason: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// What would change, by name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changes: Option<Difference>,
    /// When a copy that nobody wants goes; without it, at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub removed_at: Option<Timestamp>,
    /// What became of it when Copyrator last tried, as the rule's status says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_attempt: Option<String>,
}

/// Counts of copies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Summary {
    pub create: usize,
    pub change: usize,
    pub remove: usize,
    pub refuse: usize,
    pub unknown: usize,
    pub wait: usize,
    pub current: usize,
}

impl Report {
    /// What a survey comes to; of one namespace, the rules that are there and the copies that land there.
    pub(super) fn new(survey: &Survey, namespace: Option<&str>, with_current: bool) -> Self {
        let shown = survey.shown(namespace);
        let mut summary = Summary::default();
        for outlook in &shown {
            *summary.of(outlook.course) += 1;
        }
        let mut rules: BTreeMap<NamespacedName, RuleRow> = BTreeMap::new();
        let with_copies: BTreeSet<&NamespacedName> =
            survey.outlooks.iter().filter_map(|outlook| outlook.rule.as_ref()).collect();
        let reaching: BTreeSet<&NamespacedName> =
            shown.iter().filter_map(|outlook| outlook.rule.as_ref()).collect();
        for rule in survey.world.rules.keys() {
            if reaching.contains(rule) || namespace.is_none_or(|namespace| *rule.namespace == *namespace) {
                rules.insert(rule.clone(), rule_row(survey, &with_copies, rule));
            }
        }
        let declined = survey.declined.iter().map(|declined| RuleRow {
            file: Some(declined.place.clone()),
            authority: if declined.reason == "Forbidden" { Authority::Refused } else { Authority::NotValid },
            action: Some(Course::Refuse),
            reason: declined.reason.clone(),
            message: declined.message.clone(),
            ..named(&declined.rule)
        });
        let rules = declined.chain(rules.into_values()).collect();
        let copies = shown.into_iter().filter(|outlook| with_current || outlook.course != Course::Current);
        let copies = copies.map(|outlook| copy_row(survey, outlook)).collect();
        Self { verified: survey.verified, notes: survey.notes.clone(), rules, copies, summary }
    }

    /// Whether anything would change or be refused, or cannot be told.
    pub(super) fn has_findings(&self) -> bool {
        let Summary { create, change, remove, refuse, unknown, wait: _, current: _ } = self.summary;
        create + change + remove + refuse + unknown > 0
            || self.rules.iter().any(|rule| matches!(rule.action, Some(Course::Refuse | Course::Unknown)))
    }
}

impl Summary {
    fn of(&mut self, course: Course) -> &mut usize {
        match course {
            Course::Create => &mut self.create,
            Course::Change => &mut self.change,
            Course::Remove => &mut self.remove,
            Course::Refuse => &mut self.refuse,
            Course::Unknown => &mut self.unknown,
            Course::Wait => &mut self.wait,
            Course::Current => &mut self.current,
        }
    }
}

fn named(rule: &NamespacedName) -> RuleRow {
    RuleRow {
        namespace: rule.namespace.to_string(),
        name: rule.name.to_string(),
        file: None,
        identity: None,
        authority: Authority::Allowed,
        action: None,
        reason: String::new(),
        message: String::new(),
        warnings: Vec::new(),
    }
}

fn rule_row(survey: &Survey, with_copies: &BTreeSet<&NamespacedName>, rule: &NamespacedName) -> RuleRow {
    let world = &survey.world;
    let file = survey.from_files.get(rule);
    let row = RuleRow {
        file: file.map(|file| file.place.clone()),
        warnings: file.map(|file| file.warnings.clone()).unwrap_or_default(),
        ..named(rule)
    };
    let Some(facts) = world.rules.get(rule) else { return row };
    if let Err(problems) = &facts.compiled {
        let message = problems.iter().map(|problem| problem.message.as_str()).collect::<Vec<_>>().join("; ");
        let (authority, action) = (Authority::NotValid, Some(Course::Refuse));
        return RuleRow { authority, action, reason: "Invalid".into(), message, ..row };
    }
    let known = world.rule_authority.get(rule);
    let row = RuleRow { identity: known.map(|known| known.identity.clone()), ..row };
    if let Some(Err((reason, message))) = known.map(|known| &known.answer) {
        let (authority, action) = (Authority::Refused, Some(Course::Refuse));
        return RuleRow { authority, action, reason: reason.clone(), message: message.clone(), ..row };
    }
    let (authority, not_asked) = match survey.asked.get(rule) {
        Some(Asked::Reported) => (Authority::AllowedByStatus, String::new()),
        Some(Asked::Assumed(why)) => {
            (Authority::NotAsked, format!("authority not asked ({why}); planned as if it may"))
        }
        Some(Asked::Answered) | None => (Authority::Allowed, String::new()),
    };
    let row = RuleRow { authority, message: not_asked, ..row };
    if survey.blind.contains(rule) {
        let message = "what it copies from or to may not be listed".into();
        return RuleRow { action: Some(Course::Unknown), reason: "Unread".into(), message, ..row };
    }
    // What the reconciler would say of a rule that has nothing to copy, or nowhere to copy it to, or is suspended.
    // Of others it would look at every slot once more.
    if with_copies.contains(rule) && !facts.spec.suspend {
        return row;
    }
    let status = rule_status(world, rule, survey.now).unwrap_or_default();
    let ready = status.conditions.into_iter().find(|condition| condition.type_ == "Ready");
    match ready.filter(|ready| ["NoSource", "NoTarget", "Suspended"].contains(&&*ready.reason)) {
        Some(ready) => RuleRow {
            action: Some(Course::Wait),
            reason: ready.reason,
            message: [row.message.as_str(), ready.message.as_str()].join(" ").trim().to_owned(),
            ..row
        },
        None => row,
    }
}

fn copy_row(survey: &Survey, outlook: &Outlook) -> CopyRow {
    let is_due = matches!(outlook.course, Course::Create | Course::Change);
    let reported = survey.reported(outlook).filter(|_| is_due);
    CopyRow {
        action: outlook.course,
        kind: outlook.slot.kind.to_string(),
        namespace: outlook.slot.namespace.to_string(),
        name: outlook.slot.name.to_string(),
        rule: outlook.rule.as_ref().map(ToString::to_string),
        source: outlook.source.as_ref().map(ToString::to_string),
        reason: outlook.reason.clone(),
        message: outlook.message.clone(),
        changes: outlook.difference.clone(),
        removed_at: outlook.at,
        last_attempt: reported.map(|problem| format!("{}: {}", problem.reason, problem.message)),
    }
}
