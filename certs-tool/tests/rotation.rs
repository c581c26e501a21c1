//! The rotation's steps: what is due when, also after crashes and for clocks that jump.
#![allow(clippy::unwrap_used)] // a test, its set-up functions too

use std::time::{Duration, SystemTime};

use copyrator_certs::{Authority, Carried, Rotation, Step, Times};

const MINUTE: Duration = Duration::from_secs(60);
const DAY: Duration = Duration::from_secs(86_400);
const TIMES: Times =
    Times { ca_lifetime: Duration::from_secs(30 * 86_400), leaf_lifetime: DAY, propagation: MINUTE };

fn start() -> SystemTime {
    SystemTime::UNIX_EPOCH + 20_000 * DAY
}

fn fresh(now: SystemTime) -> Rotation {
    Rotation::new(Authority::issue("ca", now, TIMES.ca_lifetime).unwrap(), now)
}

/// Every hook with the bundle that this Secret asks for.
fn hooked(rotation: &Rotation, now: SystemTime) -> Vec<Carried> {
    let bundle = rotation.secret.trust_bundle(now);
    ["one", "two"].map(|hook| Carried { hook: hook.into(), bundle: bundle.clone() }).into()
}

/// Takes the steps that are due, each on what the API server would give back, until there is nothing to write.
fn settle(mut rotation: Rotation, now: SystemTime) -> (Rotation, Vec<Step>, Duration) {
    let mut steps = Vec::new();
    loop {
        let step = rotation.step(&hooked(&rotation, now), &TIMES, now);
        if let Step::Wait { after, lacking } = step {
            assert_eq!(lacking, Vec::<String>::new());
            return (rotation, steps, after);
        }
        rotation = rotation.take(&step, &TIMES, now).unwrap();
        steps.push(step);
        assert!(steps.len() < 10, "it goes round in circles: {steps:?}");
    }
}

fn waits(step: &Step) -> bool {
    matches!(step, Step::Wait { .. })
}

#[test]
fn a_life_in_order() {
    let (rotation, steps, after) = settle(fresh(start()), start());
    assert_eq!((steps, after), (vec![], 20 * DAY));
    let first = rotation.secret.current.fingerprint();

    let due = start() + 20 * DAY;
    let (rotation, steps, after) = settle(rotation, due);
    assert_eq!((steps, after), (vec![Step::Announce, Step::Publish], MINUTE));
    assert_eq!(rotation.secret.current.fingerprint(), first, "the next one signs before it is trusted");
    let next = rotation.secret.next.as_ref().unwrap().fingerprint();

    let (rotation, steps, after) = settle(rotation, due + MINUTE);
    assert_eq!((steps, after), (vec![Step::Switch], DAY + MINUTE));
    assert_eq!(rotation.secret.current.fingerprint(), next);
    assert_eq!(rotation.secret.old.len(), 1, "leaves of the first are still served");

    let (rotation, steps, _) = settle(rotation, due + MINUTE + DAY + MINUTE);
    assert_eq!(steps, [Step::Retire]);
    assert_eq!((rotation.secret.old.len(), rotation.secret.current.fingerprint()), (0, next));
}

/// Wherever a process ends, the next one goes on from the Secret alone, and takes the same steps.
#[test]
fn a_crash_before_or_after_any_step_changes_nothing() {
    let mut rotation = Rotation { asked: true, ..fresh(start()) };
    let mut now = start();
    for expected in [Step::Announce, Step::Publish, Step::Switch, Step::Retire] {
        let due = |rotation: &Rotation, now| rotation.step(&hooked(rotation, now), &TIMES, now);
        if let Step::Wait { after, .. } = due(&rotation, now) {
            assert!(
                waits(&due(&rotation, now + after - Duration::from_secs(1))),
                "before its time: {expected:?}"
            );
            now += after;
        }
        assert_eq!(due(&rotation, now), expected);
        rotation = rotation.take(&expected, &TIMES, now).unwrap();
        assert_ne!(due(&rotation, now), expected);
    }
    assert!(waits(&rotation.step(&hooked(&rotation, now), &TIMES, now)));
    assert!(!rotation.asked);
}

