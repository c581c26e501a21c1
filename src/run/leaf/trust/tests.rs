//! Whether a leaf is trusted, step by step: at which second, what was read, and the result.

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

/// A leaf of the first, mounted with these authorities.
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
fn goes(writes_hooks: bool, mounted: &Mounted, looks: &[(u64, Carriers, Result<(), &str>)]) {
    let mut trust = Trust::new(NAME.into(), PROPAGATION, writes_hooks);
    for (second, carriers, expected) in looks {
        let now = start() + Duration::from_secs(*second);
        let judged = trust.judge(mounted, carriers, now);
        let is_as_expected = match (&judged, expected) {
            (Ok(()), Ok(())) => true,
            (Err(why), Err(part)) => why.contains(part),
            _ => false,
        };
        assert!(is_as_expected, "at {second}: {judged:?}, not {expected:?}");
        assert_eq!(trust.is_settled(mounted, now), judged.is_ok(), "at {second}");
    }
}

#[test]
fn what_hooks_carry_at_first_sight_counts_at_once_and_is_asked_about_no_more() {
    let (ca, other) = (authority(), authority());
    let both = hooks(&[&[&ca], &[&other, &ca]]);
    goes(false, &mounted(&ca, &[&ca]), &[(0, both, Ok(())), (1, Carriers::NotAsked, Ok(()))]);
    goes(false, &mounted(&ca, &[&ca]), &[(0, hooks(&[]), Ok(())), (1, Carriers::NotAsked, Ok(()))]);
}

#[test]
fn what_one_hook_lacks_waits_for_all_of_them_and_then_for_the_api_servers() {
    let (ca, other) = (authority(), authority());
    let lacking = hooks(&[&[&ca], &[&other], &[]]);
    let carried = hooks(&[&[&other, &ca]]);
    goes(
        false,
        &mounted(&ca, &[&ca]),
        &[
            (0, lacking.clone(), Err("yet (hook-1 and 1 more): waiting for the reconciler")),
            (9000, lacking.clone(), Err("waiting for the reconciler")),
            (9001, carried.clone(), Err("every API server")),
            (9030, lacking, Err("waiting for the reconciler")),
            (
                9040,
                hooks(&[]),
                Err("no hook is there: the mounted tls.crt counts from 2024-10-04T02:31:40Z on"),
            ),
            (
                9050,
                carried.clone(),
                Err("seen at 2024-10-04T02:30:50Z: it counts from 2024-10-04T02:31:50Z on"),
            ),
            (9109, carried.clone(), Err("every API server")),
            (9110, carried, Ok(())),
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
        &[(0, unread(), Err(unsure)), (179, unread(), Err(unsure)), (180, unread(), Ok(()))],
    );
    goes(
        false,
        &mounted(&ca, &[&ca]),
        &[
            (0, unread(), Err(unsure)),
            (170, hooks(&[&[&other]]), Err("waiting")),
            (200, unread(), Err(unsure)),
            (379, unread(), Err(unsure)),
            (380, unread(), Ok(())),
        ],
    );
    // While the bundles cannot be read, nothing is taken back, and the wait goes on afterwards.
    goes(
        false,
        &mounted(&ca, &[&ca]),
        &[
            (0, hooks(&[&[&other]]), Err("waiting")),
            (10, hooks(&[&[&ca]]), Err("every API server")),
            (30, unread(), Err("every API server")),
            (70, unread(), Ok(())),
        ],
    );
    goes(false, &mounted(&ca, &[&ca]), &[(0, unread(), Err(unsure)), (1, hooks(&[&[&ca]]), Ok(()))]);
}

/// A rollout of a process with both roles waits for the new one to be ready, and the new one would wait for
/// itself.
#[test]
fn a_process_that_writes_hooks_itself_waits_by_the_clock_at_most() {
    let (ca, other) = (authority(), authority());
    let lacking = hooks(&[&[&other]]);
    goes(
        true,
        &mounted(&ca, &[&ca]),
        &[
            (0, lacking.clone(), Err("write it; it counts from 2024-10-04T00:03:00Z on all the same")),
            (179, lacking.clone(), Err("all the same")),
            (180, lacking.clone(), Ok(())),
            (200, lacking, Ok(())),
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
            (0, hooks(&[]), Err(not_own)),
            (10, unread(), Err(not_own)),
            (9999, unread(), Err(not_own)),
            (9999, hooks(&[&[&other]]), Err(not_own)),
            (9999, hooks(&[&[&ca]]), Err("carry")),
            (10_000, unread(), Err("carry")),
            (10_059, hooks(&[&[&ca]]), Ok(())),
        ],
    );
}

/// A leaf is only settled for the authorities and bundles that were seen.
#[test]
fn another_leaf_or_other_authorities_are_asked_for_where_they_are_not_settled() {
    let (one, two) = (authority(), authority());
    let mut trust = Trust::new(NAME.into(), PROPAGATION, false);
    let first = mounted(&one, &[&one, &two]);
    assert_eq!(trust.judge(&first, &hooks(&[&[&one]]), start()), Ok(()));
    let now = start() + 2 * PROPAGATION;
    for (name, next, settled) in [
        ("of the same CA", mounted(&one, &[&one, &two]), true),
        ("of one that is mounted and not carried", mounted(&two, &[&one, &two]), false),
        ("with fewer authorities", mounted(&one, &[&one]), false),
    ] {
        assert_eq!(trust.is_settled(&next, now), settled, "{name}");
    }
    // With a clock that was set back, nothing waits longer.
    let third = authority();
    let next = mounted(&third, &[&third]);
    let (ahead, back) = (start() + 2 * DAY, start() + DAY);
    for now in [ahead, back] {
        assert!(trust.judge(&next, &hooks(&[&[&third]]), now).is_err(), "it waits at {now:?}");
    }
    assert_eq!(trust.judge(&next, &hooks(&[&[&third]]), back + PROPAGATION), Ok(()));
}
