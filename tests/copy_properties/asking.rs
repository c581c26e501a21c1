//! Whose rights suffice, asked by the code that asks in the reconciler: as rarely as is safe, and proved by a status to the
//! next process.

use copyrator::{
    authority::{Question, TrustedWriters},
    model::World,
    names::Declarer,
    plan::{Changed, copy::rule_status},
    testing::{AskError, Authorizer, Decided, about_rule},
};
use futures::{FutureExt as _, future::BoxFuture};

use super::copy_model::{
    acting::{at, authorize_one},
    server::{Answer, Server},
};

/// Answers for the identity of a rule.
struct RightsOf<'s>(&'s Server, &'s Declarer);

impl Authorizer for RightsOf<'_> {
    fn allowed<'a>(&'a self, question: &'a Question) -> BoxFuture<'a, Result<bool, AskError>> {
        let Self(server, rule) = self;
        let is_refused = server.answers.get(rule) == Some(&Answer::Refused);
        let may = !is_refused && server.may(rule, &question.namespace);
        Box::pin(async move { Ok(may) })
    }
}

/// Each rule is looked at, and its status written.
pub fn authorize(server: &mut Server, world: &mut World, now: i64) {
    for rule in world.rules().keys().cloned().collect::<Vec<_>>() {
        if rule.as_annotated().is_some() || server.answers.get(&rule) == Some(&Answer::Unasked) {
            authorize_one(server, world, &rule);
            continue;
        }
        let decided = about_rule(world, &rule, &TrustedWriters::default(), at(now));
        let answer = match decided {
            None | Some(Decided::Known) => None,
            Some(Decided::Answer(answer)) => Some(answer),
            Some(Decided::Ask(inquiry)) => {
                let answered = inquiry.ask(&RightsOf(server, &rule), at(now)).now_or_never();
                Some(answered.unwrap().unwrap())
            }
        };
        if let Some(answer) = answer {
            world.note_rule_authority(&rule, answer, at(now));
        }
        if let (Some(status), Some(stored)) =
            (rule_status(world, &rule, at(now)), server.rules.get_mut(&rule))
        {
            stored.status = Some(serde_json::to_value(status).unwrap());
            server.tell(Changed::Rule(rule));
        }
    }
}
