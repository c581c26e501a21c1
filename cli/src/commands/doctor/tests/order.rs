//! In which order findings come, and which are left out.

use super::*;

#[test]
fn the_worst_comes_first_and_what_is_accepted_is_left_out() {
    let mut facts = sound();
    foreign(&mut facts, "up", |_| {});
    facts.digest_key = Err(unread());
    facts.lease = Ok(LeaseFacts::default());
    let found = examine(&facts, &[]);
    assert_eq!(
        brief(&found),
        [
            (Severity::Error, Id::LeaseStale),
            (Severity::Warning, Id::ForeignFailHook),
            (Severity::Unknown, Id::DigestKeyMissing)
        ]
    );
    let text = table(&found, 18);
    assert!(
        text.starts_with("error     lease-stale          Lease ours/copyrator-reconciler\n    has no holder"),
        "{text}"
    );
    assert!(text.ends_with("1 error, 1 warning, 1 unknown; 18 checks passed.\n"), "{text}");
    let accepted = [Id::ForeignFailHook, Id::DigestKeyMissing];
    assert_eq!(brief(&examine(&facts, &accepted)), [(Severity::Error, Id::LeaseStale)]);
    assert!(!in_order(&facts, &found, &accepted).contains(&Id::ForeignFailHook));
}
