//! The operations `tree`, `why`, `why-not` and `doctor`.

use copyrator_cli::{
    arguments::{Named, Sort},
    commands::{
        doctor::{Diagnosis, diagnose},
        tree::{self, Forest, NotFound},
        why::{self, Answer},
        why_not,
    },
    terminal::Console,
};
use http::StatusCode;

use super::Call;
use crate::{
    asked::Asked,
    names::Declarer,
    problem::Problem,
    scoped_survey::{RequestedSurveys, ScopedSurvey, requested_surveys},
};

/// Returns the trees of all sources, or of one object.
pub(crate) async fn tree(call: Call) -> Result<Forest, Problem> {
    if call.path.is_empty() {
        let RequestedSurveys { surveys, .. } = requested_surveys(&call.seat, &call.asked).await?;
        let forest =
            |scoped: &ScopedSurvey| tree::forest(&scoped.survey, None, "", scoped.namespace.as_deref());
        let mut all = surveys.iter().filter_map(forest);
        let first = all.next().unwrap_or_default();
        return Ok(all.fold(first, Forest::and));
    }
    let (named, namespace) = named(&call)?;
    if matches!(named.sort, Sort::Workload(_)) {
        let message = "a tree starts at a copied object or a rule; for a workload, use why";
        return Err(Problem::new(StatusCode::NOT_FOUND, message));
    }
    let seen = at(&call, &namespace).await?;
    let forest = tree::forest(&seen.survey, Some(&named), &namespace, None);
    forest.ok_or_else(|| absent(&named, &namespace, &seen))
}

/// Explains why an object exists and what depends on it.
pub(crate) async fn why(call: Call) -> Result<Answer, Problem> {
    let (named, namespace) = named(&call)?;
    let seen = at(&call, &namespace).await?;
    why::answer(&seen.survey, &named, &namespace).ok_or_else(|| absent(&named, &namespace, &seen))
}

/// Explains why a namespace gets no copies.
pub(crate) async fn why_not(call: Call) -> Result<why_not::Answer, Problem> {
    let namespace = call.variable("namespace").to_owned();
    let rule = call.asked.rule.as_deref().map(|text| {
        let message = format!("rule: {text:?} is not NAMESPACE/NAME");
        Declarer::parse(text).ok_or_else(|| Problem::new(StatusCode::BAD_REQUEST, message))
    });
    let rule = rule.transpose()?;
    let seen = at(&call, &namespace).await?;
    Ok(why_not::answer(&seen.survey, rule.as_ref(), &namespace))
}

/// Diagnoses the install.
pub(crate) async fn doctor(call: Call) -> Result<Diagnosis, Problem> {
    let (client, installed) = (&call.seat.client, &call.seat.installed);
    let diagnosed = diagnose(client, &installed.namespace, &[], &Console::silent(), &installed.granted).await;
    diagnosed.map_err(|error| Problem::of(&*error))
}

/// The object that the path names.
fn named(call: &Call) -> Result<(Named, String), Problem> {
    let text = format!("{}/{}", call.variable("kind"), call.variable("name"));
    let named =
        text.parse::<Named>().map_err(|error| Problem::new(StatusCode::BAD_REQUEST, error.to_string()))?;
    Ok((named, call.variable("namespace").to_owned()))
}

/// Surveys one namespace, as `-n` does for commands.
async fn at(call: &Call, namespace: &str) -> Result<ScopedSurvey, Problem> {
    let asked = Asked { namespaces: [namespace.into()].into(), ..call.asked.clone() };
    let RequestedSurveys { mut surveys, .. } = requested_surveys(&call.seat, &asked).await?;
    surveys.pop().ok_or_else(|| {
        Problem::new(StatusCode::NOT_FOUND, format!("this output does not cover namespace {namespace}"))
    })
}

fn absent(named: &Named, namespace: &str, seen: &ScopedSurvey) -> Problem {
    let error = NotFound::of(Some(named), namespace, &seen.survey.world);
    Problem::new(StatusCode::NOT_FOUND, error.to_string())
}
