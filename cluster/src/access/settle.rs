//! Asks the questions about one object with as few requests as possible.

use std::collections::BTreeMap;

use futures::future::try_join_all;
use jiff::Timestamp;

use super::{AskError, Authorizer};
use crate::{
    authority::{Identity, Question, Subject, refusal, too_many},
    model::{Authority, Refusal, RefusalReason},
    names::Declarer,
};

/// Maximum number of concurrent questions.
const AT_ONCE: usize = 8;

/// Maximum number of questions about single objects or namespaces for one object.
pub(crate) const MOST_QUESTIONS: usize = 384;

/// Maximum length of a refusal in a status, in bytes.
const LONGEST: usize = 8 << 10;

/// The result of asking several questions.
#[derive(Debug, PartialEq, Eq)]
pub enum Answers<'q> {
    /// The questions with the answer no, in order; empty if everything is allowed.
    Refused(Vec<&'q Question>),
    /// Number of questions left to ask one by one; the number is above the limit, so no question was asked.
    TooMany(usize),
}

/// Asks all questions that an object needs, and returns whether its identity has the rights.
///
/// # Errors
/// Returns an error if a question has no answer. Earlier answers stay valid until they expire.
pub async fn settle(
    authorizer: &dyn Authorizer,
    of: &Declarer,
    version: (&str, i64),
    identity: &Identity,
    questions: &[Question],
    most: usize,
    now: Timestamp,
) -> Result<Authority, AskError> {
    let answer = match refused(authorizer, questions, most).await? {
        Answers::Refused(none) if none.is_empty() => Ok(()),
        Answers::Refused(missing) => Err(Refusal {
            reason: RefusalReason::Forbidden,
            message: refusal(&missing, &of.named(), LONGEST),
        }),
        Answers::TooMany(number) => {
            Err(Refusal { reason: RefusalReason::TooManyQuestions, message: too_many(number, most) })
        }
    };
    let (uid, generation) = version;
    Ok(Authority {
        uid: uid.into(),
        generation,
        identity: identity.to_string(),
        answer,
        asked: now,
        questions: questions.len(),
        refusals: 0,
    })
}

/// Returns the questions with the answer no. Asks wider questions first: a yes for all objects or namespaces
/// answers each narrower question. After the wider questions, asks at most `most` questions one by one.
///
/// # Errors
/// Returns an error if a question has no answer.
pub async fn refused<'q>(
    authorizer: &dyn Authorizer,
    questions: &'q [Question],
    most: usize,
) -> Result<Answers<'q>, AskError> {
    let mut left: Vec<&Question> = questions.iter().collect();
    for wider in [Wider::Everything, Wider::OfNamespace, Wider::OfName] {
        left = not_covered(authorizer, left, wider).await?;
    }
    if left.len() > most {
        return Ok(Answers::TooMany(left.len()));
    }
    left.sort();
    let allowed = ask(authorizer, &left).await?;
    Ok(Answers::Refused(
        left.into_iter().zip(allowed).filter_map(|(one, may)| (!may).then_some(one)).collect(),
    ))
}

/// A question that covers several narrower questions at once.
#[derive(Clone, Copy)]
enum Wider {
    /// About all objects of the kind in all namespaces.
    Everything,
    /// About all objects of the kind in one namespace.
    OfNamespace,
    /// About one name (or all names) in all namespaces.
    OfName,
}

impl Wider {
    fn of(self, question: &Question) -> Question {
        let mut wider = question.clone();
        if !matches!(self, Self::OfName) {
            wider.name = None;
        }
        if !matches!(self, Self::OfNamespace) {
            wider.namespace = String::new();
        }
        wider
    }

    /// Whether this question covers more than the narrower questions after it; otherwise asking is not worth
    /// the cost.
    fn pays(self, group: &[&Question]) -> bool {
        let differ = |by: fn(&Question) -> Option<&str>| {
            group.first().is_some_and(|first| group.iter().any(|one| by(one) != by(first)))
        };
        let (names, namespaces) = (differ(|one| one.name.as_deref()), differ(|one| Some(&one.namespace)));
        match self {
            Self::Everything => names && namespaces,
            Self::OfNamespace => names,
            Self::OfName => namespaces,
        }
    }
}

/// The parts of a question that the wider question keeps. The subject comes last, since comparing subjects
/// takes long.
type Group<'q> = (&'q str, &'q str, &'q str, Option<&'q str>, Option<&'q str>, Option<&'q str>, &'q Subject);

/// Returns the questions that no wider question answers with yes.
async fn not_covered<'q>(
    authorizer: &dyn Authorizer,
    questions: Vec<&'q Question>,
    wider: Wider,
) -> Result<Vec<&'q Question>, AskError> {
    let mut groups: BTreeMap<Group<'q>, Vec<&'q Question>> = BTreeMap::new();
    for question in questions {
        let name = question.name.as_deref().filter(|_| matches!(wider, Wider::OfName));
        let namespace = matches!(wider, Wider::OfNamespace).then_some(&*question.namespace);
        let Question { verb, group, resource, subresource, subject, .. } = question;
        let key = (*verb, &**group, &**resource, *subresource, name, namespace, subject);
        groups.entry(key).or_default().push(question);
    }
    let (worth, mut left): (Vec<_>, Vec<_>) = groups.into_values().partition(|group| wider.pays(group));
    let asked: Vec<Question> =
        worth.iter().filter_map(|group| group.first()).map(|question| wider.of(question)).collect();
    let allowed = ask(authorizer, &asked.iter().collect::<Vec<_>>()).await?;
    left.extend(worth.into_iter().zip(allowed).filter_map(|(group, may)| (!may).then_some(group)));
    Ok(left.into_iter().flatten().collect())
}

