//! Label and field selectors, and which objects of a collection they choose.

use serde_json::Value;

use super::kind::Kind;
use super::refusal::Refusal;
use super::state::State;

/// Which objects of a kind a list or a watch is about.
#[derive(Clone, Debug, Default)]
pub(super) struct Selection {
    /// `namespace/`, or empty for all.
    prefix: String,
    labels: Vec<Requirement>,
    fields: Vec<(Field, bool, String)>,
}

#[derive(Clone, Debug)]
struct Requirement {
    label: String,
    test: Test,
}

#[derive(Clone, Debug)]
enum Test {
    Exists,
    Absent,
    In(Vec<String>),
    /// True for objects without the label, too.
    NotIn(Vec<String>),
}

#[derive(Clone, Debug)]
enum Field {
    Name,
    Namespace,
    /// Member names from the top of the object.
    Path(Vec<String>),
}

impl Selection {
    pub(super) fn new(
        kind: &Kind,
        version: &str,
        namespace: Option<&str>,
        labels: &str,
        fields: &str,
    ) -> Result<Self, Refusal> {
        let prefix = namespace.map(|namespace| format!("{namespace}/")).unwrap_or_default();
        Ok(Self { prefix, labels: parse_labels(labels)?, fields: parse_fields(kind, version, fields)? })
    }

    /// Whether there is more to it than the namespace.
    pub(super) fn is_filtered(&self) -> bool {
        !self.labels.is_empty() || !self.fields.is_empty()
    }

    pub(super) fn prefix(&self) -> &str {
        &self.prefix
    }

    pub(super) fn matches(&self, state: &State) -> bool {
        state.key.starts_with(&self.prefix)
            && self.labels.iter().all(|requirement| requirement.matches(&state.value["metadata"]["labels"]))
            && self.fields.iter().all(|(field, equal, wanted)| (field.of(&state.value) == *wanted) == *equal)
    }
}

impl Requirement {
    fn matches(&self, labels: &Value) -> bool {
        let value = labels.get(&self.label).and_then(Value::as_str);
        match &self.test {
            Test::Exists => value.is_some(),
            Test::Absent => value.is_none(),
            Test::In(values) => value.is_some_and(|value| values.iter().any(|wanted| wanted == value)),
            Test::NotIn(values) => value.is_none_or(|value| !values.iter().any(|wanted| wanted == value)),
        }
    }
}

impl Field {
    fn of(&self, value: &Value) -> String {
        let text = |value: &Value| match value {
            Value::String(text) => text.clone(),
            Value::Bool(_) | Value::Number(_) => value.to_string(),
            _ => String::new(),
        };
        match self {
            Self::Name => text(&value["metadata"]["name"]),
            Self::Namespace => text(&value["metadata"]["namespace"]),
            Self::Path(names) => text(names.iter().fold(value, |value, name| &value[name.as_str()])),
        }
    }
}

/// Splits at commas that stand in no parentheses.
fn terms(text: &str) -> Vec<&str> {
    let (mut found, mut depth, mut start) = (Vec::new(), 0, 0);
    for (at, letter) in text.char_indices() {
        match letter {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => {
                found.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    found.push(&text[start..]);
    found
}

fn parse_labels(text: &str) -> Result<Vec<Requirement>, Refusal> {
    if text.trim().is_empty() {
        return Ok(Vec::new());
    }
    terms(text).into_iter().map(parse_label_term).collect()
}

fn parse_label_term(term: &str) -> Result<Requirement, Refusal> {
    let term = term.trim();
    let refused = |found: &str| {
        Refusal::bad_request(format!("unable to parse requirement: found '{found}', expected: identifier"))
    };
    let requirement = |label: &str, test| match label.trim() {
        "" => Err(refused(term)),
        label if label.contains([' ', '=', '!', '(', ')']) => Err(refused(label)),
        label => Ok(Requirement { label: label.to_owned(), test }),
    };
    let one = |value: &str| match value.trim() {
        value if value.contains(['=', '!', '(', ')', ' ']) => Err(refused(&value[..1])),
        value => Ok(vec![value.to_owned()]),
    };
    if let Some((label, value)) = term.split_once("!=") {
        return requirement(label, Test::NotIn(one(value)?));
    }
    if let Some((label, value)) = term.split_once("==").or_else(|| term.split_once('=')) {
        return requirement(label, Test::In(one(value)?));
    }
    if let Some(label) = term.strip_prefix('!') {
        return requirement(label, Test::Absent);
    }
    let Some((head, values)) = term.split_once('(') else { return requirement(term, Test::Exists) };
    let values = values.trim_end().strip_suffix(')').ok_or_else(|| refused(term))?;
    let values = values.split(',').map(|value| value.trim().to_owned()).collect();
    let head = head.trim();
    match (head.strip_suffix(" notin"), head.strip_suffix(" in")) {
        (Some(label), _) => requirement(label, Test::NotIn(values)),
        (_, Some(label)) => requirement(label, Test::In(values)),
        _ => Err(refused(head)),
    }
}

fn parse_fields(kind: &Kind, version: &str, text: &str) -> Result<Vec<(Field, bool, String)>, Refusal> {
    let parse = |term: &str| {
        let (path, equal, value) = match (term.split_once("!="), term.split_once("==").or_else(|| term.split_once('=')))
        {
            (Some((path, value)), _) => (path, false, value),
            (None, Some((path, value))) => (path, true, value),
            (None, None) => {
                let message = format!("invalid selector: '{text}'; can't understand '{term}'");
                return Err(Refusal::bad_request(message));
            }
        };
        let field = match path {
            "metadata.name" => Field::Name,
            "metadata.namespace" if kind.namespaced => Field::Namespace,
            _ if kind.selects_by(version, path) => Field::Path(path.split('.').map(str::to_owned).collect()),
            _ => return Err(Refusal::bad_request(kind.unsupported_field(path))),
        };
        Ok((field, equal, value.to_owned()))
    };
    text.split(',').filter(|term| !term.is_empty()).map(parse).collect()
}
