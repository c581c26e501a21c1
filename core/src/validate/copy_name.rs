//! The template of a copy's name, which works in both directions. From a source, the template gives the name
//! of the copy. From the name of a copy, the template gives the only possible source, without a search
//! through all sources.

const NAME: &str = "{name}";
const NAMESPACE: &str = "{namespace}";

/// The template of the names of a rule's copies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyName(Vec<Part>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    Name,
    Namespace,
}

/// The objects of one namespace whose copy has a certain name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gives<'a> {
    /// Only the object of this name.
    One(&'a str),
    /// Any object: the template does not contain the source's name.
    Any,
}

impl CopyName {
    /// Reads a template; all text except the placeholders is literal.
    pub fn new(template: &str) -> Self {
        let mut parts = Vec::new();
        let mut rest = template;
        while !rest.is_empty() {
            let name = rest.find(NAME).map(|at| (at, NAME, Part::Name));
            let namespace = rest.find(NAMESPACE).map(|at| (at, NAMESPACE, Part::Namespace));
            let Some((at, placeholder, part)) =
                [name, namespace].into_iter().flatten().min_by_key(|(at, ..)| *at)
            else {
                parts.push(Part::Text(rest.to_owned()));
                break;
            };
            if at > 0 {
                parts.push(Part::Text(rest[..at].to_owned()));
            }
            parts.push(part);
            rest = &rest[at + placeholder.len()..];
        }
        Self(parts)
    }

    /// The name that a source's copy gets.
    pub fn of(&self, namespace: &str, name: &str) -> String {
        self.0.iter().map(|part| part.of(namespace, name)).collect()
    }

    /// The objects of a namespace whose copies have this name; `None` if no object can.
    pub fn gives<'a>(&self, namespace: &str, copy: &'a str) -> Option<Gives<'a>> {
        let times = self.0.iter().filter(|part| matches!(part, Part::Name)).count();
        let fixed: usize = self.0.iter().map(|part| part.of(namespace, "").len()).sum();
        let names = copy.len().checked_sub(fixed)?;
        let length = match times {
            0 => (names == 0).then_some(0)?,
            times => (names > 0 && names.is_multiple_of(times)).then_some(names / times)?,
        };
        let (mut rest, mut name) = (copy, None);
        for part in &self.0 {
            let found = match (part, name) {
                (Part::Name, None) => *name.insert(rest.get(..length)?),
                (Part::Name, Some(name)) => name,
                _ => part.of(namespace, ""),
            };
            rest = rest.strip_prefix(found)?;
        }
        Some(name.map_or(Gives::Any, Gives::One))
    }

    /// Whether the template lacks the source's name, so that all sources of a namespace share one copy name.
    pub fn is_constant(&self) -> bool {
        !self.0.iter().any(|part| matches!(part, Part::Name))
    }
}

impl Part {
    fn of<'a>(&'a self, namespace: &'a str, name: &'a str) -> &'a str {
        match self {
            Self::Text(text) => text,
            Self::Name => name,
            Self::Namespace => namespace,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The test compares the result with computing the copy's name for every object.
    #[test]
    fn the_one_source_is_found_from_the_name_of_its_copy() {
        let names = ["a", "b", "aa", "ab", "a-a", "aaa", "b-a-b", "home", "home-a"];
        for template in [
            "{name}",
            "x-{name}",
            "{name}-x",
            "{namespace}-{name}",
            "{name}-{namespace}",
            "{name}{name}",
            "{name}-{name}",
            "{name}-{namespace}-{name}.{namespace}",
            "{namespace}",
            "a",
            "{namespace}-a",
        ] {
            let compiled = CopyName::new(template);
            for namespace in ["home", "a"] {
                let copies = names.map(|name| compiled.of(namespace, name));
                let by_hand = template.replace("{name}", names[2]).replace("{namespace}", namespace);
                assert_eq!(copies[2], by_hand, "{template}");
                for copy in copies.iter().map(String::as_str).chain(names).chain(["", "é", "aé", "éé"]) {
                    let expected: Vec<_> =
                        names.iter().filter(|name| compiled.of(namespace, name) == copy).collect();
                    let found: Vec<_> = match compiled.gives(namespace, copy) {
                        None => Vec::new(),
                        Some(Gives::Any) => names.iter().collect(),
                        Some(Gives::One(one)) => names.iter().filter(|name| **name == one).collect(),
                    };
                    assert_eq!(found, expected, "{template} in {namespace}: {copy}");
                }
            }
        }
    }
}
