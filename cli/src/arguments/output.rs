//! The formats of output. Machine-readable output begins with its kind and version, and only ever gains
//! fields.

use serde::Serialize;

/// The version of machine-readable output, not of the objects in the cluster.
pub const API_VERSION: &str = "cli.copyrator.dev/v1alpha1";

/// The format of the output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Output {
    /// A table for people.
    #[default]
    Table,
    /// The table, including entries that are in order.
    Wide,
    /// JSON for machines.
    Json,
    /// The same fields as YAML.
    Yaml,
    /// One line for each object: KIND/NAME as in kubectl, without the namespace.
    Name,
}

impl Output {
    /// Formats output of this kind: as the table that `table` makes, wide or not, as machine-readable text,
    /// or as names of objects.
    pub(crate) fn text<T: Serialize>(
        self,
        kind: &str,
        body: &T,
        table: impl FnOnce(bool) -> String,
        names: impl FnOnce() -> String,
    ) -> String {
        match self {
            Self::Table => table(false),
            Self::Wide => table(true),
            Self::Json => json(kind, body),
            Self::Yaml => yaml(kind, body),
            Self::Name => names(),
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Document<'a, T> {
    api_version: &'a str,
    kind: &'a str,
    #[serde(flatten)]
    body: &'a T,
}

/// Machine-readable output as JSON.
pub fn json<T: Serialize>(kind: &str, body: &T) -> String {
    let document = Document { api_version: API_VERSION, kind, body };
    serde_json::to_string_pretty(&document).unwrap_or_default() + "\n"
}

/// Machine-readable output as YAML.
pub(crate) fn yaml<T: Serialize>(kind: &str, body: &T) -> String {
    let json = json(kind, body);
    let value = serde_json::from_str::<serde_json::Value>(&json).ok();
    // If the conversion to YAML fails, the JSON text is printed, since JSON is YAML, too.
    value.and_then(|value| serde_saphyr::to_string(&value).ok()).unwrap_or(json)
}

/// Objects by `KIND/NAME`, each object once, as `kubectl -o name` prints them.
pub(crate) fn names<K: AsRef<str>, N: AsRef<str>>(objects: impl IntoIterator<Item = (K, N)>) -> String {
    let mut lines: Vec<String> = Vec::new();
    for (kind, name) in objects {
        let line = format!("{}/{}\n", resource(kind.as_ref()), name.as_ref());
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    lines.concat()
}

/// The resource in kubectl's notation. Pods that a monitor selects itself are shown by the monitor.
fn resource(kind: &str) -> String {
    let group = match kind {
        "CopyratorRule" | "ConfigMonitor" | "ConfigPolicy" | "CopyratorTemplate" => ".copyrator.dev",
        "Deployment" | "StatefulSet" | "DaemonSet" => ".apps",
        "Pods" => return "configmonitor.copyrator.dev".into(),
        _ => "",
    };
    kind.to_lowercase() + group
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_machines_read_says_what_it_is() {
        #[derive(Serialize)]
        struct Body {
            items: Vec<u8>,
        }
        let body = Body { items: vec![1] };
        let expected = "{\n  \"apiVersion\": \"cli.copyrator.dev/v1alpha1\",\n  \"kind\": \"Status\",\n  \"items\": [\n    1\n  ]\n}\n";
        assert_eq!(json("Status", &body), expected);
        let yaml: serde_json::Value = serde_saphyr::from_str(&yaml("Status", &body)).unwrap();
        assert_eq!(yaml, serde_json::from_str::<serde_json::Value>(expected).unwrap());
    }

    #[test]
    fn names_are_what_kubectl_takes() {
        let rows =
            [("Secret", "a"), ("Deployment", "web"), ("Secret", "a"), ("CopyratorRule", "r"), ("Pods", "m")];
        let expected =
            "secret/a\ndeployment.apps/web\ncopyratorrule.copyrator.dev/r\nconfigmonitor.copyrator.dev/m\n";
        assert_eq!(names(rows), expected);
    }
}
