//! Makes transcripts of two servers comparable: uids and resourceVersions become ordinals, times a letter. Nothing that
//! a client could rely on is hidden.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

/// Marks around a resourceVersion in a draft, which becomes an ordinal when all are known.
const WRITE: &str = "\u{1}";
const AT: &str = "\u{2}";

/// Notes what was seen, and replaces it in the end.
#[derive(Default)]
pub(super) struct Normal {
    uids: Vec<String>,
    writes: BTreeSet<u64>,
}

impl Normal {
    /// A draft of a JSON text; other text as it is.
    pub(super) fn draft(&mut self, text: &str) -> String {
        match serde_json::from_str::<Value>(text) {
            Ok(value) => self.draft_value(&value),
            Err(_) => text.trim_end().to_owned(),
        }
    }

    pub(super) fn draft_value(&mut self, value: &Value) -> String {
        self.replace(value, "").to_string()
    }

    /// The same for a text whose order of members matters. Both servers' field managers differ by nature, so that part
    /// is cut out.
    pub(super) fn draft_raw(&mut self, text: &str) -> String {
        let mut text = text.trim_end().to_owned();
        while let Some(start) = text.find("\"managedFields\":[") {
            let mut depth = 0;
            let length = text[start..].find(|letter| {
                depth += i32::from(matches!(letter, '[' | '{')) - i32::from(matches!(letter, ']' | '}'));
                depth == 0 && matches!(letter, ']')
            });
            let mut end = start + length.unwrap_or(0) + 1;
            if text[end..].starts_with(',') {
                end += 1;
            }
            text.replace_range(start..end, "");
        }
        let pieces = text.split('"').map(|piece| self.text(piece));
        let text = pieces.collect::<Vec<_>>().join("\"").replace(",}", "}");
        // What is a number in quotes is a version.
        let number = |piece: &str| !piece.is_empty() && piece.bytes().all(|byte| byte.is_ascii_digit());
        text.split('"').map(|piece| if number(piece) { "#" } else { piece }).collect::<Vec<_>>().join("\"")
    }

    fn replace(&mut self, value: &Value, name: &str) -> Value {
        match value {
            Value::Object(members) => self.replace_object(members),
            Value::Array(items) => items.iter().map(|item| self.replace(item, "")).collect(),
            // Tokens hold a revision.
            Value::String(text) if name == "continue" && !text.is_empty() => "a token".into(),
            Value::String(text) if name == "message" => self.message(text).into(),
            Value::String(text) => self.text(text).into(),
            other => other.clone(),
        }
    }

    fn replace_object(&mut self, members: &Map<String, Value>) -> Value {
        // Only states of objects have a version of a write: lists and bookmarks have one of a moment, which other kinds'
        // writes move, and there are always some on a real server.
        let is_write = members.contains_key("uid");
        let replaced = members.iter().map(|(name, member)| {
            let version = member.as_str().filter(|_| name == "resourceVersion").and_then(|text| text.parse().ok());
            let member = match version {
                Some(version) if is_write => {
                    self.writes.insert(version);
                    format!("{WRITE}{version}{WRITE}").into()
                }
                Some(version) => format!("{AT}{version}{AT}").into(),
                // A hash of how the server stores a kind; and who set which field, of which the model has only the
                // frame: one writer, no fields.
                None if name == "storageVersionHash" || name == "managedFields" => Value::Null,
                None => self.replace(member, name),
            };
            (name.clone(), member)
        });
        let mut sorted: Vec<(String, Value)> = replaced.filter(|(_, member)| !member.is_null()).collect();
        // Sorted here, so that the comparison does not depend on how serde_json was built.
        sorted.sort_by(|(left, _), (right, _)| left.cmp(right));
        Value::Object(sorted.into_iter().collect())
    }

    fn text(&mut self, text: &str) -> String {
        if is_uid(text) {
            let known = self.uids.iter().position(|uid| uid == text);
            let number = known.unwrap_or_else(|| {
                self.uids.push(text.to_owned());
                self.uids.len() - 1
            });
            return format!("uid {}", number + 1);
        }
        if is_time(text) { "a time".to_owned() } else { text.to_owned() }
    }

    /// Texts name revisions and uids: what is asked is in the transcript already, and what is current moves.
    fn message(&mut self, text: &str) -> String {
        let words =
            text.split_inclusive(|letter: char| !letter.is_ascii_alphanumeric() && letter != '-' && letter != '.');
        let replaced = words.map(|word| {
            let end =
                word.len() - word.chars().last().filter(|last| !last.is_ascii_alphanumeric()).map_or(0, char::len_utf8);
            let (bare, rest) = word.split_at(end);
            let number = !bare.is_empty() && bare.bytes().all(|byte| byte.is_ascii_digit());
            if number { format!("#{rest}") } else { format!("{}{rest}", self.text(bare)) }
        });
        replaced.collect()
    }

    /// Replaces the marked versions in a draft by their place among all writes that were seen.
    pub(super) fn finish(&self, draft: &str) -> String {
        let ordinal = |digits: &str| {
            let version: u64 = digits.parse().unwrap_or(0);
            self.writes.range(..=version).count()
        };
        let mut text = String::new();
        for (number, piece) in draft.split(WRITE_ESCAPED).enumerate() {
            if number % 2 == 1 {
                text.push_str(&format!("write {}", ordinal(piece)));
            } else {
                text.push_str(piece);
            }
        }
        let mut finished = String::new();
        for (number, piece) in text.split(AT_ESCAPED).enumerate() {
            if number % 2 == 1 {
                finished.push_str(&format!("at or after write {}", ordinal(piece)));
            } else {
                finished.push_str(piece);
            }
        }
        finished
    }
}

/// The marks as JSON text has them.
const WRITE_ESCAPED: &str = "\\u0001";
const AT_ESCAPED: &str = "\\u0002";

fn is_uid(text: &str) -> bool {
    text.len() == 36
        && text.bytes().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}

fn is_time(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.len() == 20 && bytes[10] == b'T' && bytes[19] == b'Z' && bytes[..4].iter().all(u8::is_ascii_digit)
}