/// Asks these questions, up to [`AT_ONCE`] concurrently.
///
/// # Errors
/// Returns an error if a question has no answer.
pub async fn ask(authorizer: &dyn Authorizer, questions: &[&Question]) -> Result<Vec<bool>, AskError> {
    let mut allowed = Vec::with_capacity(questions.len());
    for some in questions.chunks(AT_ONCE) {
        allowed.extend(try_join_all(some.iter().map(|question| authorizer.allowed(question))).await?);
    }
    Ok(allowed)
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use futures::{FutureExt as _, future::BoxFuture};

    use super::*;
    use crate::{authority::rule_questions, names::Kind};

    /// Answers yes to these questions, written as `verb resource name namespace`, and records what it was
    /// asked.
    #[derive(Default)]
    struct Says {
        yes: Vec<&'static str>,
        asked: Mutex<Vec<String>>,
    }

    impl Authorizer for Says {
        fn allowed<'a>(&'a self, question: &'a Question) -> BoxFuture<'a, Result<bool, AskError>> {
            let name = question.name.as_deref().unwrap_or("*");
            let place = if question.namespace.is_empty() { "*" } else { &question.namespace };
            let line = format!("{} {} {name} {place}", question.verb, question.resource);
            let says = self.yes.contains(&&*line);
            self.asked.lock().unwrap().push(line);
            Box::pin(async move { Ok(says) })
        }
    }

    fn names(stem: &str, number: usize) -> Vec<String> {
        (0..number).map(|at| format!("{stem}-{at}")).collect()
    }

    fn questions(names: &[String], namespaces: &[String], targets: &[String]) -> Vec<Question> {
        let spec = serde_json::json!({
            "source": {"kind": "Secret", "names": names, "namespaces": namespaces}, "targets": [{"names": targets}],
        });
        let spec = serde_json::from_value(spec).unwrap();
        rule_questions("home", &spec, Kind::Secret, &Subject::default())
    }

    /// How many questions are refused (`Err`: there were too many), and what was asked for that.
    fn asked(yes: &[&'static str], questions: &[Question]) -> (Result<usize, usize>, Vec<String>) {
        let says = Says { yes: yes.to_vec(), ..Says::default() };
        let answers = refused(&says, questions, MOST_QUESTIONS).now_or_never().unwrap().unwrap();
        let answers = match answers {
            Answers::Refused(missing) => Ok(missing.len()),
            Answers::TooMany(number) => Err(number),
        };
        (answers, says.asked.into_inner().unwrap())
    }

    /// Four thousand objects take a hundred questions, or none at all.
    #[test]
    fn what_is_wide_is_asked_first_and_no_more_than_can_be_borne() {
        let (many, places) = (names("s", 64), names("n", 64));
        let all = questions(&many, &places, &names("t", 1));
        assert_eq!(all.len(), 64 * 64 + 3);
        let (answers, said) = asked(&[], &all);
        assert_eq!((answers, said.len()), (Err(all.len()), 1 + 64 + 64), "{said:?}");
        let everywhere =
            ["get secrets * *", "create secrets * t-0", "patch secrets * t-0", "delete secrets * t-0"];
        let (answers, said) = asked(&everywhere, &all);
        assert_eq!((answers, said.len()), (Ok(0), 4), "{said:?}");
    }

    #[test]
    fn all_objects_of_a_namespace_are_asked_about_before_each_of_them() {
        let all = questions(&names("s", 8), &["a".into(), "b".into()], &["t".into()]);
        let (answers, said) = asked(&["get secrets * a", "get secrets s-3 b"], &all);
        // One of the eight objects of b may be read; nothing may be written.
        assert_eq!((answers, said.len()), (Ok(7 + 3), 1 + 2 + 8 + 3), "{said:?}");
        let single = questions(&names("s", 1), &["a".into()], &["t".into()]);
        let (answers, said) = asked(&[], &single);
        assert_eq!((answers, said.len()), (Ok(4), 4), "nothing wider is worth asking: {said:?}");
    }

    #[test]
    fn a_bound_counts_single_questions_after_the_wider_ones() {
        let targets = names("t", MOST_QUESTIONS / 3);
        let (answers, _) = asked(&["get secrets s-0 a"], &questions(&names("s", 1), &["a".into()], &targets));
        assert_eq!(answers, Err(MOST_QUESTIONS + 1));
        let more = names("t", MOST_QUESTIONS / 3 + 40);
        let everywhere = ["create secrets * *", "delete secrets * *", "patch secrets * *"];
        let (answers, said) = asked(&everywhere, &questions(&names("s", 1), &["a".into()], &more));
        assert_eq!((answers, said.len()), (Ok(1), 4));
    }
}
