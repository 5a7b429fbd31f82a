//! A JetStream sink's settings as plain data, and the template of its subjects.

use std::fmt::Write as _;
use std::str::FromStr;
use std::time::Duration;

use crate::event::Event;
use crate::sink::Mode;

/// How a stream is published to.
#[derive(Clone, Debug)]
pub struct NatsConfig {
    /// `nats://host:port`, one or more of a cluster.
    pub servers: Vec<String>,
    /// The stream that has to store the events; another one does not count.
    pub stream: String,
    /// The subjects.
    pub subject: SubjectTemplate,
    /// Structured or binary.
    pub mode: Mode,
    /// An attempt is given up after this long; the event may still have been stored.
    pub timeout: Duration,
}

/// A subject with `{cluster} {group} {resource} {kind} {namespace} {name}` in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubjectTemplate(Vec<Part>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    Attribute(&'static str),
    Resource,
}

/// A text that is no subject template.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SubjectError {
    /// A brace without its counterpart.
    #[error("a brace is not closed")]
    Unclosed,
    /// A token that does not exist.
    #[error("the token {{{0}}} does not exist; known are cluster, group, resource, kind, namespace and name")]
    UnknownToken(String),
    /// A character that a subject to publish to may not have.
    #[error("a subject may not contain {0:?}")]
    Character(char),
}

impl FromStr for SubjectTemplate {
    type Err = SubjectError;

    fn from_str(text: &str) -> Result<Self, SubjectError> {
        let mut parts = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            if let Some(token) = rest.strip_prefix('{') {
                let (token, after) = token.split_once('}').ok_or(SubjectError::Unclosed)?;
                parts.push(match token {
                    "cluster" => Part::Attribute("cluster"),
                    "group" => Part::Attribute("apigroup"),
                    "kind" => Part::Attribute("kind"),
                    "namespace" => Part::Attribute("namespace"),
                    "name" => Part::Attribute("name"),
                    "resource" => Part::Resource,
                    other => return Err(SubjectError::UnknownToken(other.to_owned())),
                });
                rest = after;
            } else {
                let end = rest.find('{').unwrap_or(rest.len());
                let literal = &rest[..end];
                if let Some(wrong) = literal.chars().find(|c| c.is_whitespace() || matches!(c, '*' | '>' | '}')) {
                    return Err(SubjectError::Character(wrong));
                }
                parts.push(Part::Text(literal.to_owned()));
                rest = &rest[end..];
            }
        }
        Ok(Self(parts))
    }
}

impl SubjectTemplate {
    /// The subject of an event. What is filled in stays one token, whatever characters it has; nothing becomes `_`.
    pub fn render(&self, event: &Event) -> String {
        let mut subject = String::new();
        for part in &self.0 {
            match part {
                Part::Text(text) => subject.push_str(text),
                Part::Attribute(name) => push_token(&mut subject, event.attribute(name).unwrap_or_default()),
                Part::Resource => {
                    let source = event.attribute("source").unwrap_or_default();
                    push_token(&mut subject, source.rsplit('/').next().unwrap_or_default());
                }
            }
        }
        subject
    }
}

/// Dots separate tokens, and names of Kubernetes have dots: they are percent-encoded, as is whatever else would split or
/// widen a subject.
fn push_token(subject: &mut String, value: &str) {
    if value.is_empty() {
        subject.push('_');
    }
    for byte in value.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_') {
            subject.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(subject, "%{byte:02X}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::sample;

    #[test]
    fn what_is_filled_in_stays_one_token() {
        let template: SubjectTemplate = "cr.{group}.{resource}.{namespace}.{name}".parse().unwrap();
        assert_eq!(template.render(&sample("shop.v1")), "cr.example%2Ecom.myapps.team-a.shop%2Ev1");
    }

    #[test]
    fn what_is_no_template_is_refused() {
        for (text, error) in [
            ("cr.{name", SubjectError::Unclosed),
            ("cr.{nmae}", SubjectError::UnknownToken("nmae".into())),
            ("cr.>", SubjectError::Character('>')),
            ("c r", SubjectError::Character(' ')),
        ] {
            assert_eq!(text.parse::<SubjectTemplate>(), Err(error), "{text}");
        }
    }
}
