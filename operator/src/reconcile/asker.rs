//! The asker: asks the API server what rules and monitors may do, and stores the answers in the world. Each
//! refused question is charged to the namespace of the rule or monitor. While the budget of a namespace is
//! overdrawn, the asker asks for the namespace only about rights that were granted before. Even many refused
//! objects therefore leave the API server and the workers free for other namespaces.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures::future::BoxFuture;

use super::context::{Context, now};
use crate::{
    access::{
        AskError, Authorizer, Budget,
        authority::{Decided, Inquiry, Occasion, about_monitor, about_rule, about_template},
        right::RightInquiry,
    },
    authority::{Bounds, Question, TrustedWriters},
    model::{Authority, Declaration, Right, World},
    names::Declarer,
    plan::copy::{targets::bounds, templates::template_bounds},
};

/// Asks about rights of identities that the world does not know.
pub(super) struct Asker {
    pub(super) context: Context,
    pub(super) authorizer: Arc<dyn Authorizer>,
    /// Trusted ServiceAccounts of other namespaces, which may write objects with their own rights.
    pub(super) trusted_writers: TrustedWriters,
    /// The budgets to which refused questions are charged, by the namespace of the rule or monitor.
    pub(super) refusals: Budget,
}

/// The result of asking about a rule or monitor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// The world has an answer that is new enough, or nothing has to be asked.
    Settled,
    /// No question was asked: refusals have used up a budget, which has refilled after this time.
    Waits(Duration),
}

impl Asker {
    /// Asks whether the rule's identity may do what it declares, unless the answer is known.
    ///
    /// # Errors
    /// The API server gave no answer.
    pub(super) async fn rule(&self, rule: &Declarer) -> Result<Asked, AskError> {
        let (inquiry, asked) = {
            let world = &mut *self.context.world_mut();
            let asked = named(world, rule);
            let decided = match rule.as_template() {
                Some(_) => about_template(world, rule, &self.trusted_writers, now()),
                None => about_rule(world, rule, &self.trusted_writers, now()),
            };
            match decided {
                None | Some(Decided::Known) => return Ok(Asked::Settled),
                Some(Decided::Answer(authority)) => {
                    world.note_rule_authority(rule, authority, now());
                    return Ok(Asked::Settled);
                }
                Some(Decided::Ask(inquiry)) => (inquiry, asked),
            }
        };
        let authority = match self.answer(rule.namespace(), &inquiry).await? {
            Ok(authority) => authority,
            Err(waits) => return Ok(Asked::Waits(waits)),
        };
        let world = &mut *self.context.world_mut();
        // The answer does not cover a namespace that appeared or became readable meanwhile. The new namespace
        // queues the rule again.
        if named(world, rule) == asked {
            world.note_rule_authority(rule, authority, now());
        }
        Ok(Asked::Settled)
    }

    /// Asks whether the monitor's identity may restart what it declares, unless the answer is known.
    ///
    /// # Errors
    /// The API server gave no answer.
    pub(super) async fn monitor(&self, monitor: &Declarer) -> Result<Asked, AskError> {
        let inquiry = {
            let world = &mut *self.context.world_mut();
            match about_monitor(world, monitor, &self.trusted_writers, now()) {
                None | Some(Decided::Known) => return Ok(Asked::Settled),
                Some(Decided::Answer(authority)) => {
                    world.note_monitor_authority(monitor, authority, now());
                    return Ok(Asked::Settled);
                }
                Some(Decided::Ask(inquiry)) => inquiry,
            }
        };
        let authority = match self.answer(monitor.namespace(), &inquiry).await? {
            Ok(authority) => authority,
            Err(waits) => return Ok(Asked::Waits(waits)),
        };
        self.context.world_mut().note_monitor_authority(monitor, authority, now());
        Ok(Asked::Settled)
    }

