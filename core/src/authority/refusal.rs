//! The message of a refusal: the user, the missing rights, and how to grant them. The message does not reveal
//! which objects exist.

use std::collections::BTreeSet;

use super::{
    Question,
    lacking::{Grant, grants},
};
use crate::{digest::hex, names::NamespacedName};

/// The message of `Ready` until the API server has answered about the object's rights.
pub const NOT_ASKED: &str =
    "the API server has not answered yet whether the author or ServiceAccount has the necessary rights";

/// How many bytes of the object's namespace and name are part of the name of a role.
const LONGEST_STEM: usize = 40;
/// The longest list of names, in bytes, in one of several commands, so that a few commands fit into any
/// message.
const LONGEST_LIST: usize = 250;
/// The maximum number of names of a kind in the sentence; the commands list all names.
const MOST_LISTED: usize = 4;

/// The message for a user who lacks rights that the object `of` declares: all missing rights, and shell
/// commands that grant exactly these rights. If `room` (bytes) is too small, the message omits first the
/// sentence, and then as many commands as necessary.
pub fn refusal(missing: &[&Question], of: &NamespacedName, room: usize) -> String {
    let grants = grants(missing.iter().copied());
    let commands: Vec<String> = grants.iter().map(|grant| command(grant, of)).collect();
    let all = commands.join(" && ");
    let whole = format!("{}; to allow it: {all}", lacks(&grants));
    if whole.len() <= room {
        return whole;
    }
    let more = match grants.len() {
        0 | 1 => String::new(),
        more => format!(", and {} more", more - 1),
    };
    let begin = format!("{}{more}; to allow it: ", lacks(grants.get(..1).unwrap_or_default()));
    if begin.len() + all.len() <= room {
        return begin + &all;
    }
    let commands: Vec<String> =
        grants.iter().flat_map(|grant| grant.parts(LONGEST_LIST)).map(|part| command(&part, of)).collect();
    let end = |left: usize| format!("; the next refusal shows the other {left} commands");
    let mut fit = commands.len().saturating_sub(1);
    loop {
        let some = commands.get(..fit).unwrap_or_default().join(" && ");
        let text = begin.clone() + &some + &end(commands.len() - fit);
        if text.len() <= room || fit <= 1 {
            return text;
        }
        fit -= 1;
    }
}

/// The message for a user whose object declares so much that checking it takes too many questions.
pub fn too_many(questions: usize, most: usize) -> String {
    format!(
        "checking the rights for this spec would take {questions} SubjectAccessReviews, more than the maximum of {most}: split it into \
         several objects with fewer names and namespaces, or let an administrator grant the rights for all objects of the kind in a \
         namespace, or in all namespaces"
    )
}

/// One sentence with the user and the missing rights.
fn lacks(grants: &[Grant]) -> String {
    let mut text = String::new();
    let mut before = None;
    for grant in grants {
        let Grant { subject, namespaces, resources, names, verbs } = grant;
        match before.replace(subject) {
            Some(before) if before == subject => text.push_str(", nor "),
            Some(_) => text.push_str(&format!("; and user {:?} may not ", subject.user)),
            None => text.push_str(&format!("user {:?} may not ", subject.user)),
        }
        let verbs: Vec<&str> = verbs.iter().copied().collect();
        let resources: Vec<&str> = resources.iter().map(String::as_str).collect();
        text.push_str(&format!("{} {}", either(&verbs), either(&resources)));
        if !names.is_empty() {
            text.push_str(&format!(" {}", listed(names)));
        }
        text.push_str(&match (grant.is_everywhere(), namespaces.len()) {
            (true, _) => " in all namespaces".to_owned(),
            (_, 1) => format!(" in namespace {}", listed(namespaces)),
            _ => format!(" in namespaces {}", listed(namespaces)),
        });
    }
    text
}

