//! The operator is started again: it remembers nothing, and where everything is in place, it writes nothing.

use super::*;
use crate::model::{Authority, Memory};

impl Story {
    /// Drops what a process has found out, and did not read from the cluster.
    pub(super) fn forget(&mut self) {
        let of = |it: &Declarer| self.world.rendered_of(it).map(|(instance, _)| instance.clone());
        let sets = self.world.templates().keys().map(|it| (it.clone(), of(it).collect::<Vec<_>>()));
        for (template, instances) in sets.collect::<Vec<_>>() {
            instances.iter().for_each(|instance| self.world.set_rendered(&template, instance, None));
        }
        self.world.forget_rights(Duration::ZERO, at(101));
        *self.world.memory_mut() = Memory::default();
    }

    /// Starts the operator again, where everything is in place. It learns the authorities and renders one by one, and writes nothing
    /// meanwhile. Returns how many objects in the world are managed by it.
    pub(super) fn start_again(&mut self) -> Result<usize, TestCaseError> {
        self.forget();
        let authorities = self.texts.keys().filter_map(|at| {
            let name = template_name(*at);
            self.world.rule_authority(&name).cloned().map(|known| (name, known))
        });
        let authorities: Vec<(Declarer, Authority)> = authorities.collect();
        authorities.iter().for_each(|(name, _)| self.world.forget_rule_authority(name, |_| true));
        self.is_silent("nobody was asked")?;
        for (name, known) in authorities {
            self.world.set_rule_authority(&name, known);
            self.is_silent("nothing is rendered")?;
        }
        self.render();
        let sets = self.world.templates().keys().flat_map(|template| {
            let sets = self.world.rendered_of(template);
            sets.map(move |(of, set)| (template.clone(), of.clone(), set.clone()))
        });
        let sets: Vec<_> = sets.collect();
        sets.iter().for_each(|(template, of, _)| self.world.set_rendered(template, of, None));
        for (template, of, set) in sets {
            self.is_silent("not all is rendered")?;
            self.world.set_rendered(&template, &of, Some(set));
        }
        self.is_silent("all is rendered")?;
        prop_assert!(self.lacking_statuses().is_empty(), "a status would be written");
        Ok(self.world.copies().count())
    }

    /// No plan writes anything, nor once what it asks is answered.
    fn is_silent(&mut self, when: &str) -> Result<(), TestCaseError> {
        for _ in 0..16 {
            let plans = plans(&self.world);
            let actions: Vec<_> =
                plans.iter().filter_map(|(slot, plan)| Some((slot, plan.action.as_ref()?))).collect();
            prop_assert!(actions.is_empty(), "while {when}: {actions:?}");
            if !self.answer(&plans) {
                return Ok(());
            }
        }
        Err(TestCaseError::fail(format!("while {when}, it asks for ever")))
    }
}
