//! The fields of a template whose values come from expressions, and the paths that expressions read of the
//! instance.

use super::{
    CompiledObject, CompiledTemplate,
    node::{Node, Segment, below},
};

/// A field of an object whose value comes from expressions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrittenField {
    /// The field's path in the manifest, such as `spec.replicas`.
    pub path: String,
    /// The text of the field in the template, such as `${object.spec.size}`.
    pub text: String,
}

impl CompiledObject {
    /// Returns every field whose value comes from expressions, in order; `includeWhen` first.
    pub fn written_fields(&self) -> Vec<WrittenField> {
        let include = self.include.iter();
        let include = include
            .map(|formula| WrittenField { path: "includeWhen".into(), text: formula.source.to_string() });
        let mut fields: Vec<WrittenField> = include.collect();
        gather(&self.body, String::new(), &mut fields);
        fields
    }
}

impl CompiledTemplate {
    /// Returns the paths that expressions read of the object that the template is rendered for, such as
    /// `object.spec.size`; none for a template that is rendered for namespaces.
    pub fn object_paths(&self) -> Vec<String> {
        let path = |steps: &Vec<String>| steps.iter().fold("object".to_owned(), |at, step| below(&at, step));
        self.reads_object.iter().map(path).collect()
    }
}

fn gather(node: &Node, at: String, fields: &mut Vec<WrittenField>) {
    let of = |source: &str| format!("${{{source}}}");
    match node {
        Node::Literal(_) => {}
        Node::Whole(formula, _) => fields.push(WrittenField { path: at, text: of(&formula.source) }),
        Node::Text(segments) => {
            let text = segments.iter().map(|segment| match segment {
                // The path is escaped, as in the template.
                Segment::Literal(text) => text.replace("${", "$${"),
                Segment::Expression(formula) => of(&formula.source),
            });
            fields.push(WrittenField { path: at, text: text.collect() });
        }
        Node::Fields(all) => all.iter().for_each(|(name, node)| gather(node, below(&at, name), fields)),
        Node::Items(all) => {
            all.iter().enumerate().for_each(|(index, node)| gather(node, format!("{at}[{index}]"), fields));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_are_told_as_the_template_writes_them() {
        let spec = json!({
            "forEach": {"objects": {"apiVersion": "cache.example.com/v1", "kind": "Memcached", "resource": "memcacheds"}},
            "objects": [{"id": "deploy", "includeWhen": "object.spec.size > 0", "template": {
                "apiVersion": "apps/v1", "kind": "Deployment",
                "metadata": {"name": "${object.metadata.name}", "labels": {"app": "memcached"}},
                "spec": {
                    "replicas": "${object.spec.size}",
                    "selector": {"matchLabels": {"app": "memcached"}},
                    "template": {"metadata": {"labels": {"app": "memcached"}}, "spec": {"containers": [
                        {"name": "memcached", "image": "memcached:1.6", "args": ["-m", "${string(object.spec.memory)}m"]},
                    ]}},
                },
            }}],
        });
        let template = CompiledTemplate::compile(&serde_json::from_value(spec).unwrap()).unwrap();
        let told: Vec<String> = template.objects[0]
            .written_fields()
            .iter()
            .map(|field| format!("{}: {}", field.path, field.text))
            .collect();
        assert_eq!(
            told,
            [
                "includeWhen: object.spec.size > 0",
                "metadata.name: ${object.metadata.name}",
                "spec.replicas: ${object.spec.size}",
                "spec.template.spec.containers[0].args[1]: ${string(object.spec.memory)}m",
            ]
        );
        assert_eq!(
            template.object_paths(),
            ["object.metadata.name", "object.spec.memory", "object.spec.size"]
        );
    }
}