#[test]
fn nothing_switches_while_a_hook_lacks_either_ca() {
    let now = start();
    let asked = Rotation { asked: true, ..fresh(now) };
    let before = hooked(&asked, now);
    let announced = asked.take(&Step::Announce, &TIMES, now).unwrap();
    let step = announced.step(&before, &TIMES, now);
    assert_eq!(step, Step::Wait { after: MINUTE, lacking: vec!["one".into(), "two".into()] });

    let mut half = hooked(&announced, now);
    for bad in [before[0].bundle.as_str(), "", "no PEM", &announced.secret.next.as_ref().unwrap().cert_pem()]
    {
        half[1].bundle = bad.into();
        let Step::Wait { lacking, .. } = announced.step(&half, &TIMES, now) else { panic!("{bad}") };
        assert_eq!(lacking, ["two"]);
        // Whatever was seen before: it is seen anew, and the time counts from then.
        let published = announced.take(&Step::Publish, &TIMES, now).unwrap();
        assert_eq!(published.step(&half, &TIMES, now + DAY), Step::Withdraw);
        let withdrawn = published.take(&Step::Withdraw, &TIMES, now + DAY).unwrap();
        assert_eq!(withdrawn.step(&hooked(&withdrawn, now), &TIMES, now + DAY), Step::Publish);
    }
    // Nobody is called by a hook that is not there.
    assert_eq!(announced.step(&[], &TIMES, now), Step::Publish);
}

#[test]
fn a_rotation_under_way_is_the_one_that_was_asked_for() {
    let now = start();
    let (rotation, ..) = settle(Rotation { asked: true, ..fresh(now) }, now);
    let next = rotation.secret.next.as_ref().unwrap().fingerprint();
    let (rotation, steps, _) = settle(Rotation { asked: true, ..rotation }, now + MINUTE);
    assert_eq!(steps, [Step::Switch]);
    assert_eq!((rotation.asked, rotation.secret.current.fingerprint()), (false, next));
    // Asked for again while leaves of the first are served: both stay trusted.
    let (rotation, steps, _) = settle(Rotation { asked: true, ..rotation }, now + 2 * MINUTE);
    assert_eq!(steps, [Step::Announce, Step::Publish]);
    let (rotation, ..) = settle(rotation, now + 3 * MINUTE);
    assert_eq!(rotation.secret.old.len(), 2);
}

#[test]
fn an_expired_ca_is_made_anew_at_once() {
    let first = fresh(start());
    let late = start() + 400 * DAY;
    let (rotation, steps, _) = settle(first.clone(), late);
    assert_eq!(steps, [Step::Remake]);
    assert!(rotation.secret.current.validity().contains(late) && rotation.secret.old.is_empty());
    // The one that was announced in time is used.
    let announced = first.take(&Step::Announce, &TIMES, start() + 20 * DAY).unwrap();
    let next = announced.secret.next.as_ref().unwrap().fingerprint();
    let (rotation, ..) = settle(announced, start() + 31 * DAY);
    assert_eq!(rotation.secret.current.fingerprint(), next);
}

#[test]
fn a_clock_that_goes_back_has_nobody_wait_for_ever() {
    let (ahead, back) = (start() + 300 * DAY, start());
    // Published, then back: the propagation time is waited for once more, not for the months between.
    let first = fresh(start());
    let announced = Rotation { asked: true, ..first.clone() }.take(&Step::Announce, &TIMES, start()).unwrap();
    let published = Rotation { published: Some(ahead), ..announced };
    let (_, steps, after) = settle(published, back);
    assert_eq!((steps, after), (vec![Step::Publish], MINUTE));
    // Switched, then back: the leaves' lifetime once more.
    let switched = first.take(&Step::Remake, &TIMES, start()).unwrap();
    let (_, steps, after) = settle(Rotation { switched: Some(ahead), ..switched.clone() }, back);
    assert_eq!((steps, after), (vec![Step::Date], DAY + MINUTE));
    let (_, steps, _) = settle(Rotation { switched: None, ..switched }, back);
    assert_eq!(steps, [Step::Date]);
    // Made ahead of time: nobody accepts it now.
    let (rotation, steps, _) = settle(fresh(ahead), back);
    assert_eq!(steps, [Step::Remake]);
    assert!(rotation.secret.current.validity().contains(back));
    // The next one likewise.
    let odd = Rotation { published: None, ..first.take(&Step::Announce, &TIMES, ahead).unwrap() };
    let (rotation, steps, _) = settle(odd, back);
    assert_eq!(steps, [Step::Announce, Step::Publish]);
    assert!(rotation.secret.next.unwrap().validity().contains(back));
}

#[test]
fn a_clock_that_goes_forward_and_back_leaves_a_ca_in_use() {
    let mut rotation = fresh(start());
    for now in [start() + 40 * DAY, start(), start() + 25 * DAY, start() + 4000 * DAY, start() + DAY] {
        (rotation, ..) = settle(rotation, now);
        assert!(rotation.secret.current.validity().contains(now));
        assert!(rotation.secret.old.len() <= 4);
    }
}
