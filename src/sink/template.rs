//! Names of topics and subjects with tokens of the event in them. What a protocol allows in a name is the caller's
//! knowledge.

use crate::event::Event;

/// A name with `{cluster} {group} {resource} {kind} {namespace} {name}` in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template(Vec<Part>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    Attribute(&'static str),
    Resource,
}

/// A text that is no template.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// A brace without its counterpart.
    #[error("a brace is not closed")]
    Unclosed,
    /// A token that does not exist.
    #[error("the token {{{0}}} does not exist; known are cluster, group, resource, kind, namespace and name")]
    UnknownToken(String),
    /// A character that such a name may not have.
    #[error("the name may not contain {0:?}")]
    Character(char),
    /// Two separators with nothing between them, or one at an end.
    #[error("a part of the name is empty")]
    EmptyToken,
    /// A name that belongs to the server.
    #[error("names that begin with `$` belong to the server")]
    Reserved,
}

impl Template {
    /// Reads a template whose text outside of tokens has only characters that `allowed` names.
    ///
    /// # Errors
    /// When a brace is not closed, a token is not known or a character not allowed.
    pub fn parse(text: &str, allowed: impl Fn(char) -> bool) -> Result<Self, TemplateError> {
        let mut parts = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            if let Some(token) = rest.strip_prefix('{') {
                let (token, after) = token.split_once('}').ok_or(TemplateError::Unclosed)?;
                parts.push(match token {
                    "cluster" => Part::Attribute("cluster"),
                    "group" => Part::Attribute("apigroup"),
                    "kind" => Part::Attribute("kind"),
                    "namespace" => Part::Attribute("namespace"),
                    "name" => Part::Attribute("name"),
                    "resource" => Part::Resource,
                    other => return Err(TemplateError::UnknownToken(other.to_owned())),
                });
                rest = after;
            } else {
                let (literal, after) = rest.split_at(rest.find('{').unwrap_or(rest.len()));
                if let Some(wrong) = literal.chars().find(|character| !allowed(*character)) {
                    return Err(TemplateError::Character(wrong));
                }
                parts.push(Part::Text(literal.to_owned()));
                rest = after;
            }
        }
        Ok(Self(parts))
    }

    /// The name for an event; `push` writes a filled-in value so that the name stays legal. What is absent becomes `_`.
    pub fn render(&self, event: &Event, push: impl Fn(&mut String, &str)) -> String {
        let mut name = String::new();
        for part in &self.0 {
            let value = match part {
                Part::Text(text) => {
                    name.push_str(text);
                    continue;
                }
                Part::Attribute(attribute) => event.attribute(attribute).unwrap_or_default(),
                Part::Resource => event.attribute("source").unwrap_or_default().rsplit('/').next().unwrap_or_default(),
            };
            push(&mut name, if value.is_empty() { "_" } else { value });
        }
        name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_template_is_refused() {
        for (text, error) in [
            ("cr.{name", TemplateError::Unclosed),
            ("cr.{nmae}", TemplateError::UnknownToken("nmae".into())),
            ("cr.>", TemplateError::Character('>')),
        ] {
            assert_eq!(Template::parse(text, |character| character != '>'), Err(error), "{text}");
        }
    }
}
