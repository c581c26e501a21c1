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
fn a_ca_that_hooks_carry_at_the_first_look_counts_at_once() {
    let (ca, other) = (authority(), authority());
    for hooks in [hooks(&[&[&ca], &[&other, &ca]]), hooks(&[])] {
        goes(false, &mounted(&ca, &[&ca]), &[(0, hooks, Ok(())), (1, unread(), Ok(()))]);
    }
}

#[test]
fn a_ca_that_one_hook_lacks_waits_and_counts_at_the_second_look_that_finds_it() {
    let (ca, other) = (authority(), authority());
    let lacking = hooks(&[&[&ca], &[&other], &[]]);
    let carried = hooks(&[&[&other, &ca]]);
    goes(
        false,
        &mounted(&ca, &[&ca]),
        &[
            (0, lacking.clone(), Err("(hook-1 and 1 more): waiting for the reconciler")),
            (9000, lacking.clone(), Err("waiting for the reconciler")),
            (9002, carried.clone(), Err("after the next check")),
            (9004, lacking, Err("waiting for the reconciler")),
            (9006, carried.clone(), Err("after the next check")),
            (9008, unread(), Err("cannot read them: cannot check whether callers trust the mounted tls.crt")),
            (9010, carried, Ok(())),
        ],
    );
    goes(
        false,
        &mounted(&ca, &[&ca]),
        &[(0, unread(), Err("cannot check whether callers trust")), (1, hooks(&[&[&ca]]), Ok(()))],
    );
}

#[test]
fn where_hooks_may_not_be_read_the_own_ca_file_counts_after_a_while() {
    let ca = authority();
    let may_not = "may not read the hooks: it treats the mounted tls.crt as trusted from 2024-10-04T00:0";
    goes(
        false,
        &mounted(&ca, &[&ca]),
        &[
            (0, Carriers::Unknowable, Err(may_not)),
            (100, unread(), Err("cannot check whether callers trust")),
            (110, Carriers::Unknowable, Err(may_not)),
            (289, Carriers::Unknowable, Err(may_not)),
            (290, Carriers::Unknowable, Ok(())),
        ],
    );
}

/// A rollout of a process with both roles waits for the new one to be ready, and the new one would wait for
/// itself.
#[test]
fn a_process_that_writes_hooks_itself_waits_for_a_bounded_time() {
    let (ca, other) = (authority(), authority());
    let lacking = hooks(&[&[&other]]);
    goes(
        true,
        &mounted(&ca, &[&ca]),
        &[
            (
                0,
                lacking.clone(),
                Err(
                    "write it; otherwise this process treats the certificate as trusted from 2024-10-04T00:03:00Z on",
                ),
            ),
            (179, lacking.clone(), Err("treats the certificate as trusted")),
            (180, lacking.clone(), Ok(())),
            (200, lacking, Ok(())),
        ],
    );
}

#[test]
fn a_leaf_that_its_own_ca_file_does_not_vouch_for_never_counts() {
    let (ca, other) = (authority(), authority());
    let not_own = "the mounted ca.crt does not verify the mounted tls.crt for `copyrator.test`";
    let looks = [hooks(&[]), unread(), Carriers::Unknowable, hooks(&[&[&other]]), hooks(&[&[&ca]])];
    let looks = looks.map(|hooks| (0, hooks, Err(not_own)));
    goes(false, &mounted(&ca, &[&other]), &looks);
}

#[test]
fn the_next_leaf_of_a_ca_that_all_hooks_carry_counts_at_once() {
    let (one, two) = (authority(), authority());
    let mut trust = Trust::new(NAME.into(), PROPAGATION, false);
    let first = mounted(&one, &[&one, &two]);
    assert_eq!(trust.judge(&first, &hooks(&[&[&one]]), start()), Ok(()));
    assert!(trust.is_settled(&mounted(&one, &[&one, &two]), start()));
    assert!(!trust.is_settled(&mounted(&one, &[&one]), start()), "other authorities are mounted");
    let next = mounted(&two, &[&one, &two]);
    assert!(!trust.is_settled(&next, start()), "its CA is mounted, and no hook carries it");
    let carried = hooks(&[&[&one, &two]]);
    assert!(trust.judge(&next, &carried, start()).is_err(), "hooks may have carried it for a moment");
    assert_eq!(trust.judge(&next, &carried, start()), Ok(()));
}