    /// Returns the answer; `Err`: how long the object's namespace must wait before the API server is asked.
    async fn answer(
        &self,
        namespace: &str,
        inquiry: &Inquiry,
    ) -> Result<Result<Authority, Duration>, AskError> {
        let (own, of_all) = self.refusals.owed(namespace);
        let waits = match inquiry.occasion {
            // Without a new answer, the reconciler would stop writing objects that were granted.
            Occasion::Standing => Duration::ZERO,
            // The author waits for this answer: refusals in other namespaces do not delay it.
            Occasion::First => own,
            Occasion::Refused => own.max(of_all),
        };
        if !waits.is_zero() {
            return Ok(Err(waits));
        }
        let counted = Counted { authorizer: &*self.authorizer, asked: AtomicUsize::new(0) };
        let authority = inquiry.ask(&counted, now()).await?;
        if authority.answer.is_err() {
            self.refusals.charge(namespace, counted.asked.into_inner() as f64);
        }
        Ok(Ok(authority))
    }

    /// Asks whether a rule's identity has a right in a namespace.
    ///
    /// # Errors
    /// The API server gave no answer.
    pub(super) async fn right(
        &self,
        rule: &Declarer,
        right: &Right,
        namespace: &Arc<str>,
    ) -> Result<(), AskError> {
        let inquiry =
            RightInquiry::new(&self.context.world(), rule, right, namespace, &self.trusted_writers, now());
        let Some(inquiry) = inquiry else { return Ok(()) };
        let answers = inquiry.ask(&*self.authorizer, now()).await?;
        if answers.iter().all(|(_, known)| known.answer.is_err()) {
            self.refusals.charge(rule.namespace(), answers.len() as f64);
        }
        inquiry.keep(answers, &mut self.context.world_mut(), now());
        Ok(())
    }
}

/// Counts the questions.
struct Counted<'a> {
    authorizer: &'a dyn Authorizer,
    asked: AtomicUsize,
}

impl Authorizer for Counted<'_> {
    fn allowed<'a>(&'a self, question: &'a Question) -> BoxFuture<'a, Result<bool, AskError>> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        self.authorizer.allowed(question)
    }
}

