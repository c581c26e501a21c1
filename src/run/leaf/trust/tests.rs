//! How a leaf stands, look by look: seconds, what was read, and what comes of it.

use copyrator_certs::{Authority, PrivateKeyPem};

use super::*;

const DAY: Duration = Duration::from_secs(86_400);
const NAME: &str = "copyrator.test";
/// Three of them by the clock.
const PROPAGATION: Duration = Duration::from_secs(60);

fn start() -> SystemTime {
    SystemTime::UNIX_EPOCH + 20_000 * DAY
}

fn authority() -> Authority {
    Authority::issue("ca", start(), 365 * DAY).unwrap()
}

/// A leaf of the first, mounted with these.
fn mounted(of: &Authority, authorities: &[&Authority]) -> Mounted {
    let leaf = of.issue_leaf(&[NAME.to_owned()], &[], start(), 90 * DAY).unwrap();
    Mounted {
        chain: Certificate::all_from_pem(&leaf.chain_pem).unwrap(),
        chain_pem: leaf.chain_pem,
        key: PrivateKeyPem::new(String::new()),
        authorities: authorities.iter().map(|one| one.certificate().clone()).collect(),
    }
}

/// A hook for each bundle.
fn hooks(bundles: &[&[&Authority]]) -> Carriers {
    let bundle = |of: &[&Authority]| of.iter().map(|one| one.certificate().clone()).collect();
    let named = |(number, of): (usize, &&[&Authority])| Carrier {
        hook: format!("hook-{number}"),
        bundle: bundle(of),
    };
    Carriers::Hooks(bundles.iter().enumerate().map(named).collect())
}

fn unread() -> Carriers {
    Carriers::Unread("cannot read them".into())
}

#[track_caller]
fn goes(writes_hooks: bool, mounted: &Mounted, looks: &[(u64, Carriers, Standing, &str)]) {
    let mut trust = Trust::new(NAME.into(), PROPAGATION, writes_hooks);
    for (second, carriers, standing, why) in looks {
        let now = start() + Duration::from_secs(*second);
        let judged = trust.judge(mounted, carriers, now);
        assert_eq!(judged.standing, *standing, "at {second}: {judged:?}");
        assert!(judged.why.contains(why), "at {second}: {judged:?}");
        assert_eq!(trust.is_settled(mounted, now), *standing == Standing::Settled, "at {second}");
    }
}

#[test]
fn what_hooks_carry_at_first_sight_will_do_and_settles() {
    let (ca, other) = (authority(), authority());
    let both = hooks(&[&[&ca], &[&other, &ca]]);
    let likely = "seen at 2024-10-04T00:00:00Z: it counts from 2024-10-04T00:01:00Z on";
    goes(
        false,
        &mounted(&ca, &[&ca]),
        &[
            (0, both.clone(), Standing::Likely, likely),
            (59, both.clone(), Standing::Likely, likely),
            (60, both, Standing::Settled, ""),
            (61, Carriers::NotAsked, Standing::Settled, ""),
        ],
    );
}

#[test]
fn what_one_hook_lacks_is_refused_and_then_waited_for() {
    let (ca, other) = (authority(), authority());
    let lacking = hooks(&[&[&ca], &[&other], &[]]);
    let carried = hooks(&[&[&other, &ca]]);
    goes(
        false,
        &mounted(&ca, &[&ca]),
        &[
            (0, lacking.clone(), Standing::Refused, "yet (hook-1 and 1 more): waiting for the reconciler"),
            (9000, lacking.clone(), Standing::Refused, "waiting for the reconciler"),
            (9001, carried.clone(), Standing::Unsure, "every API server"),
            (9030, lacking, Standing::Refused, "waiting for the reconciler"),
            (9040, carried.clone(), Standing::Unsure, "every API server"),
            (9099, carried.clone(), Standing::Unsure, "every API server"),
            (9100, carried, Standing::Settled, ""),
        ],
    );
}

#[test]
fn where_hooks_cannot_be_read_the_clock_counts_from_when_they_last_could() {
    let (ca, other) = (authority(), authority());
    let unsure = "cannot read them: whether callers trust the mounted tls.crt is not known, and it counts from 2024-10-04T00:0";
    goes(
        false,
        &mounted(&ca, &[&ca]),
        &[
            (0, unread(), Standing::Unsure, unsure),
            (179, unread(), Standing::Unsure, unsure),
            (180, unread(), Standing::Settled, ""),
        ],
    );
    goes(
        false,
        &mounted(&ca, &[&ca]),
        &[
            (0, unread(), Standing::Unsure, unsure),
            (170, hooks(&[&[&other]]), Standing::Refused, "waiting"),
            (200, unread(), Standing::Unsure, unsure),
            (379, unread(), Standing::Unsure, unsure),
            (380, unread(), Standing::Settled, ""),
        ],
    );
    // A moment in which nobody can say takes nothing back.
    goes(
        false,
        &mounted(&ca, &[&ca]),
        &[
            (0, hooks(&[&[&ca]]), Standing::Likely, ""),
            (30, unread(), Standing::Likely, ""),
            (60, unread(), Standing::Settled, ""),
        ],
    );
}

