//! The query parameters of a request.

use std::{collections::BTreeSet, sync::Arc};

use axum::extract::FromRequestParts;
use copyrator_cli::arguments::namespaces;
use http::{StatusCode, header, request::Parts};

use super::problem::Problem;

/// The maximum number of namespaces in `namespaces`.
const NAMED: usize = 50;
/// The default of `limit`.
const ROWS: usize = 100;
/// The maximum of `limit`.
const MOST_ROWS: usize = 500;

/// The parameters of a query.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    /// `namespaces`: the namespaces to read; empty: the namespaces of the command line.
    pub namespaces: BTreeSet<Arc<str>>,
    /// `namespace`: rows of this namespace only.
    pub namespace: Option<String>,
    /// `rule`, `namespace/name`: rows of this rule only.
    pub rule: Option<String>,
    /// `state`: rows of this state only, by its word in any case.
    pub state: Option<String>,
    /// `policy`: violations of this policy only.
    pub policy: Option<String>,
    /// `limit`: how many rows at most.
    pub limit: usize,
    /// `continue`: where the previous page ended.
    pub next: Option<String>,
    /// `after`: the id of an event, after which a stream begins.
    pub after: Option<String>,
    /// `dryRun`: whether a write is judged, and not stored.
    pub dry_run: bool,
    /// Whether `Cache-Control` requests a new survey, as browsers do on a reload.
    pub is_anew: bool,
    /// The names of the parameters in the query.
    pub given: BTreeSet<String>,
}

impl Asked {
    /// Reads a query.
    ///
    /// # Errors
    /// A parameter is unknown, duplicate or invalid.
    pub(super) fn read(query: &str) -> Result<Self, Problem> {
        let wrong = |message: String| Problem::new(StatusCode::BAD_REQUEST, message);
        let mut asked = Self {
            namespaces: BTreeSet::new(),
            namespace: None,
            rule: None,
            state: None,
            policy: None,
            limit: ROWS,
            next: None,
            after: None,
            dry_run: false,
            is_anew: false,
            given: BTreeSet::new(),
        };
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            if !asked.given.insert(name.clone().into_owned()) {
                return Err(wrong(format!("duplicate parameter {name:?}")));
            }
            let text = (!value.is_empty()).then(|| value.clone().into_owned());
            match &*name {
                "namespaces" => asked = asked.with_namespaces(&value)?,
                "namespace" => asked.namespace = text,
                "rule" => asked.rule = text,
                "state" => asked.state = text,
                "policy" => asked.policy = text,
                "continue" => asked.next = text,
                "after" => asked.after = text,
                "dryRun" if value == "All" => asked.dry_run = true,
                "dryRun" => return Err(wrong("dryRun: the only allowed value is All".to_owned())),
                "limit" => {
                    let limit = value.parse().ok().filter(|limit| (1..=MOST_ROWS).contains(limit));
                    asked.limit =
                        limit.ok_or_else(|| wrong(format!("limit: write a number from 1 to {MOST_ROWS}")))?;
                }
                _ => return Err(wrong(format!("unknown parameter {name:?}"))),
            }
        }
        Ok(asked)
    }

    /// Returns the parameters with these namespaces, which commas or spaces separate.
    ///
    /// # Errors
    /// A name is not the name of a namespace, or the list is too long.
    pub(super) fn with_namespaces(self, names: &str) -> Result<Self, Problem> {
        let wrong = |message: String| Problem::new(StatusCode::BAD_REQUEST, message);
        let names = names.split([',', ' ']).map(str::to_owned).collect();
        let names = namespaces("namespaces", names).map_err(|error| wrong(error.to_string()))?;
        if names.len() > NAMED {
            return Err(wrong(format!("namespaces: at most {NAMED} are allowed")));
        }
        Ok(Self { namespaces: names.into_iter().map(Arc::from).collect(), ..self })
    }
}

impl<S: Sync> FromRequestParts<S> for Asked {
    type Rejection = Problem;

    async fn from_request_parts(head: &mut Parts, _: &S) -> Result<Self, Problem> {
        let is_anew = head.headers.get_all(header::CACHE_CONTROL).iter().any(|value| {
            value.to_str().is_ok_and(|value| value.contains("no-cache") || value.contains("max-age=0"))
        });
        Ok(Self { is_anew, ..Self::read(head.uri.query().unwrap_or_default())? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_understood_or_refused() {
        let asked = Asked::read("namespaces=web,shop&state=failed&limit=5&rule=").unwrap();
        assert_eq!(asked.namespaces.iter().map(|name| &**name).collect::<Vec<_>>(), ["shop", "web"]);
        assert_eq!((asked.state.as_deref(), asked.rule, asked.limit), (Some("failed"), None, 5));
        for wrong in
            ["limit=0", "limit=501", "limit=x", "namespaces=*", "colour=red", "dryRun=", "state=a&state=b"]
        {
            let problem = Asked::read(wrong).unwrap_err();
            assert_eq!(problem.code(), StatusCode::BAD_REQUEST, "{wrong}");
        }
    }
}
