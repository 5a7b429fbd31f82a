//! What is wrong with a configuration: all mistakes of one file, each with its place and a hint. How they are found is
//! the readers' business.

use std::fmt;

/// A place in the file. Both numbers begin at 1; columns count characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// The line.
    pub line: usize,
    /// The column.
    pub column: usize,
}

/// One mistake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// Where it is; `None` when the file could not be read at all.
    pub position: Option<Position>,
    /// The key it is about, such as `routes[0].debounce.quiet`; empty when it is about the file as a whole.
    pub path: String,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub hint: String,
}

/// All mistakes of one file, in the order of the file. Never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistakes {
    file: String,
    mistakes: Vec<Mistake>,
}

impl Mistakes {
    /// The mistakes themselves.
    pub fn all(&self) -> &[Mistake] {
        &self.mistakes
    }
}

impl fmt::Display for Mistakes {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, mistake) in self.mistakes.iter().enumerate() {
            if number > 0 {
                formatter.write_str("\n")?;
            }
            write!(formatter, "error: {}:", self.file)?;
            if let Some(Position { line, column }) = mistake.position {
                write!(formatter, "{line}:{column}:")?;
            }
            if !mistake.path.is_empty() {
                write!(formatter, " {}:", mistake.path)?;
            }
            write!(formatter, " {}\n  hint: {}", mistake.message, mistake.hint)?;
        }
        Ok(())
    }
}

impl std::error::Error for Mistakes {}

/// Collects mistakes while a file is read, so that the first one hides no other.
#[derive(Debug, Default)]
pub(super) struct Report {
    mistakes: Vec<Mistake>,
}

impl Report {
    pub(super) fn add(
        &mut self,
        position: impl Into<Option<Position>>,
        path: &str,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) {
        let (message, hint) = (message.into(), hint.into());
        self.mistakes.push(Mistake { position: position.into(), path: path.to_owned(), message, hint });
    }

    /// The value, if nothing was wrong.
    ///
    /// # Panics
    /// When there is neither a value nor a mistake: a reader has then given up without saying why.
    pub(super) fn finish<T>(mut self, file: &str, value: Option<T>) -> Result<T, Mistakes> {
        match value {
            Some(value) if self.mistakes.is_empty() => Ok(value),
            _ => {
                assert!(!self.mistakes.is_empty(), "a reader has given up without saying why");
                // The readers go section by section; people go from top to bottom.
                self.mistakes.sort_by_key(|mistake| mistake.position);
                Err(Mistakes { file: file.to_owned(), mistakes: self.mistakes })
            }
        }
    }
}

/// The known word that was probably meant, if one is close enough.
pub(super) fn closest<'a>(given: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let lower = given.to_lowercase();
    let distances = known.into_iter().map(|word| (distance(&lower, &word.to_lowercase()), word));
    let (distance, word) = distances.min_by_key(|(distance, _)| *distance)?;
    // A third of the letters may be wrong: with more, a hint would be a guess that misleads.
    (distance <= (given.chars().count() / 3).max(1)).then_some(word)
}

/// How many letters were added, left out, replaced, or swapped with their neighbour.
fn distance(one: &str, other: &str) -> usize {
    let (one, other): (Vec<char>, Vec<char>) = (one.chars().collect(), other.chars().collect());
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=other.len()).collect();
    for row in 1..=one.len() {
        let mut current = vec![row];
        for column in 1..=other.len() {
            let replaced = last[column - 1] + usize::from(one[row - 1] != other[column - 1]);
            let mut best = replaced.min(last[column] + 1).min(current[column - 1] + 1);
            let swapped =
                row > 1 && column > 1 && one[row - 1] == other[column - 2] && one[row - 2] == other[column - 1];
            if swapped {
                best = best.min(before[column - 2] + 1);
            }
            current.push(best);
        }
        before = std::mem::replace(&mut last, current);
    }
    last[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hint_names_a_close_word_and_never_a_far_one() {
        let known = ["brokers", "topic", "mode", "maxWait"];
        for (given, meant) in [
            ("brokres", Some("brokers")),
            ("broker", Some("brokers")),
            ("Topic", Some("topic")),
            ("maxwait", Some("maxWait")),
            ("max_wait", Some("maxWait")),
            ("mdoe", Some("mode")),
            ("password", None),
            ("x", None),
        ] {
            assert_eq!(closest(given, known), meant, "{given}");
        }
    }

    #[test]
    fn mistakes_are_told_from_top_to_bottom() {
        let mut report = Report::default();
        report.add(Position { line: 9, column: 1 }, "routes", "late", "a");
        report.add(Position { line: 2, column: 3 }, "", "early", "b");
        let text = report.finish("crier.yaml", Some(())).unwrap_err().to_string();
        assert_eq!(text, "error: crier.yaml:2:3: early\n  hint: b\nerror: crier.yaml:9:1: routes: late\n  hint: a");
    }
}
