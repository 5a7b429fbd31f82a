//! Taking a tree of YAML apart by expectation: sections with known keys, and fields with known types. Each expectation
//! that fails is reported and reading goes on. It knows how settings are written, not which there are.

use std::ops::RangeInclusive;

use super::document::{Entry, Node, Value, join};
use super::mistakes::{Position, Report, closest};

/// The keys of a section.
pub(super) struct Keys {
    /// Those that there are.
    pub(super) known: &'static [&'static str],
    /// Those that are designed and not there yet: no typing errors, and to be told so.
    pub(super) later: &'static [&'static str],
}

/// A mapping whose keys are known.
pub(super) struct Section<'a> {
    pub(super) path: String,
    pub(super) position: Position,
    entries: &'a [Entry],
}

/// A value and its path.
pub(super) struct Field<'a> {
    pub(super) path: String,
    pub(super) position: Position,
    node: &'a Node,
}

impl<'a> Section<'a> {
    /// The value of a key, if it is there.
    pub(super) fn optional(&self, key: &str) -> Option<Field<'a>> {
        let entry = self.entries.iter().find(|entry| entry.key == key)?;
        Some(Field::new(join(&self.path, key), &entry.value))
    }

    /// The value of a key that must be there.
    pub(super) fn required(&self, key: &str, hint: &str, report: &mut Report) -> Option<Field<'a>> {
        let field = self.optional(key);
        if field.is_none() {
            report.add(self.position, &join(&self.path, key), "missing", hint);
        }
        field
    }

    /// Reports keys that are not known.
    fn check_keys(&self, keys: &Keys, report: &mut Report) {
        for entry in self.entries.iter().filter(|entry| !keys.known.contains(&entry.key.as_str())) {
            let key = entry.key.as_str();
            let hint = if keys.later.contains(&key) {
                format!("`{key}` is planned; this version does not have it")
            } else if let Some(meant) = closest(key, keys.known.iter().copied()) {
                format!("did you mean `{meant}`?")
            } else if keys.known.is_empty() {
                "nothing can be set here".to_owned()
            } else {
                format!("known here: {}", keys.known.join(", "))
            };
            report.add(entry.position, &join(&self.path, key), "unknown key", hint);
        }
    }
}

impl<'a> Field<'a> {
    pub(super) fn new(path: String, node: &'a Node) -> Self {
        Self { path, position: node.position, node }
    }

    /// Reports a mistake about this value.
    pub(super) fn mistake(&self, message: impl Into<String>, hint: impl Into<String>, report: &mut Report) {
        report.add(self.position, &self.path, message, hint);
    }

    /// Reports that something else is expected here.
    pub(super) fn expected(&self, what: &str, hint: &str, report: &mut Report) {
        self.mistake(format!("expected {what}, found {}", self.node.kind()), hint, report);
    }

