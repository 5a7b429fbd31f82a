//! Finds the spans of an object's JSON text that remain when some members are left out. Builds no tree and copies
//! nothing.

use std::ops::Range;

use super::path::PathSet;

/// The text is not a JSON object. The API server never sends such; nothing is sent of it, since what was to be left out
/// cannot be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not the text of a JSON object, at byte {0}")]
pub struct SpanError(pub usize);

/// The spans to keep, in order; a single one of the whole text when nothing is left out.
pub(super) fn kept_spans(text: &[u8], omitted: &PathSet) -> Result<Vec<Range<usize>>, SpanError> {
    let mut scanner = Scanner { text, at: 0, cuts: Vec::new() };
    scanner.white_space();
    scanner.object(omitted)?;
    scanner.white_space();
    if scanner.at != text.len() {
        return Err(SpanError(scanner.at));
    }
    let mut kept = Vec::with_capacity(scanner.cuts.len() + 1);
    let mut from = 0;
    for cut in scanner.cuts {
        kept.push(from..cut.start);
        from = cut.end;
    }
    kept.push(from..text.len());
    kept.retain(|span| !span.is_empty());
    Ok(kept)
}

/// Where the value of a top-level member lies.
pub(super) fn member_span(text: &[u8], name: &str) -> Result<Option<Range<usize>>, SpanError> {
    let mut scanner = Scanner { text, at: 0, cuts: Vec::new() };
    scanner.white_space();
    let mut found = None;
    scanner.members(|scanner, key| {
        let start = scanner.at;
        scanner.value()?;
        // Of members with one name the last counts, as for other readers.
        if key_is(key, name) {
            found = Some(start..scanner.at);
        }
        Ok(())
    })?;
    Ok(found)
}

struct Scanner<'a> {
    text: &'a [u8],
    at: usize,
    cuts: Vec<Range<usize>>,
}

fn key_is(raw: &[u8], name: &str) -> bool {
    let inner = &raw[1..raw.len() - 1];
    if inner.contains(&b'\\') {
        return serde_json::from_slice::<String>(raw).is_ok_and(|key| key == name);
    }
    inner == name.as_bytes()
}

impl<'a> Scanner<'a> {
    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn expect(&mut self, byte: u8) -> Result<(), SpanError> {
        if self.peek() != Some(byte) {
            return Err(SpanError(self.at));
        }
        self.at += 1;
        Ok(())
    }