#[test]
fn where_no_hook_is_the_mounted_authorities_count_at_once() {
    let (ca, other) = (authority(), authority());
    goes(
        false,
        &mounted(&ca, &[&ca]),
        &[
            (0, hooks(&[]), Standing::Likely, "no hook is there yet"),
            (2, hooks(&[&[&other]]), Standing::Refused, "waiting"),
            (4, hooks(&[&[&ca]]), Standing::Unsure, "every API server"),
        ],
    );
    goes(
        false,
        &mounted(&ca, &[&ca]),
        &[(0, hooks(&[]), Standing::Likely, "no hook is there yet"), (60, hooks(&[]), Standing::Settled, "")],
    );
}

/// A roll-out of what does both waits for the new one to be ready, and the new one would wait for itself.
#[test]
fn who_writes_the_hooks_himself_waits_by_the_clock_at_most() {
    let (ca, other) = (authority(), authority());
    let lacking = hooks(&[&[&other]]);
    goes(
        true,
        &mounted(&ca, &[&ca]),
        &[
            (
                0,
                lacking.clone(),
                Standing::Refused,
                "write it; it counts from 2024-10-04T00:03:00Z on all the same",
            ),
            (179, lacking.clone(), Standing::Refused, "all the same"),
            (180, lacking.clone(), Standing::Likely, "hook-0"),
            (200, lacking, Standing::Likely, "hook-0"),
            (201, hooks(&[&[&ca]]), Standing::Unsure, "every API server"),
        ],
    );
}

#[test]
fn what_its_own_authorities_do_not_vouch_for_counts_by_the_hooks_alone() {
    let (ca, other) = (authority(), authority());
    let not_own = "the mounted tls.crt is not one that the mounted ca.crt vouches for, as `copyrator.test`";
    goes(
        false,
        &mounted(&ca, &[&other]),
        &[
            (0, hooks(&[]), Standing::Refused, not_own),
            (10, unread(), Standing::Refused, not_own),
            (9999, unread(), Standing::Refused, not_own),
            (9999, hooks(&[&[&other]]), Standing::Refused, not_own),
            (9999, hooks(&[&[&ca]]), Standing::Unsure, "carry"),
            (10_000, unread(), Standing::Unsure, "carry"),
            (10_059, hooks(&[&[&ca]]), Standing::Settled, ""),
        ],
    );
}

/// Settled is settled of what was mounted, and of what hooks carried: nothing else is.
#[test]
fn another_leaf_or_other_authorities_are_asked_for_where_they_are_not_settled() {
    let (one, two) = (authority(), authority());
    let mut trust = Trust::new(NAME.into(), PROPAGATION, false);
    let first = mounted(&one, &[&one, &two]);
    for now in [start(), start() + PROPAGATION] {
        trust.judge(&first, &hooks(&[&[&one]]), now);
    }
    let now = start() + 2 * PROPAGATION;
    for (name, next, settled) in [
        ("of the same CA", mounted(&one, &[&one, &two]), true),
        ("of one that is mounted and not carried", mounted(&two, &[&one, &two]), false),
        ("with fewer authorities", mounted(&one, &[&one]), false),
    ] {
        assert_eq!(trust.is_settled(&next, now), settled, "{name}");
    }
    // A clock that went back waits no longer for it.
    let third = authority();
    let next = mounted(&third, &[&third]);
    let (ahead, back) = (start() + 2 * DAY, start() + DAY);
    trust.judge(&next, &hooks(&[&[&third]]), ahead);
    assert_eq!(trust.judge(&next, &hooks(&[&[&third]]), back).standing, Standing::Likely);
    assert_eq!(trust.judge(&next, &hooks(&[&[&third]]), back + PROPAGATION).standing, Standing::Settled);
}

#[test]
fn what_was_settled_stays_and_what_was_likely_can_be_refused() {
    use Standing::{Likely, Refused, Settled, Unsure};
    for (before, seen, after) in [
        (Refused, Unsure, Unsure),
        (Unsure, Likely, Likely),
        (Likely, Unsure, Likely),
        (Likely, Refused, Refused),
        (Likely, Settled, Settled),
        (Settled, Unsure, Settled),
        (Settled, Refused, Settled),
    ] {
        assert_eq!(before.after(seen), after, "{before:?}, {seen:?}");
    }
}
