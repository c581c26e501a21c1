//! The canary: a dry run of a harmless rule, which shows whether calls reach the webhook, and whether the API
//! server stamps authors.

use kube::{Api, Client, ResourceExt, api::PostParams};

use super::outcome::brief;
use crate::{
    admit::decide::{CANARY, STAMP_PROBE, UNJUDGED, UNSTAMPED},
    api::{CopyratorRule, TargetTerm},
    connect::WRITE_TIMEOUT,
    marks::{AUTHOR, HOOKS_MANAGER},
    names::Kind,
};

/// The policy that refuses rules without a stamp (`webhook-config/policies/author-honest.yaml`).
pub const HONEST: &str = "copyrator-author-honest";

/// The question that a canary answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Canary {
    /// Calls reach the webhook. The API server sends this canary to every hook of ours that sees rules.
    Arrives,
    /// Whether the API server stamps by itself. No hook of ours stamps this canary.
    Probes,
}

/// The answer to a canary.
#[derive(Debug, PartialEq, Eq)]
pub struct Echo {
    /// `Ok` if our webhook answered; otherwise the reason why not.
    pub heard: Result<(), String>,
    /// Whether the canary got an author stamp; `None` if the answer does not show that.
    pub stamped: Option<bool>,
    /// When policies last gave no verdict about a write, in seconds, according to the webhook that answered.
    pub unjudged: Option<i64>,
}

/// Sends a canary. The token consists of digits and distinguishes the canary's answer from other answers.
pub async fn send(client: &Client, namespace: &str, which: Canary, token: &str) -> Echo {
    let api: Api<CopyratorRule> = Api::namespaced(client.clone(), namespace);
    let params = PostParams { dry_run: true, field_manager: Some(HOOKS_MANAGER.into()) };
    match tokio::time::timeout(WRITE_TIMEOUT, api.create(&params, &rule(which, token))).await {
        Ok(Ok(object)) => Echo {
            heard: Err("a dry run did not reach the webhook".into()),
            stamped: Some(object.annotations().contains_key(AUTHOR)),
            unjudged: None,
        },
        Ok(Err(kube::Error::Api(status))) => echo(&status.message, token).unwrap_or_else(|| Echo {
            heard: Err(brief(&kube::Error::Api(status))),
            stamped: None,
            unjudged: None,
        }),
        Ok(Err(error)) => Echo { heard: Err(brief(&error)), stamped: None, unjudged: None },
        Err(_) => Echo {
            heard: Err(format!("no answer to a dry run in {WRITE_TIMEOUT:?}")),
            stamped: None,
            unjudged: None,
        },
    }
}

/// Reads a refusal, if it comes from the webhook, or from the policy that acts before the webhook.
fn echo(message: &str, token: &str) -> Option<Echo> {
    if let Some((_, rest)) = message.split_once(&format!("copyrator canary {token}")) {
        let unjudged = rest.split_once(UNJUDGED).and_then(|(_, seconds)| seconds.trim().parse().ok());
        return Some(Echo { heard: Ok(()), stamped: Some(!rest.starts_with(UNSTAMPED)), unjudged });
    }
    message.contains(HONEST).then(|| Echo {
        heard: Err("no webhook or admission policy records authors yet, so rules cannot be written".into()),
        stamped: Some(false),
        unjudged: None,
    })
}

/// Returns a valid rule that would copy nothing, even if it were ever stored.
pub fn harmless_rule() -> CopyratorRule {
    let mut rule = CopyratorRule::default();
    rule.spec.source.kind = Kind::ConfigMap.to_string();
    rule.spec.source.names = Some(vec!["copyrator-canary".into()]);
    rule.spec.targets =
        vec![TargetTerm { names: Some(vec!["copyrator-canary".into()]), ..TargetTerm::default() }];
    rule.spec.suspend = true;
    rule.metadata.name = Some("copyrator-canary".into());
    rule
}

fn rule(which: Canary, token: &str) -> CopyratorRule {
    let mut rule = harmless_rule();
    let annotations = rule.annotations_mut();
    annotations.insert(CANARY.to_owned(), token.to_owned());
    if which == Canary::Probes {
        annotations.insert(STAMP_PROBE.to_owned(), String::new());
    }
    rule
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validate::CompiledRule;

    #[test]
    fn a_canary_is_a_valid_rule() {
        let rule = rule(Canary::Arrives, "17");
        assert!(CompiledRule::compile(&rule.spec, &Default::default()).is_ok(), "{:?}", rule.spec);
        let written = serde_json::to_value(&rule).unwrap();
        assert_eq!(written["spec"]["source"]["kind"], "ConfigMap");
    }

    #[test]
    fn who_refuses_a_canary_tells_who_stamps() {
        let seen = |message: &str| echo(message, "17").map(|echo| (echo.heard.is_ok(), echo.stamped));
        let ours = "admission webhook \"own-kinds.copyrator.dev\" denied the request: copyrator canary 17";
        assert_eq!(seen(ours), Some((true, Some(true))));
        assert_eq!(seen(&format!("{ours}{UNSTAMPED}")), Some((true, Some(false))));
        let policy = "copyratorrules.copyrator.dev \"copyrator-canary\" is forbidden: ValidatingAdmissionPolicy \
                      'copyrator-author-honest' with binding 'copyrator-author-honest' denied request: annotations …";
        assert_eq!(seen(policy), Some((false, Some(false))));
        assert_eq!(seen("failed calling webhook \"own-kinds.copyrator.dev\""), None);
        assert_eq!(seen("copyrator canary 16"), None, "another's answer");
        let unjudged = |message: &str| echo(message, "17").and_then(|echo| echo.unjudged);
        assert_eq!(unjudged(&format!("{ours}{UNSTAMPED}{UNJUDGED}1764253445")), Some(1_764_253_445));
        assert_eq!(unjudged(ours), None);
    }
}