/// Joins words as in `a`, `a or b`, `a, b or c`.
fn either(words: &[&str]) -> String {
    match words {
        [all @ .., last] if !all.is_empty() => format!("{} or {last}", all.join(", ")),
        _ => words.concat(),
    }
}

fn listed(names: &BTreeSet<String>) -> String {
    let some: Vec<_> = names.iter().take(MOST_LISTED).map(|name| format!("{name:?}")).collect();
    match names.len().saturating_sub(MOST_LISTED) {
        0 => some.join(", "),
        more => format!("{} and {more} more", some.join(", ")),
    }
}

/// One shell command: a role with just this right, bound to the subject that lacks it. For several namespaces
/// the command makes a Role in each, which the administrators of these namespaces may create; a ClusterRole
/// is for rights missing in all namespaces.
fn command(grant: &Grant, of: &NamespacedName) -> String {
    let joined = |words: &BTreeSet<String>| words.iter().map(String::as_str).collect::<Vec<_>>().join(",");
    let verbs = grant.verbs.iter().copied().collect::<Vec<_>>().join(",");
    let only: String = grant.names.iter().map(|name| format!(" --resource-name={}", quoted(name))).collect();
    let rights = format!("--verb={verbs} --resource={}{only}", joined(&grant.resources));
    let to = match grant.subject.as_service_account() {
        Some((namespace, name)) => format!("--serviceaccount={}", quoted(&format!("{namespace}:{name}"))),
        None => format!("--user={}", quoted(&grant.subject.user)),
    };
    let places: Vec<String> = grant.namespaces.iter().map(|name| quoted(name)).collect();
    let role = role_name(of, &format!("{rights} {to} {}", places.join(" ")));
    match places.as_slice() {
        _ if grant.is_everywhere() => format!(
            "kubectl create clusterrole {role} {rights} && \
             kubectl create clusterrolebinding {role} --clusterrole={role} {to}"
        ),
        [place] => format!(
            "kubectl create role {role} {rights} -n {place} && \
             kubectl create rolebinding {role} --role={role} {to} -n {place}"
        ),
        several => format!(
            "for n in {}; do kubectl create role {role} {rights} -n $n && \
             kubectl create rolebinding {role} --role={role} {to} -n $n; done",
            several.join(" ")
        ),
    }
}

/// The name of a role, which contains the name of the object that the role is for. Different grants have
/// different role names.
fn role_name(of: &NamespacedName, grant: &str) -> String {
    let stem = format!("{}-{}", of.namespace, of.name);
    // The names are plain ASCII, so no cut falls inside a character.
    let stem: String = stem.chars().take(LONGEST_STEM).collect();
    let digest = ring::digest::digest(&ring::digest::SHA256, grant.as_bytes());
    let digest = digest.as_ref().get(..4).map(hex).unwrap_or_default();
    format!("copyrator-{}-{digest}", stem.trim_end_matches(['-', '.']))
}