    /// A mapping with these keys.
    pub(super) fn section(&self, keys: &Keys, hint: &str, report: &mut Report) -> Option<Section<'a>> {
        let Value::Map(entries) = &self.node.value else {
            self.expected("a mapping", hint, report);
            return None;
        };
        let section = Section { path: self.path.clone(), position: self.position, entries };
        section.check_keys(keys, report);
        Some(section)
    }

    /// A mapping whose keys the user chooses: each key, its place, its value.
    pub(super) fn entries(&self, hint: &str, report: &mut Report) -> Option<Vec<(&'a str, Position, Field<'a>)>> {
        let Value::Map(entries) = &self.node.value else {
            self.expected("a mapping", hint, report);
            return None;
        };
        let field = |entry: &'a Entry| Field::new(join(&self.path, &entry.key), &entry.value);
        Some(entries.iter().map(|entry| (entry.key.as_str(), entry.position, field(entry))).collect())
    }

    /// A list of one or more values.
    pub(super) fn items(&self, hint: &str, report: &mut Report) -> Option<Vec<Field<'a>>> {
        let Value::List(items) = &self.node.value else {
            self.expected("a list", hint, report);
            return None;
        };
        if items.is_empty() {
            self.mistake("an empty list", hint, report);
            return None;
        }
        let field = |(number, item)| Field::new(format!("{}[{number}]", self.path), item);
        Some(items.iter().enumerate().map(field).collect())
    }

    /// A list of one or more values, each there once, read one by one; `None` when one of them was wrong.
    pub(super) fn distinct<T: PartialEq>(
        &self,
        hint: &str,
        report: &mut Report,
        read: impl Fn(&Field<'a>, &mut Report) -> Option<T>,
    ) -> Option<Vec<T>> {
        let mut values: Vec<T> = Vec::new();
        let mut complete = true;
        for item in self.items(hint, report)? {
            match read(&item, report) {
                Some(value) if values.contains(&value) => item.mistake("given twice", "remove one of the two", report),
                Some(value) => values.push(value),
                None => complete = false,
            }
        }
        complete.then_some(values)
    }

    /// Whether this is the given word.
    pub(super) fn is_text(&self, word: &str) -> bool {
        matches!(&self.node.value, Value::Text(text) if text == word)
    }

    /// Whether this is a list of nothing, for where that is a choice.
    pub(super) fn is_empty_list(&self) -> bool {
        matches!(&self.node.value, Value::List(items) if items.is_empty())
    }

    /// Whether this is a number.
    pub(super) fn is_number(&self) -> bool {
        matches!(self.node.value, Value::Integer(_) | Value::Float)
    }

    /// Whether this is a mapping.
    pub(super) fn is_mapping(&self) -> bool {
        matches!(self.node.value, Value::Map(_))
    }

    /// Text that is not empty.
    pub(super) fn text(&self, report: &mut Report) -> Option<&'a str> {
        match &self.node.value {
            Value::Text(text) if text.is_empty() => {
                self.mistake("an empty text", "give a value, or remove the key", report);
                None
            }
            Value::Text(text) => Some(text),
            Value::Null => {
                self.expected("text", "give a value, or remove the key", report);
                None
            }
            Value::List(_) | Value::Map(_) => {
                self.expected("text", "write one value", report);
                None
            }
            Value::Boolean(_) | Value::Integer(_) | Value::Float | Value::Tagged => {
                self.expected("text", "put the value in quotes", report);
                None
            }
        }
    }

    /// A whole number within these bounds.
    pub(super) fn integer(&self, bounds: RangeInclusive<u32>, report: &mut Report) -> Option<u32> {
        let hint = format!("write a whole number from {} to {}", bounds.start(), bounds.end());
        let Value::Integer(number) = self.node.value else {
            self.expected("a whole number", &hint, report);
            return None;
        };
        let number_in_bounds = u32::try_from(number).ok().filter(|number| bounds.contains(number));
        if number_in_bounds.is_none() {
            self.mistake(format!("{number} is out of bounds"), hint, report);
        }
        number_in_bounds
    }

    /// `true` or `false`.
    pub(super) fn boolean(&self, report: &mut Report) -> Option<bool> {
        let Value::Boolean(value) = self.node.value else {
            self.expected("true or false", "write true or false, without quotes", report);
            return None;
        };
        Some(value)
    }

    /// One of these words.
    pub(super) fn choice<T: Copy>(&self, words: &[(&str, T)], later: &[&str], report: &mut Report) -> Option<T> {
        let text = self.text(report)?;
        let found = words.iter().find(|(word, _)| *word == text).map(|(_, value)| *value);
        if found.is_none() {
            let names: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
            let hint = if later.contains(&text) {
                format!("`{text}` is planned; this version has {}", names.join(", "))
            } else if let Some(meant) = closest(text, names.iter().copied()) {
                format!("did you mean `{meant}`?")
            } else {
                format!("one of {}", names.join(", "))
            };
            self.mistake(format!("unknown value `{text}`"), hint, report);
        }
        found
    }
}
