//! The syntax of paths into an object: `spec.a`, `metadata.annotations["a.b/c"]`. Members only; what a path selects in
//! an array is a later capability, and refused by name until then.

use std::collections::BTreeMap;
use std::str::FromStr;

/// The members to step through from an object's root.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Path(Vec<String>);

/// A text that is not a path.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// A name is empty.
    #[error("a name is missing at character {0}")]
    MissingName(usize),
    /// A bracket or quote is not closed, or followed by something else than `.`, `[` or the end.
    #[error("malformed at character {0}; a name with dots or slashes is written [\"so\"]")]
    Malformed(usize),
    /// Arrays cannot be stepped into yet.
    #[error("selects in an array at character {0}, which this version cannot")]
    Array(usize),
}

impl FromStr for Path {
    type Err = PathError;

    fn from_str(text: &str) -> Result<Self, PathError> {
        let mut names = Vec::new();
        let mut rest = text;
        loop {
            let at = text.len() - rest.len();
            if let Some(quoted) = rest.strip_prefix("[\"") {
                let (name, after) = quoted.split_once("\"]").ok_or(PathError::Malformed(at))?;
                names.push(name.to_owned());
                rest = after;
            } else if rest.starts_with('[') {
                return Err(PathError::Array(at));
            } else {
                let end = rest.find(['.', '[', ']', '"']).unwrap_or(rest.len());
                names.push(rest[..end].to_owned());
                rest = &rest[end..];
            }
            if names.last().is_some_and(String::is_empty) {
                return Err(PathError::MissingName(at));
            }
            let at = text.len() - rest.len();
            match rest.chars().next() {
                None => return Ok(Self(names)),
                Some('.') => rest = &rest[1..],
                Some('[') => {}
                Some(_) => return Err(PathError::Malformed(at)),
            }
        }
    }
}

/// A set of paths as a tree, so that an object is walked once for all of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PathSet {
    pub(super) whole: bool,
    pub(super) members: BTreeMap<String, PathSet>,
}

impl PathSet {
    /// Adds a path; what lies below it is covered too.
    pub fn insert(&mut self, path: &Path) {
        let mut node = self;
        for name in &path.0 {
            node = node.members.entry(name.clone()).or_default();
        }
        node.whole = true;
    }

    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        !self.whole && self.members.is_empty()
    }
}

impl FromIterator<Path> for PathSet {
    fn from_iter<T: IntoIterator<Item = Path>>(paths: T) -> Self {
        let mut set = Self::default();
        paths.into_iter().for_each(|path| set.insert(&path));
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_dots_and_slashes_are_quoted() {
        let path: Path =
            r#"metadata.annotations["kubectl.kubernetes.io/last-applied-configuration"].x"#.parse().unwrap();
        assert_eq!(path.0, ["metadata", "annotations", "kubectl.kubernetes.io/last-applied-configuration", "x"]);
    }

    #[test]
    fn what_is_no_path_is_refused_with_its_place() {
        for (text, error) in [
            ("", PathError::MissingName(0)),
            ("spec.", PathError::MissingName(5)),
            ("spec..a", PathError::MissingName(5)),
            (r#"a["b"#, PathError::Malformed(1)),
            (r#"a["b"]c"#, PathError::Malformed(6)),
            ("a]", PathError::Malformed(1)),
            ("spec.items[*].p", PathError::Array(10)),
        ] {
            assert_eq!(text.parse::<Path>(), Err(error), "{text}");
        }
    }
}
