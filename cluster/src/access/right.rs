//! Single rights that a rule's present spec does not imply, such as the right to delete copies that the spec
//! does not mention. The API server is asked when a plan lacks the answer: first about all namespaces, so
//! that an identity with the right everywhere costs one question.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;

use crate::{
    access::{AskError, Authorizer},
    authority::{Identity, Question, TrustedWriters, refusal, right_question},
    model::{EVERYWHERE, Right, RightAnswer, SpecVersion, World},
    names::Declarer,
    plan::{copy::AGAIN, is_younger},
};

/// Minimum time for which an answer is kept.
pub const KEPT_FOR: Duration = AGAIN.saturating_mul(2);
/// Maximum length of a refusal in the report about one copy, in bytes.
const LONGEST: usize = 1 << 10;

/// The questions about one right of a rule's identity.
pub struct RightInquiry {
    rule: Declarer,
    uid: Box<str>,
    generation: i64,
    right: Right,
    /// The questions, from the widest to the question about this namespace; `Err`: why the rule has no
    /// identity.
    questions: Result<Vec<Question>, String>,
    namespace: Arc<str>,
}

impl RightInquiry {
    /// Returns the inquiry; `None` if the rule is gone.
    pub fn new(
        world: &World,
        rule: &Declarer,
        right: &Right,
        namespace: &Arc<str>,
        trusted: &TrustedWriters,
        now: Timestamp,
    ) -> Option<Self> {
        let declared = world.declaration(rule)?;
        let SpecVersion { uid, generation } = declared.version();
        // After a recent no for all namespaces, ask only about this namespace.
        let is_no = |known: &RightAnswer| known.answer.is_err() && is_younger(known.asked, AGAIN, now);
        let is_narrow = world.may(rule, right, EVERYWHERE).is_some_and(is_no);
        let ask = |identity: Identity| {
            let places = [EVERYWHERE, namespace].into_iter().skip(usize::from(is_narrow));
            places.map(|place| right_question(&identity.subject(), right, place)).collect()
        };
        let identity =
            Identity::of_stored(rule.namespace(), declared.account(), declared.annotations(), trusted);
        Some(Self {
            rule: rule.clone(),
            uid: uid.into(),
            generation,
            right: right.clone(),
            questions: identity.map(ask).map_err(|required| required.to_string()),
            namespace: namespace.clone(),
        })
    }

    /// Asks the API server, and returns its answers by namespace.
    ///
    /// # Errors
    /// The API server gave no answer.
    pub async fn ask(
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
                false => Err(refusal(&[question], &self.rule.named(), LONGEST)),
            };
            let is_yes = answer.is_ok();
            answers.push((question.namespace.as_str().into(), RightAnswer { answer, asked: now }));
            if is_yes {
                break;
            }
        }
        Ok(answers)
    }

    /// Stores the answers in the world.
    pub fn keep(self, answers: Vec<(Arc<str>, RightAnswer)>, world: &mut World, now: Timestamp) {
        for (place, answer) in answers {
            let version = SpecVersion { uid: &self.uid, generation: self.generation };
            world.note_right(&self.rule, version, (self.right.clone(), place), answer, now);
        }
    }
}
