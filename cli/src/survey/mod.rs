//! A survey: the cluster, read once, with every copy and every restart planned, without any write.
//!
//! A survey lists everything once, metadata only, into the same [`World`] that the reconciler keeps. After
//! the lists, the survey plans and fetches what the plans need, until they need nothing more.

mod applied;
mod authority;
mod content;
mod error;
mod file_outlook;
mod granted;
mod instances;
mod lists;
mod policies;
mod restarts;
mod selected;
mod take;
mod trust;
mod untold;
mod values;

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use kube::Client;

pub(super) use authority::AnswerSource;
pub use error::SurveyError;
pub(super) use file_outlook::FileOutlook;
pub(crate) use selected::Selected;
pub use take::{read_scope, take_survey};

use crate::{
    access::CallerAuthorizer,
    explain::{Around, CopyRow, CopyState, RestartOutlook, carry_out, copy_rows, records},
    files::Item,
    installed::{Installed, Kinds, ReadScope, settings},
    model::{RuleFacts, Unseen, World},
    names::{Declarer, Kind, ObjectKey, WorkloadKey},
    plan::{
        Need, Reason,
        copy::{SlotPlan, unreadable_said},
    },
    render::all::render_everything,
};

/// The cluster, read once, and the planned action on every copy and workload.
pub struct Survey {
    /// Everything that was read.
    pub world: World,
    /// The planned action on each copy.
    pub outlooks: Vec<CopyRow>,
    /// Where the answer about each rule's rights comes from.
    pub asked: BTreeMap<Declarer, AnswerSource>,
    /// Rules that cannot be planned, since the caller may not read what they copy.
    pub blind: BTreeSet<Declarer>,
    /// The planned action on every workload that a monitor or annotation is about, the worst first; `None` if
    /// the caller may not read workloads.
    pub restarts: Option<Vec<RestartOutlook>>,
    /// Where the answer about each monitor's rights comes from.
    pub asked_of_monitors: BTreeMap<Declarer, AnswerSource>,
    /// The objects of files, with the planned actions.
    pub files: Vec<FileOutlook>,
    /// Whether marks were verified.
    pub verified: bool,
    /// Notes to read first.
    pub notes: Vec<String>,
    /// The time of the survey.
    pub now: Timestamp,
    /// Whether the caller may not read something that could change the survey.
    pub is_partial: bool,
    /// The rules and monitors to show, if the command has a label selector.
    selected: Option<Selected>,
}

/// Whether to survey the cluster as it is, or with files applied.
pub enum SurveyMode<'a> {
    /// The cluster as it is; workloads in one namespace only, if given.
    Current(Option<&'a str>),
    /// The cluster with these objects of files applied over it, and with workloads as they are once copies are written.
    /// With a namespace, only ConfigPolicies that concern the namespace are evaluated.
    WithFiles(Vec<Item>, Option<&'a str>),
}

/// The Copyrator that a survey is about, and the namespaces that the survey reads.
#[derive(Clone, Copy)]
pub struct SurveyTarget<'a> {
    /// The settings of the Copyrator, as the command line says.
    pub installed: &'a Installed,
    /// The namespaces to read.
    pub read_scope: &'a ReadScope,
}

