//! Copy decisions as data: a world in, a plan as text out, one line a slot. Every action is carried out on a model
//! of the API server until the slot rests, which must be soon, and what is there then is part of the text.
//! `UPDATE_CASES=1` writes what came out into the files.

mod printing;
mod scene;

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use copyrator::{
    model::{Bytes, Right, Store, World},
    names::{Declarer, ObjectKey},
    plan::{
        Key, Need,
        copy::{plan_slot, plan_slots},
        slots_to_check,
    },
    testing::Outcome,
};

use crate::copy_model::{
    acting::{self, at},
    server::Server,
};
use printing::{name, print, state, statuses};
use scene::Case;

/// No slot takes more writes than this to rest.
const WRITES: usize = 4;

impl Case {
    fn run(&self) -> String {
        let mut server = Server::default();
        let mut world = acting::new_world();
        world.settings_mut().copy_kinds = self.copy_kinds.clone();
        self.given.happen(&mut server);
        acting::relist(&mut server, &mut world);
        acting::authorize(&server, &mut world);
        if self.copied {
            for slot in slots(&world) {
                self.rest(&mut server, &mut world, &slot, 0);
            }
        }
        if let Some(earlier) = &self.earlier {
            earlier.happen(&mut server);
            acting::relist(&mut server, &mut world);
            acting::authorize(&server, &mut world);
            for slot in slots(&world) {
                self.rest(&mut server, &mut world, &slot, 98);
            }
        }
        world.settings_mut().spread_limits.max_bytes =
            self.max_spread.map_or(world.settings().spread_limits.max_bytes, Bytes);
        self.then.happen(&mut server);
        world.settings_mut().annotations = !self.without_annotations;
        acting::relist(&mut server, &mut world);
        acting::authorize(&server, &mut world);
        world.settings_mut().only_rule = self.only_rule.as_ref().map(|name| Declarer::parse(name).unwrap());
        if self.doubt {
            world.begin_doubt(Store::CopyratorRules, None);
        }
        if self.incomplete {
            world.forget_listed(Store::Namespaces);
        }
        if self.swept {
            for (slot, object) in &server.objects {
                world.assume_fingerprint(slot, object.fingerprint(slot.kind, &acting::digest_key()));
            }
        }
        let slots = slots(&world);
        for (slot, plan) in plan_slots(&world, &slots, at(self.now)) {
            let alone = plan_slot(&world, slot, at(self.now));
            assert_eq!(plan, alone, "{}: {slot} among others, and by itself", self.name);
        }
        let mut lines: Vec<_> =
            slots.iter().filter_map(|slot| self.rest(&mut server, &mut world, slot, self.now)).collect();
        lines.extend(statuses(&world, at(self.now)));
        lines.join("\n")
    }

    /// Plans and acts until there is nothing left to do; says how it went.
    fn rest(&self, server: &mut Server, world: &mut World, slot: &ObjectKey, now: i64) -> Option<String> {
        let mut text: Vec<String> = Vec::new();
        let mut written = 0;
        server.now = now;
        loop {
            let plan = plan_slot(world, slot, at(now));
            if !plan.needs.is_empty() {
                text.extend(plan.needs.iter().filter_map(|need| match need {
                    Need::Fingerprint(object) if object != slot && !self.unread => None,
                    Need::Fingerprint(object) => Some(format!("reads {}", name(object))),
                    Need::Right(rule, right, _) => Some(match right {
                        Right::Delete(_) => format!("asks whether {rule} may delete there"),
                        Right::Bind(role) => format!("asks whether {rule} may bind {role} there"),
                    }),
                    Need::Drift(object) => Some(format!("tries {}", name(object))),
                    other => panic!("{}: {other:?}", self.name),
                }));
                assert!(acting::fetch(server, world, &plan.needs), "{}: {:?}", self.name, plan.needs);
                continue;
            }
            if written == 0 {
                text.push(state(&plan)?);
            }
            let Some(action) = &plan.action else {
                let recheck = plan.recheck.map(|at| format!("look again at {}", at.as_second()));
                text.extend(recheck.filter(|_| written == 0));
                break;
            };
            text.push(print(action));
            written += 1;
            assert!(written <= WRITES, "{}: {slot} never rests: {text:?}", self.name);
            let outcome = acting::act(server, slot, action, &mut || true);
            acting::remember((server, world), slot, action, &outcome, now);
            acting::catch_up(server, world);
            match outcome {
                Outcome::Done => {}
                Outcome::NeedsReplacing(_) => text.push("impossible".into()),
                Outcome::Stale => text.push("too late".into()),
                Outcome::Refused { .. } => {
                    let again = plan_slot(world, slot, at(now));
                    text.extend(["refused".into(), state(&again).unwrap()]);
                    break;
                }
                other => panic!("{}: {slot}: {other:?}", self.name),
            }
        }
        let left = server.objects.get(slot).map_or_else(|| "gone".into(), |object| object.text());
        let left = if written > 0 { format!(" => {left}") } else { String::new() };
        Some(format!("{}: {}{left}", name(slot), text.join("; ")))
    }
}

/// Every slot that anybody could have a wish for.
fn slots(world: &World) -> BTreeSet<ObjectKey> {
    let wanted = world.rules().keys().flat_map(|rule| slots_to_check(world, rule));
    let wanted = wanted.filter_map(|key| match key {
        Key::Slot(slot) => Some(slot),
        _ => None,
    });
    wanted.chain(world.objects().map(|(key, _)| key.clone())).collect()
}

fn files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/copy_cases");
    let paths = fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    let mut paths: Vec<_> = paths.filter(|path| path.extension().is_some_and(|it| it == "yaml")).collect();
    paths.sort();
    paths
}

/// Replaces what each case expects; `expect: |` is the last field of a case.
fn update(text: &str, got: &[String]) -> String {
    let mut kept = String::new();
    let mut got = got.iter();
    let mut inside = false;
    for line in text.lines() {
        inside = inside && (line.is_empty() || line.starts_with("    "));
        if line == "  expect: |" {
            let lines = got.next().unwrap().lines().map(|line| format!("\n    {line}"));
            kept += &format!("{line}{}\n\n", lines.collect::<String>());
            inside = true;
        } else if !inside {
            kept += &format!("{line}\n");
        }
    }
    format!("{}\n", kept.trim_end())
}

#[test]
fn every_case() {
    let mut failures = Vec::new();
    let mut count = 0;
    for path in files() {
        let text = fs::read_to_string(&path).unwrap();
        let cases: Vec<Case> =
            serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{path:?}: {error}"));
        let got: Vec<_> = cases.iter().map(Case::run).collect();
        count += cases.len();
        if std::env::var_os("UPDATE_CASES").is_some() {
            fs::write(&path, update(&text, &got)).unwrap();
            continue;
        }
        let wrong = cases.iter().zip(&got).filter(|(case, got)| case.expect.trim() != got.trim());
        failures.extend(wrong.map(|(case, got)| {
            format!("{}: {}\nexpected\n{}\ngot\n{got}\n", path.display(), case.name, case.expect.trim())
        }));
    }
    assert!(failures.is_empty(), "\n{}", failures.join("\n"));
    assert!(count > 60, "only {count} cases were found");
}
