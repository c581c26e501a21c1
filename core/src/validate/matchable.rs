//! Decides whether any name can match two globs, by running the automata of the two globs together.

use std::collections::{BTreeMap, VecDeque};

use globset::Glob;
use regex_automata::{
    nfa::thompson::{Compiler, Config, NFA, State, WhichCaptures},
    util::{primitives::StateID, syntax},
};

use crate::names::{ALIKE, NameKind, NameState};

/// Whether a name of this kind can match the glob, and can contain each character outside of brackets: in
/// `{a,^b}`, one half is a mistake.
pub(super) fn is_matchable(glob: &Glob, kind: NameKind) -> bool {
    stray(glob.glob(), kind).is_none()
        && automaton(glob).and_then(|nfa| shortest(&nfa, kind)).is_some_and(|length| length <= kind.longest())
}

/// Returns the first character outside of brackets that is not special in a glob and that no name can
/// contain.
pub(super) fn stray(glob: &str, kind: NameKind) -> Option<char> {
    let (mut braces, mut is_class) = (0_u32, false);
    glob.chars().find(|one| match one {
        ']' if is_class => {
            is_class = false;
            false
        }
        _ if is_class => false,
        '[' => {
            is_class = true;
            false
        }
        '{' => {
            braces += 1;
            false
        }
        '}' => {
            braces = braces.saturating_sub(1);
            false
        }
        ',' if braces > 0 => false,
        '*' | '?' => false,
        one => !kind.holds(*one),
    })
}

fn automaton(glob: &Glob) -> Option<NFA> {
    let whole = Config::new().utf8(false).which_captures(WhichCaptures::None);
    let syntax = syntax::Config::new().utf8(false).dot_matches_new_line(true);
    Compiler::new().configure(whole).syntax(syntax).build(glob.regex()).ok()
}

/// The length of the shortest name that matches.
fn shortest(glob: &NFA, kind: NameKind) -> Option<usize> {
    let mut reached: BTreeMap<(StateID, NameState), usize> = BTreeMap::new();
    let mut waiting: VecDeque<_> = kind.starts().map(|name| (glob.start_anchored(), name, 0)).collect();
    while let Some((at, name, length)) = waiting.pop_front() {
        if reached.contains_key(&(at, name)) {
            continue;
        }
        reached.insert((at, name), length);
        let mut read = |(from, to): (u8, u8), next: StateID| {
            let alike = ALIKE.iter().filter(|(low, high)| *low <= to && from <= *high);
            waiting.extend(alike.filter_map(|(low, _)| Some((next, kind.step(name, *low)?, length + 1))));
        };
        let free: &[StateID] = match glob.state(at) {
            State::ByteRange { trans } => {
                read((trans.start, trans.end), trans.next);
                &[]
            }
            State::Sparse(sparse) => {
                sparse.transitions.iter().for_each(|one| read((one.start, one.end), one.next));
                &[]
            }
            State::Dense(dense) => {
                (0..=u8::MAX)
                    .filter_map(|byte| Some((byte, dense.matches_byte(byte)?)))
                    .for_each(|(byte, next)| read((byte, byte), next));
                &[]
            }
            State::Look { next, .. } | State::Capture { next, .. } => std::slice::from_ref(next),
            State::Union { alternates } => alternates,
            State::BinaryUnion { alt1, alt2 } => &[*alt1, *alt2],
            State::Match { .. } if name.may_end() => return Some(length),
            State::Match { .. } | State::Fail => &[],
        };
        // Transitions that consume no character come first.
        free.iter().for_each(|next| waiting.push_front((*next, name, length)));
    }
    None
}
