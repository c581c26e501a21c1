//! Whether a rule's identity has a right that its present spec alone does not tell, such as to delete copies that the spec does not speak
//! of: asked where a plan lacks it, of all namespaces first, so that an identity with the right everywhere costs one question.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;

use crate::{
    access::{AskError, Authorizer},
    authority::{Identity, Question, TrustedWriters, refusal, right_question},
    model::{EVERYWHERE, Right, RightAnswer, World},
    names::NamespacedName,
    plan::{copy::AGAIN, is_younger},
};

/// How long an answer is kept at least.
pub(super) const KEPT_FOR: Duration = AGAIN.saturating_mul(2);
/// The longest refusal that is told of one copy, in bytes.
const LONGEST: usize = 1 << 10;

/// What is to be asked about one rule.
pub(crate) struct RightInquiry {
    rule: NamespacedName,
    uid: Box<str>,
    generation: i64,
    right: Right,
    /// From the widest to the one that counts; or whose identity it is not.
    questions: Result<Vec<Question>, String>,
    namespace: Arc<str>,
}

impl RightInquiry {
    /// `None` where the rule is gone.
    pub(crate) fn new(
        world: &World,
        rule: &NamespacedName,
        right: &Right,
        namespace: &Arc<str>,
        trusted: &TrustedWriters,
        now: Timestamp,
    ) -> Option<Self> {
        let declared = world.declaration(rule)?;
        let (uid, generation) = declared.version();
        // A no for all namespaces need not be heard again for each of them.
        let is_no = |known: &RightAnswer| known.answer.is_err() && is_younger(known.asked, AGAIN, now);
        let is_narrow = world.may(rule, right, EVERYWHERE).is_some_and(is_no);
        let ask = |identity: Identity| {
            let places = [EVERYWHERE, namespace].into_iter().skip(usize::from(is_narrow));
            places.map(|place| right_question(&identity.subject(), right, place)).collect()
        };
        let identity =
            Identity::of_stored(&rule.namespace, declared.account(), declared.annotations(), trusted);
        Some(Self {
            rule: rule.clone(),
            uid: uid.into(),
            generation,
            right: right.clone(),
            questions: identity.map(ask).map_err(|required| required.to_string()),
            namespace: namespace.clone(),
        })
    }

    /// What the API server says, by namespace.
    ///
    /// # Errors
    /// There was no answer.
    pub(crate) async fn ask(
        &self,
        authorizer: &dyn Authorizer,
        now: Timestamp,
    ) -> Result<Vec<(Arc<str>, RightAnswer)>, AskError> {
        let questions = match &self.questions {
            Ok(questions) => questions,
            Err(required) => {
                let answer = RightAnswer { answer: Err(required.clone()), asked: now };
                return Ok(vec![(self.namespace.clone(), answer)]);
            }
        };
        let mut answers = Vec::new();
        for question in questions {
            let answer = match authorizer.allowed(question).await? {
                true => Ok(()),
                false => Err(refusal(&[question], &self.rule, LONGEST)),
            };
            let is_yes = answer.is_ok();
            answers.push((question.namespace.as_str().into(), RightAnswer { answer, asked: now }));
            if is_yes {
                break;
            }
        }
        Ok(answers)
    }

    /// Lets the world know.
    pub(crate) fn keep(self, answers: Vec<(Arc<str>, RightAnswer)>, world: &mut World, now: Timestamp) {
        for (place, answer) in answers {
            let (version, place) = ((&*self.uid, self.generation), (self.right.clone(), place));
            world.note_right(&self.rule, version, place, answer, now);
        }
    }
}
