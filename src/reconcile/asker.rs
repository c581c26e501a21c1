//! Asks the API server what rules and monitors may do, and lets the world know.

use std::sync::Arc;

use super::{
    authority::{Decided, about_monitor, about_rule, about_template},
    context::{Context, now},
    right::RightInquiry,
};
use crate::{
    access::{AskError, Authorizer},
    authority::{Bounds, TrustedWriters},
    model::{Declaration, Right, World},
    names::NamespacedName,
    plan::copy::{targets::bounds, templates::template_bounds},
};

/// Asks what the world does not know of an identity's rights.
pub(super) struct Asker {
    pub(super) context: Context,
    pub(super) authorizer: Arc<dyn Authorizer>,
    /// Writers of other namespaces' ServiceAccounts that count all the same.
    pub(super) trusted_writers: TrustedWriters,
}

impl Asker {
    /// Asks whether the rule's identity may do what it declares, unless that is known.
    ///
    /// # Errors
    /// There was no answer.
    pub(super) async fn rule(&self, rule: &NamespacedName) -> Result<(), AskError> {
        let (inquiry, asked) = {
            let world = &mut *self.context.world_mut();
            let asked = named(world, rule);
            let decided = match rule.template() {
                Some(_) => about_template(world, rule, &self.trusted_writers, now()),
                None => about_rule(world, rule, &self.trusted_writers, now()),
            };
            match decided {
                None | Some(Decided::Known) => return Ok(()),
                Some(Decided::Answer(authority)) => {
                    world.note_rule_authority(rule, authority);
                    return Ok(());
                }
                Some(Decided::Ask(inquiry)) => (inquiry, asked),
            }
        };
        let authority = inquiry.ask(&*self.authorizer, now()).await?;
        let world = &mut *self.context.world_mut();
        // Nobody was asked about a namespace that has come meanwhile, or come into sight; the rule is looked
        // at again for that.
        if named(world, rule) == asked {
            world.note_rule_authority(rule, authority);
        }
        Ok(())
    }

    /// Asks whether the monitor's identity may restart what it declares, unless that is known.
    ///
    /// # Errors
    /// There was no answer.
    pub(super) async fn monitor(&self, monitor: &NamespacedName) -> Result<(), AskError> {
        let inquiry = {
            let world = &mut *self.context.world_mut();
            match about_monitor(world, monitor, &self.trusted_writers, now()) {
                None | Some(Decided::Known) => return Ok(()),
                Some(Decided::Answer(authority)) => {
                    world.note_monitor_authority(monitor, authority);
                    return Ok(());
                }
                Some(Decided::Ask(inquiry)) => inquiry,
            }
        };
        let authority = inquiry.ask(&*self.authorizer, now()).await?;
        self.context.world_mut().note_monitor_authority(monitor, authority);
        Ok(())
    }

    /// Asks whether a rule's identity has a right in a namespace.
    ///
    /// # Errors
    /// There was no answer.
    pub(super) async fn right(&self, of: (&NamespacedName, &Right, &Arc<str>)) -> Result<(), AskError> {
        let inquiry = RightInquiry::new(&self.context.world(), of, &self.trusted_writers, now());
        let Some(inquiry) = inquiry else { return Ok(()) };
        let answers = inquiry.ask(&*self.authorizer, now()).await?;
        inquiry.keep(answers, &mut self.context.world_mut());
        Ok(())
    }
}

/// The namespaces that a rule's or template's identity is asked about one by one, as they are now.
fn named(world: &World, rule: &NamespacedName) -> Option<Bounds> {
    match world.declaration(rule)? {
        Declaration::Rule(facts) => Some(bounds(world, rule, facts.compiled.as_ref().ok()?)),
        Declaration::Template(facts) => Some(template_bounds(world, facts.compiled.as_ref().ok()?)),
    }
}
