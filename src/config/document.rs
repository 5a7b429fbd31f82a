//! A YAML text as a tree in which every key and value knows its place. It knows no key of crier's.

use std::collections::HashMap;

use saphyr::{LoadableYamlNode, MarkedYaml, Marker, Scalar, ScanError, YamlData};

use super::mistakes::{Position, Report};

/// What the YAML loader says of the second of two equal keys.
const DUPLICATE: &str = "duplicated key in mapping";
/// Each duplicate costs one more pass over the text, so that a file of nothing else must not take for ever.
const DUPLICATES_AT_MOST: usize = 100;

/// A value and its place.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) position: Position,
    pub(super) value: Value,
}

#[derive(Debug)]
pub(super) enum Value {
    Null,
    Boolean(bool),
    Integer(i64),
    Float,
    Text(String),
    List(Vec<Node>),
    Map(Vec<Entry>),
    /// A tag of its own, or a value that does not fit its tag.
    Tagged,
}

/// A key and its value.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) key: String,
    pub(super) position: Position,
    pub(super) value: Node,
}

impl Node {
    /// The kind of value, for people.
    pub(super) fn kind(&self) -> &'static str {
        match self.value {
            Value::Null => "nothing",
            Value::Boolean(_) => "a boolean",
            Value::Integer(_) | Value::Float => "a number",
            Value::Text(_) => "text",
            Value::List(_) => "a list",
            Value::Map(_) => "a mapping",
            Value::Tagged => "a tagged value",
        }
    }
}

/// Reads the text; `None` when there is nothing to go on with, which is then reported.
pub(super) fn read(text: &str, report: &mut Report) -> Option<Node> {
    let (documents, duplicates) = load(text, report)?;
    let start = Position { line: 1, column: 1 };
    if let Some(second) = documents.get(1) {
        report.add(
            position(&second.span.start),
            "",
            "a second document begins here",
            "one file is one configuration: remove the line `---` or the rest of the file",
        );
    }
    match documents.first().map(|document| convert(document, "", &duplicates, report)) {
        Some(node) if !matches!(node.value, Value::Null) => Some(node),
        _ => {
            report.add(
                start,
                "",
                "the file is empty",
                "`state`, `sinks` and `routes` are needed; see config/crier.yaml",
            );
            None
        }
    }
}

/// Second keys by place, with their first letter as it was.
type Duplicates = HashMap<Position, char>;

/// The loader stops at the first key that is there twice, and one mistake must not hide the others. So such a key gets
/// another first letter, its place is noted, and the text is loaded again; no place moves by this.
fn load(text: &str, report: &mut Report) -> Option<(Vec<MarkedYaml<'static>>, Duplicates)> {
    let mut letters: Vec<char> = text.chars().collect();
    let mut unused = ('\u{e000}'..='\u{f8ff}').filter(|letter| !text.contains(*letter));
    let mut duplicates = Duplicates::new();
    loop {
        let error = match MarkedYaml::load_from_iter(letters.iter().copied()) {
            Ok(documents) => return Some((documents, duplicates)),
            Err(error) => error,
        };
        let place = position(error.marker());
        let is_new_duplicate =
            error.info() == DUPLICATE && duplicates.len() < DUPLICATES_AT_MOST && !duplicates.contains_key(&place);
        let letter = unused.next().filter(|_| is_new_duplicate);
        let marked = letter.and_then(|letter| mark(&mut letters, &error, letter));
        match marked {
            Some(letter) => {
                duplicates.insert(place, letter);
            }
            None => {
                report_unreadable(&error, &duplicates, report);
                return None;
            }
        }
    }
}

/// Replaces the first letter of the key at this place and returns what it was.
fn mark(letters: &mut [char], error: &ScanError, with: char) -> Option<char> {
    let first = error.marker().index();
    let quoted = matches!(letters.get(first)?, '"' | '\'');
    let letter = letters.get_mut(first + usize::from(quoted))?;
    Some(std::mem::replace(letter, with))
}

fn report_unreadable(error: &ScanError, duplicates: &Duplicates, report: &mut Report) {
    // After a key was marked the text is no longer what the user wrote, so that an error of syntax may be ours.
    for place in duplicates.keys() {
        report.add(*place, "", "duplicate key", "remove one of the two; the rest of the file was not checked");
    }
    if error.info() == DUPLICATE {
        report.add(
            position(error.marker()),
            "",
            "duplicate key",
            "remove one of the two; the rest of the file was not checked",
        );
    } else if duplicates.is_empty() {
        report.add(
            position(error.marker()),
            "",
            format!("not YAML: {}", error.info()),
            "look at quotes, brackets and indentation here and on the line before; the rest of the file was not checked",
        );
    }
}

