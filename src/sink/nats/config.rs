//! A JetStream sink's settings as plain data, and the template of its subjects.

use std::fmt::Write as _;
use std::str::FromStr;
use std::time::Duration;

use crate::event::Event;
use crate::sink::Mode;
use crate::sink::template::{Template, TemplateError};

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
pub struct SubjectTemplate(Template);

impl FromStr for SubjectTemplate {
    type Err = TemplateError;

    fn from_str(text: &str) -> Result<Self, TemplateError> {
        let allowed = |character: char| !character.is_whitespace() && !matches!(character, '*' | '>' | '}');
        let template = Template::parse(text, allowed)?;
        if text.split('.').any(str::is_empty) {
            return Err(TemplateError::EmptyToken);
        }
        if text.starts_with('$') {
            return Err(TemplateError::Reserved);
        }
        Ok(Self(template))
    }
}

impl SubjectTemplate {
    /// The subject of an event. What is filled in stays one token, whatever characters it has.
    pub fn render(&self, event: &Event) -> String {
        self.0.render(event, push_token)
    }
}

/// Dots separate tokens, and names of Kubernetes have dots: they are percent-encoded, as is whatever else would split or
/// widen a subject.
fn push_token(subject: &mut String, value: &str) {
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
    fn wildcards_are_no_subjects_to_publish_to() {
        for (text, wrong) in [("cr.>", '>'), ("cr.*", '*'), ("c r", ' ')] {
            assert_eq!(text.parse::<SubjectTemplate>(), Err(TemplateError::Character(wrong)), "{text}");
        }
        for text in ["cr..{name}", ".cr", "cr."] {
            assert_eq!(text.parse::<SubjectTemplate>(), Err(TemplateError::EmptyToken), "{text}");
        }
        assert_eq!("$SYS.{name}".parse::<SubjectTemplate>(), Err(TemplateError::Reserved));
    }
}