/// Quotes a text as one word of a shell.
fn quoted(text: &str) -> String {
    let plain = !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.:/@".contains(&b));
    if plain { text.to_owned() } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::authority::{Subject, impersonation, questions::tests::of_rule};

    fn shop() -> NamespacedName {
        NamespacedName::new("shop", "web")
    }

    fn asked(user: &str, spec: serde_json::Value) -> Vec<Question> {
        let subject = Subject { user: user.into(), ..Subject::default() };
        of_rule("shop", spec, &subject)
    }

    fn said(questions: &[Question], room: usize) -> String {
        refusal(&questions.iter().collect::<Vec<_>>(), &shop(), room)
    }

    #[test]
    fn the_way_out_can_be_pasted_into_a_shell() {
        let writer = Subject { user: "o'brien; rm -rf".into(), ..Subject::default() };
        let role = "copyrator-shop-web-f9f8f392";
        assert_eq!(
            said(&[impersonation("shop", "copier", &writer)], 1024),
            format!(
                "user \"o'brien; rm -rf\" may not impersonate serviceaccounts \"copier\" in namespace \"shop\"; to allow \
                 it: kubectl create role {role} --verb=impersonate --resource=serviceaccounts --resource-name=copier \
                 -n shop && kubectl create rolebinding {role} --role={role} --user='o'\\''brien; rm -rf' -n shop"
            )
        );
        let evict = Question {
            subject: Subject::service_account("shop", "copier"),
            verb: "create",
            group: "".into(),
            resource: "pods".into(),
            subresource: Some("eviction"),
            name: None,
            namespace: String::new(),
        };
        let text = said(&[evict], 1024);
        assert!(text.contains("may not create pods/eviction in all namespaces; to allow it: "), "{text}");
        assert!(text.contains(" --verb=create --resource=pods/eviction && "), "{text}");
        assert!(text.ends_with(" --serviceaccount=shop:copier"), "{text}");
    }

    #[test]
    fn everything_that_is_missing_is_told_at_once() {
        let spec = serde_json::json!({
            "source": {"kind": "Secret", "names": ["a"], "namespaces": ["vault"]}, "targets": [{"names": ["x", "y"]}],
        });
        let text = said(&asked("alice", spec), 1024);
        let begin = "user \"alice\" may not create, delete or patch secrets in namespaces \"x\", \"y\", nor get secrets \
                     \"a\" in namespace \"vault\"; to allow it: for n in x y; do kubectl create role copyrator-shop-web-";
        assert!(text.starts_with(begin), "{text}");
        assert!(text.contains(" --user=alice -n $n; done && kubectl create role "), "{text}");
        assert!(!text.contains("clusterrole"), "Roles do: {text}");
        assert!(text.contains(" --verb=get --resource=secrets --resource-name=a -n vault && "), "{text}");
    }

    /// Two users, or two rules, need roles with different names: the second `kubectl create` would fail
    /// otherwise.
    #[test]
    fn no_two_grants_share_a_name() {
        let spec = || serde_json::json!({"source": {"kind": "Secret", "names": ["a"]}, "targets": [{"names": ["x"]}]});
        let role = |user: &str, of: &NamespacedName| {
            let questions = asked(user, spec());
            let text = refusal(&questions.iter().collect::<Vec<_>>(), of, 4096);
            let roles = text.split(" && ").filter_map(|command| command.split("create role ").nth(1));
            roles.map(|rest| rest.split(' ').next().unwrap().to_owned()).collect::<Vec<_>>()
        };
        let other = NamespacedName::new("shop", "other");
        let names = [role("alice", &shop()), role("bob", &shop()), role("alice", &other)].concat();
        assert_eq!(names.len(), 6);
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), 6, "{names:?}");
        assert_eq!(role("alice", &shop()), role("alice", &shop()));
        let long = NamespacedName::new("n".repeat(63), "r".repeat(253));
        assert!(role("alice", &long).iter().all(|name| name.len() <= 63), "{:?}", role("alice", &long));
    }

    /// An admission message has room for sixty-four namespaces; a command that does not fit is omitted as a
    /// whole.
    #[test]
    fn what_does_not_fit_is_left_out_whole() {
        let targets: Vec<_> = (0..64).map(|at| format!("team-{at}")).collect();
        let spec = serde_json::json!({
            "source": {"kind": "Secret", "names": ["a"], "namespaces": ["vault"]}, "targets": [{"names": targets}],
        });
        let questions = asked("alice", spec);
        let text = said(&questions, 2048);
        assert!(
            text.contains(" team-63 ") && text.contains("--verb=get") && !text.contains("the next"),
            "{text}"
        );
        let text = said(&questions, 1024);
        assert!(text.len() <= 1024 && text.contains("; to allow it: for n in team-0 "), "{text}");
        assert!(text.ends_with("; done; the next refusal shows the other 3 commands"), "{text}");
    }
}