fn position(marker: &Marker) -> Position {
    Position { line: marker.line(), column: marker.col() + 1 }
}

fn convert(node: &MarkedYaml<'_>, path: &str, duplicates: &Duplicates, report: &mut Report) -> Node {
    let value = match &node.data {
        YamlData::Value(Scalar::Null) => Value::Null,
        YamlData::Value(Scalar::Boolean(value)) => Value::Boolean(*value),
        YamlData::Value(Scalar::Integer(number)) => Value::Integer(*number),
        YamlData::Value(Scalar::FloatingPoint(_)) => Value::Float,
        YamlData::Value(Scalar::String(text)) => Value::Text(text.clone().into_owned()),
        YamlData::Sequence(items) => {
            let item = |(number, item)| convert(item, &format!("{path}[{number}]"), duplicates, report);
            Value::List(items.iter().enumerate().map(item).collect())
        }
        YamlData::Mapping(entries) => {
            let mut converted: Vec<Entry> = Vec::new();
            for (key, value) in entries {
                converted.extend(convert_entry(key, value, path, &converted, duplicates, report));
            }
            Value::Map(converted)
        }
        YamlData::Tagged(..) | YamlData::BadValue | YamlData::Alias(_) | YamlData::Representation(..) => Value::Tagged,
    };
    Node { position: position(&node.span.start), value }
}

fn convert_entry(
    key: &MarkedYaml<'_>,
    value: &MarkedYaml<'_>,
    path: &str,
    before: &[Entry],
    duplicates: &Duplicates,
    report: &mut Report,
) -> Option<Entry> {
    let place = position(&key.span.start);
    let YamlData::Value(Scalar::String(name)) = &key.data else {
        report.add(place, path, "a key that is not text", "put the key in quotes");
        return None;
    };
    if let Some(letter) = duplicates.get(&place) {
        let name: String = std::iter::once(*letter).chain(name.chars().skip(1)).collect();
        let message = match before.iter().find(|entry| entry.key == name) {
            Some(first) => format!("duplicate key, first given on line {}", first.position.line),
            None => "duplicate key".to_owned(),
        };
        report.add(place, &join(path, &name), message, "remove one of the two");
        return None;
    }
    let mut value = convert(value, &join(path, name), duplicates, report);
    if matches!(value.value, Value::Null) {
        // Nothing has no place of its own: the loader names wherever the next token begins.
        value.position = place;
    }
    Some(Entry { key: name.clone().into_owned(), position: place, value })
}

/// The path of a key below another.
pub(super) fn join(path: &str, key: &str) -> String {
    let plain = !key.is_empty() && key.chars().all(|letter| letter.is_alphanumeric() || "-_".contains(letter));
    match (path.is_empty(), plain) {
        (true, true) => key.to_owned(),
        (false, true) => format!("{path}.{key}"),
        (_, false) => format!("{path}[{key:?}]"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mistakes(text: &str) -> Vec<String> {
        let mut report = Report::default();
        read(text, &mut report);
        let Err(mistakes) = report.finish("f", None::<()>) else { unreachable!() };
        mistakes
            .all()
            .iter()
            .map(|mistake| {
                let Position { line, column } = mistake.position.unwrap();
                format!("{line}:{column} {} {}", mistake.path, mistake.message)
            })
            .collect()
    }

    #[test]
    fn every_duplicate_key_is_found_in_one_go_whatever_its_quotes() {
        let text = "é: { x: 1, \"x\": 2, 'x': 3 }\nb: 1\nb: 2\n\"é\": 4\nlist: [{ c: 1, c: 2 }]\n";
        assert_eq!(
            mistakes(text),
            [
                "1:12 é.x duplicate key, first given on line 1",
                "1:20 é.x duplicate key, first given on line 1",
                "3:1 b duplicate key, first given on line 2",
                "4:1 é duplicate key, first given on line 1",
                "5:16 list[0].c duplicate key, first given on line 5",
            ]
        );
    }

    #[test]
    fn a_duplicate_key_that_cannot_be_marked_is_still_told() {
        assert_eq!(mistakes("\"\": 1\n\"\": 2\n"), ["2:1  duplicate key"]);
    }

    #[test]
    fn a_file_of_duplicates_ends() {
        let found = mistakes(&"a: 1\n".repeat(1_000));
        assert_eq!(found.len(), DUPLICATES_AT_MOST + 1);
    }

    #[test]
    fn keys_that_are_not_text_are_told_by_the_path_of_their_mapping() {
        assert_eq!(
            mistakes("a:\n  1: x\n  [b]: y\n"),
            ["2:3 a a key that is not text", "3:3 a a key that is not text"]
        );
    }
}