    fn white_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\n' | b'\r' | b'\t')) {
            self.at += 1;
        }
    }

    fn string(&mut self) -> Result<&'a [u8], SpanError> {
        let start = self.at;
        self.expect(b'"')?;
        loop {
            match self.peek().ok_or(SpanError(self.at))? {
                b'"' => break,
                b'\\' => self.at += 2,
                _ => self.at += 1,
            }
        }
        self.at += 1;
        Ok(&self.text[start..self.at])
    }

    /// Steps over a value by counting brackets, without looking into it.
    fn value(&mut self) -> Result<(), SpanError> {
        let mut depth = 0_usize;
        loop {
            match self.peek().ok_or(SpanError(self.at))? {
                b'"' => {
                    self.string()?;
                }
                b'{' | b'[' => {
                    depth += 1;
                    self.at += 1;
                }
                b'}' | b']' => {
                    depth = depth.checked_sub(1).ok_or(SpanError(self.at))?;
                    self.at += 1;
                }
                b',' | b':' | b' ' | b'\n' | b'\r' | b'\t' if depth > 0 => self.at += 1,
                b',' | b':' | b' ' | b'\n' | b'\r' | b'\t' => return Err(SpanError(self.at)),
                _ => {
                    let end = |byte: &u8| matches!(byte, b',' | b'}' | b']' | b' ' | b'\n' | b'\r' | b'\t' | b'"');
                    let rest = &self.text[self.at..];
                    self.at += rest.iter().position(end).unwrap_or(rest.len());
                }
            }
            if depth == 0 {
                return Ok(());
            }
        }
    }

    /// Walks an object's members; `visit` is called at each value and has to step over it.
    fn members(
        &mut self,
        mut visit: impl FnMut(&mut Self, &'a [u8]) -> Result<(), SpanError>,
    ) -> Result<(), SpanError> {
        self.expect(b'{')?;
        self.white_space();
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(());
        }
        loop {
            self.white_space();
            let key = self.string()?;
            self.white_space();
            self.expect(b':')?;
            self.white_space();
            visit(self, key)?;
            self.white_space();
            match self.peek() {
                Some(b',') => self.at += 1,
                _ => return self.expect(b'}'),
            }
        }
    }

    fn object(&mut self, omitted: &PathSet) -> Result<(), SpanError> {
        let text = self.text;
        let start_of = |key: &[u8]| key.as_ptr().addr() - text.as_ptr().addr();
        // Where the last member ended, whether any was kept, and where a cut that waits for the next member began.
        let (mut previous_end, mut kept_any, mut open_cut) = (0, false, None::<Range<usize>>);
        self.members(|scanner, key| {
            let start = start_of(key);
            // Members cut at the front take the comma behind them along, up to where this one begins.
            if let Some(cut) = open_cut.take() {
                scanner.cuts.push(cut.start..start);
            }
            let below = omitted.members.iter().find(|(name, _)| key_is(key, name)).map(|(_, below)| below);
            match below {
                Some(below) if below.whole => {
                    scanner.value()?;
                    if kept_any {
                        scanner.cuts.push(previous_end..scanner.at);
                    } else {
                        open_cut = Some(start..scanner.at);
                    }
                }
                Some(below) if scanner.peek() == Some(b'{') => {
                    kept_any = true;
                    scanner.object(below)?;
                }
                _ => {
                    kept_any = true;
                    scanner.value()?;
                }
            }
            previous_end = scanner.at;
            Ok(())
        })?;
        // Nothing was kept: the cut ends with its member.
        self.cuts.extend(open_cut);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Map, Value};

    use super::*;
    use crate::event::Path;

    fn kept(text: &str, paths: &[&str]) -> String {
        let omitted: PathSet = paths.iter().map(|path| path.parse::<Path>().unwrap()).collect();
        let spans = kept_spans(text.as_bytes(), &omitted).unwrap();
        spans.into_iter().map(|span| &text[span]).collect()
    }

    #[test]
    fn the_right_comma_goes_with_the_member() {
        for (text, expected) in [
            (r#"{"a":1,"b":2,"c":3}"#, r#"{"b":2,"c":3}"#),
            (r#"{"b":2, "a":1 ,"c":3}"#, r#"{"b":2 ,"c":3}"#),
            (r#"{"b":2,"c":3,"a":[1,{"x":"}"}]}"#, r#"{"b":2,"c":3}"#),
            (r#"{ "a" : 1 }"#, r#"{  }"#),
            (r#"{"a":1,"a":2,"b":3,"a":4}"#, r#"{"b":3}"#),
            (r#"{"\u0061":"\"\\","b":{"a":1}}"#, r#"{"b":{"a":1}}"#),
            (r#"{}"#, r#"{}"#),
        ] {
            assert_eq!(kept(text, &["a"]), expected, "{text}");
        }
    }

    #[test]
    fn numbers_order_and_white_space_of_the_rest_stay() {
        let text = r#"{"metadata":{"name":"x","managedFields":[{"f":{}}]},  "n":1.0,"n":1e400}"#;
        assert_eq!(kept(text, &["metadata.managedFields"]), r#"{"metadata":{"name":"x"},  "n":1.0,"n":1e400}"#);
    }

    #[test]
    fn what_is_no_object_is_refused() {
        for text in ["", "[]", "{", r#"{"a"}"#, r#"{"a":}"#, r#"{"a":1"#, r#"{"a":1}x"#, r#"{"a":"\"#] {
            assert!(kept_spans(text.as_bytes(), &PathSet::default()).is_err(), "{text}");
        }
    }

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<i32>().prop_map(Value::from),
            "[\\PC\"\\\\]{0,8}".prop_map(Value::from)
        ];
        leaf.prop_recursive(4, 40, 5, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                proptest::collection::btree_map("[abc\"\\\\]", inner, 0..4).prop_map(Value::from_iter),
            ]
        })
    }

    fn remove(object: &mut Map<String, Value>, omitted: &PathSet) {
        object.retain(|name, _| !omitted.members.get(name).is_some_and(|below| below.whole));
        for (name, below) in &omitted.members {
            if let Some(Value::Object(object)) = object.get_mut(name) {
                remove(object, below);
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, cases: 2_000, ..ProptestConfig::default() })]

        #[test]
        fn cutting_agrees_with_removing_from_the_parsed_object(
            members in proptest::collection::btree_map("[abc]", value(), 0..4),
            paths in proptest::collection::vec("[abc](\\.[abc]){0,2}", 0..4),
            pretty in any::<bool>(),
        ) {
            let mut object: Map<String, Value> = members.into_iter().collect();
            let render = if pretty { serde_json::to_string_pretty } else { serde_json::to_string };
            let text = render(&object).unwrap();
            let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
            let omitted = paths.iter().map(|path| path.parse::<Path>().unwrap()).collect();
            remove(&mut object, &omitted);
            let cut: Map<String, Value> = serde_json::from_str(&kept(&text, &paths)).unwrap();
            prop_assert_eq!(cut, object);
        }
    }
}