/// Reads the cluster and plans everything.
pub async fn survey(
    client: &Client,
    target: SurveyTarget<'_>,
    mode: SurveyMode<'_>,
) -> Result<Survey, SurveyError> {
    let SurveyTarget { installed, read_scope } = target;
    let (mut files, is_ahead, workloads_in, judged_in) = match mode {
        SurveyMode::Current(namespace) => (Vec::new(), false, namespace, None),
        SurveyMode::WithFiles(files, namespace) => (files, true, None, namespace),
    };
    let now = Timestamp::now();
    let caller = CallerAuthorizer::new(client.clone()).await.map_err(SurveyError::Who)?;
    let caller = if read_scope.namespaces().is_some() { caller.locally() } else { caller };
    let (installed, told) = settings(client, installed, read_scope).await;
    let untold = || Kinds { copied: untold::kinds(read_scope), ..Kinds::default() };
    let mut world = installed.world(told.clone().unwrap_or_else(untold));
    let trust = trust::digest_key(client, &installed.namespace, caller.caller()).await?;
    world.set_key(trust.key.clone());
    let (asking, is_told) = (caller.caller(), told.is_some());
    let reader = lists::Reader { client, caller: asking, scope: read_scope, is_told, now };
    let hidden = reader.take(&mut world).await?;
    let (mut notes, unseen) = (hidden.notes, hidden.kinds);
    // If Copyrator reads only some namespaces, no custom resource is copied.
    if told.is_none() && read_scope.namespaces().is_none() {
        notes.extend(untold::leave_out(&mut world, &mut files, &installed.namespace));
    }
    world.set_all_listed();
    notes.extend(world.unreadable().map(|(object, why)| unreadable_said(object, why)));
    notes.extend(trust.note.clone());
    if trust.is_believed && !hidden.workloads {
        let what = "the records of workloads use that key, too: a record counts as current if no object of the workload was written after \
         it; otherwise the state is unknown";
        notes.push(what.into());
    }

    let policies_unread = match is_ahead {
        true => policies::take(client, &mut world, read_scope, caller.caller(), now).await?,
        false => None,
    };
    let trusted = &installed.trusted();
    let applier = applied::Applier { client, caller: &caller, trusted, now };
    let (objects, declared) = files.into_iter().partition(|item| item.of.kind.data().is_some());
    let mut contents = policies::FileContents::new();
    let mut files = applier.apply(&mut world, declared, &mut contents).await;
    let rights = authority::RightsCheck { authorizer: &caller, trusted, now };
    let asked_of_monitors = authority::settle_monitors(&mut world, &rights).await;
    let mut restarting = Restarting { unread: BTreeMap::new(), unseen: &unseen, workloads_in, is_ahead, now };
    let before = match hidden.workloads {
        false => restarting.before(client, &mut world, trust.is_believed).await?,
        true => Before::default(),
    };
    let applied = applier.apply(&mut world, objects, &mut contents).await;
    let asked = authority::settle_rules(&mut world, &rights).await;
    let unread_objects = render_everything(client, &mut world).await;
    notes.extend(
        unread_objects.iter().map(|error| format!("cannot read the objects that a template reads: {error}")),
    );
    let blind = blind_rules(&world, &unseen);
    let (mut plans, mut unread) = content::plan_all(client, &mut world, &rights, trust.is_believed).await?;
    let has_writes = is_ahead && policies::writes(&plans, judged_in).next().is_some();
    notes.extend(policies_unread.filter(|_| has_writes || !applied.is_empty()));
    if has_writes {
        let check = policies::PolicyCheck {
            client,
            contents_of_files: &contents,
            account: &installed.account(),
            namespace: judged_in,
            now,
        };
        policies::judge(&check, &mut world, &mut plans, &mut unread).await?;
    }
    let mut outlooks = copy_rows(&world, &plans);
    if is_ahead {
        notes.extend(values::compare(client, &plans, judged_in, &mut outlooks).await);
    }
    let seen_plans =
        plans.iter().filter(|(_, plan)| plan.rule.as_ref().is_none_or(|rule| !blind.contains(rule)));
    let seen_plans = seen_plans.filter(|(_, plan)| plan.needs.is_empty());
    let restarts = match hidden.workloads {
        false => Some(restarting.after(client, &mut world, seen_plans, &applied, before).await?),
        true => None,
    };
    for outlook in &mut outlooks {
        let is_blind = outlook.rule.as_ref().is_some_and(|rule| blind.contains(rule));
        if is_blind {
            outlook.state = CopyState::Unknown;
            outlook.reason = Reason::Unread;
            outlook.message = "you may not list the objects that the rule copies from or to".into();
        } else if outlook.state == CopyState::Unknown
            && let Some(why) = plans
                .get(&outlook.slot)
                .into_iter()
                .flat_map(|plan| &plan.needs)
                .find_map(|it| unread.get(it))
        {
            outlook.message.clone_from(why);
        }
    }
    files.extend(applied);
    let verified = !trust.is_believed;
    Ok(Survey {
        world,
        outlooks,
        asked,
        blind,
        restarts,
        asked_of_monitors,
        files,
        verified,
        notes,
        now,
        is_partial: hidden.places,
        selected: None,
    })
}

/// The input for planning restarts, before and after a change.
struct Restarting<'a> {
    unread: BTreeMap<Need, String>,
    unseen: &'a BTreeSet<Kind>,
    workloads_in: Option<&'a str>,
    is_ahead: bool,
    now: Timestamp,
}

/// The workloads before the change.
#[derive(Default)]
struct Before {
    /// The record of what each workload runs with.
    records: BTreeMap<WorkloadKey, String>,
    /// The records that the plan trusts, for a caller who may not read the key.
    believed: trust::Believed,
}