/// Returns the namespaces about which the API server is asked one by one for a rule or template, as they are
/// now.
fn named(world: &World, rule: &Declarer) -> Option<Bounds> {
    match world.declaration(rule)? {
        Declaration::Rule(facts) => Some(bounds(world, rule, facts.compiled.as_ref().ok()?)),
        Declaration::Template(facts) => Some(template_bounds(world, facts.compiled.as_ref().ok()?)),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Mutex, RwLock};

    use jiff::Timestamp;
    use serde_json::json;

    use super::*;
    use crate::{
        api::CopyratorRule,
        intake::{AsWritten, watched::Watched},
        model::{NamespaceFacts, Refusal, RefusalReason},
    };

    /// Says no, but to questions about this namespace; and counts them.
    struct Says {
        yes: &'static str,
        asked: Mutex<usize>,
    }

    impl Authorizer for Says {
        fn allowed<'a>(&'a self, question: &'a Question) -> BoxFuture<'a, Result<bool, AskError>> {
            *self.asked.lock().unwrap() += 1;
            let says = question.namespace == self.yes;
            Box::pin(async move { Ok(says) })
        }
    }

    /// An asker, and what it has asked so far.
    fn asker() -> (Asker, Arc<Says>) {
        let says = Arc::new(Says { yes: "fair", asked: Mutex::default() });
        let context = Context::new(Arc::new(RwLock::new(World::default())), Arc::default());
        let (authorizer, trusted_writers) = (says.clone(), TrustedWriters::default());
        (Asker { context, authorizer, trusted_writers, refusals: Budget::default() }, says)
    }

    /// A rule that copies a Secret of its namespace to these, which nobody was asked about.
    fn write(asker: &Asker, namespace: &str, name: &str, targets: &[String]) -> Declarer {
        written(asker, (namespace, name), targets, None)
    }

    fn written(
        asker: &Asker,
        (namespace, name): (&str, &str),
        targets: &[String],
        account: Option<&str>,
    ) -> Declarer {
        let stamp = json!({"copyrator.dev/author": "alice", "copyrator.dev/author-groups": "[]"});
        let object = json!({"apiVersion": "copyrator.dev/v1alpha1", "kind": "CopyratorRule",
            "metadata": {"namespace": namespace, "name": name, "uid": name, "generation": 1, "annotations": stamp},
            "spec": {"source": {"kind": "Secret", "names": ["app"]}, "targets": [{"names": targets}],
                "serviceAccountName": account}});
        let rule = serde_json::from_value::<AsWritten<CopyratorRule>>(object).unwrap();
        rule.put(&mut asker.context.world_mut(), Timestamp::UNIX_EPOCH);
        Declarer::rule(namespace, name)
    }

    /// The same, refused so long ago that it is asked again.
    fn refused(asker: &Asker, namespace: &str, name: &str, targets: &[String]) -> Declarer {
        let rule = write(asker, namespace, name, targets);
        asker.context.world_mut().note_rule_authority(&rule, answered_long_ago(name, false), now());
        rule
    }

    fn answered_long_ago(uid: &str, may: bool) -> Authority {
        let refusal = Refusal { reason: RefusalReason::Forbidden, message: String::new() };
        Authority {
            uid: uid.into(),
            generation: 1,
            identity: String::new(),
            answer: if may { Ok(()) } else { Err(refusal) },
            asked: Timestamp::UNIX_EPOCH,
            questions: 4,
            refusals: 1,
        }
    }

    /// A tenant who writes many rules that may do nothing, with many names each: the questions about them have a bound that
    /// the number of rules does not move, and rules of others are asked about meanwhile.
    #[tokio::test(start_paused = true)]
    async fn a_namespace_that_is_refused_much_waits_and_no_other_does() {
        let (asker, says) = asker();
        let many: Vec<String> = (0..100).map(|at| format!("t-{at}")).collect();
        let loud: Vec<_> = (0..50).map(|at| refused(&asker, "loud", &format!("r-{at}"), &many)).collect();
        let mut waits = Vec::new();
        for rule in &loud {
            if let Asked::Waits(delay) = asker.rule(rule).await.unwrap() {
                waits.push(delay);
            }
        }
        let asked = *says.asked.lock().unwrap();
        assert_eq!(
            (asked / 300, waits.len()),
            (4, 46),
            "{asked}: 1,024 at once, and what the last one takes"
        );

        let quiet = refused(&asker, "quiet", "q", &many);
        assert_eq!(asker.rule(&quiet).await.unwrap(), Asked::Settled);
        let first = write(&asker, "loud", "new", &many);
        assert!(matches!(asker.rule(&first).await.unwrap(), Asked::Waits(_)), "its namespace owes");

        tokio::time::advance(waits[0]).await;
        assert_eq!(asker.rule(&loud[49]).await.unwrap(), Asked::Settled, "it is paid back");
    }

    /// All namespaces together have a bound, too; an author who waits for a first answer is not held up by it.
    #[tokio::test(start_paused = true)]
    async fn what_others_were_refused_delays_what_was_refused_and_nothing_else() {
        let (asker, _) = asker();
        for at in 0..8 {
            asker.refusals.charge(&format!("loud-{at}"), 1000.0);
        }
        let target = ["fair".to_owned()];
        let again = refused(&asker, "quiet", "again", &target);
        assert!(matches!(asker.rule(&again).await.unwrap(), Asked::Waits(_)));
        let first = write(&asker, "quiet", "first", &target);
        assert_eq!(asker.rule(&first).await.unwrap(), Asked::Settled);
    }

    /// Only refusals are paid for; and what was granted is asked again in time, whatever else its namespace has.
    #[tokio::test(start_paused = true)]
    async fn what_is_allowed_costs_nothing_and_does_not_wait() {
        let (asker, says) = asker();
        asker.context.world_mut().set_namespace("fair".into(), NamespaceFacts::default());
        for at in 0..2000 {
            let rule = write(&asker, "fair", &format!("r-{at}"), &["fair".to_owned()]);
            assert_eq!(asker.rule(&rule).await.unwrap(), Asked::Settled);
            let may = asker.context.world().rule_authority(&rule).map(|known| known.answer.is_ok());
            assert_eq!(may, Some(true));
        }
        assert_eq!(*says.asked.lock().unwrap(), 2000 * 4);
        asker.refusals.charge("fair", 10_000.0);
        let standing = written(&asker, ("fair", "standing"), &["fair".to_owned()], Some("copier"));
        let long_ago = answered_long_ago("standing", true);
        asker.context.world_mut().note_rule_authority(&standing, long_ago, now());
        assert_eq!(asker.rule(&standing).await.unwrap(), Asked::Settled);
        assert_eq!(*says.asked.lock().unwrap(), 2000 * 4 + 4, "it is asked again");
    }
}