impl Restarting<'_> {
    /// Reads what every workload runs with before the change.
    async fn before(
        &mut self,
        client: &Client,
        world: &mut World,
        is_believed: bool,
    ) -> Result<Before, SurveyError> {
        let keys = restarts::workloads(world, &BTreeSet::new(), self.workloads_in);
        restarts::read_inputs(client, world, &keys, &mut self.unread).await?;
        let records = records(world, &keys);
        let believed = if is_believed { trust::believe_records(world, &keys) } else { Default::default() };
        Ok(Before { records, believed })
    }

    /// Plans restarts for the world in which files and copies are written.
    async fn after<'p>(
        &mut self,
        client: &Client,
        world: &mut World,
        plans: impl Iterator<Item = (&'p ObjectKey, &'p SlotPlan)>,
        applied: &[FileOutlook],
        before: Before,
    ) -> Result<Vec<RestartOutlook>, SurveyError> {
        let Before { records, believed } = before;
        let mut changed = if self.is_ahead { carry_out(world, plans, self.now) } else { BTreeSet::new() };
        changed.extend(applied.iter().filter_map(FileOutlook::written));
        let keys = restarts::workloads(world, &changed, self.workloads_in);
        let mut blind = restarts::blind(world, &keys, self.unseen);
        blind.extend(believed.doubtful);
        let around = Around { before: records, changed, blind };
        let mut all =
            restarts::copy_rows(client, world, &keys, self.workloads_in, &around, &mut self.unread, self.now)
                .await?;
        if !believed.originals.is_empty() {
            restarts::unbelieve(&mut all, &believed.originals);
        }
        Ok(all)
    }
}

impl Survey {
    /// Limits the survey to these rules and monitors.
    pub(super) fn only(self, selected: Option<Selected>) -> Self {
        Self { selected, ..self }
    }

    /// Adds notes about one namespace. If the caller can read that namespace, unreadable namespaces do not
    /// matter.
    pub fn about(mut self, namespace: Option<&str>) -> Self {
        if let Some(name) = namespace.filter(|_| self.world.namespace_scope().is_none())
            && !self.world.namespaces().contains_key(name)
        {
            self.notes.push(format!("namespace {name} does not exist"));
            return Self { is_partial: true, ..self };
        }
        self.is_partial &= namespace.is_none_or(|name| !self.world.sees(name));
        // A namespace that cannot be read was reported already.
        let unseen = namespace.and_then(|name| self.world.unseen(name));
        self.notes
            .extend(unseen.filter(|(reason, _)| *reason == Unseen::NotServed).map(|(_, message)| message));
        self
    }

    /// Whether to show a rule.
    pub(super) fn selects_rule(&self, rule: &Declarer) -> bool {
        self.selected.as_ref().is_none_or(|selected| selected.has_rule(&self.world, rule))
    }

    /// Whether to show a monitor.
    pub(super) fn selects_monitor(&self, monitor: &Declarer) -> bool {
        self.selected.as_ref().is_none_or(|selected| selected.has_monitor(monitor))
    }

    /// Whether to show a workload: it belongs to a selected monitor, or uses a copy of a selected rule.
    pub(super) fn selects_restart(&self, outlook: &RestartOutlook) -> bool {
        self.selected.is_none()
            || outlook.monitors.iter().any(|monitor| self.selects_monitor(monitor))
            || outlook.causes.iter().filter_map(|cause| cause.rule.as_ref()).any(|it| self.selects_rule(it))
    }

    /// The copies that are in a namespace or belong to its rules; without a namespace, all copies.
    pub(super) fn shown(&self, namespace: Option<&str>) -> Vec<&CopyRow> {
        let is_selected = |outlook: &&CopyRow| match &outlook.rule {
            Some(rule) => self.selects_rule(rule),
            None => self.selected.is_none(),
        };
        let all = self.outlooks.iter().filter(is_selected);
        all.filter(|outlook| policies::concerns(namespace, &outlook.slot, outlook.rule.as_ref())).collect()
    }
}

/// The rules that copy from or to a kind that the caller may not read.
fn blind_rules(world: &World, unseen: &BTreeSet<Kind>) -> BTreeSet<Declarer> {
    let is_blind = |facts: &RuleFacts| {
        facts
            .compiled
            .as_ref()
            .is_ok_and(|rule| unseen.contains(&rule.kind) || unseen.contains(&rule.shape.kind))
    };
    world.rules().iter().filter(|(_, facts)| is_blind(facts)).map(|(rule, _)| rule.clone()).collect()
}
