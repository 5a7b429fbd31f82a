//! What of a feed's objects a route selects, beside what the API server has selected already. What it means that an
//! object comes or leaves is the engine's decision.

use std::collections::BTreeSet;

use crate::model::Key;

/// Which namespaces a route selects. Objects of no namespace are selected where no namespaces are named.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Namespaces {
    /// These alone; `None` for all.
    pub only: Option<BTreeSet<String>>,
    /// And never these.
    pub except: BTreeSet<String>,
}

impl Namespaces {
    /// Whether an object of this key is selected.
    pub fn selects(&self, key: &Key) -> bool {
        match key.namespace() {
            Some(namespace) => {
                self.only.as_ref().is_none_or(|only| only.contains(namespace)) && !self.except.contains(namespace)
            }
            None => self.only.is_none(),
        }
    }
}

impl std::fmt::Display for Namespaces {
    /// One text for one selection; empty where everything is selected.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let joined = |names: &BTreeSet<String>| names.iter().map(String::as_str).collect::<Vec<_>>().join(",");
        if let Some(only) = &self.only {
            write!(formatter, " in {}", joined(only))?;
        }
        if !self.except.is_empty() {
            write!(formatter, " not in {}", joined(&self.except))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_is_selected_by_being_named_and_not_excluded() {
        let set = |names: &[&str]| names.iter().map(ToString::to_string).collect::<BTreeSet<_>>();
        let (a, b, none) = (Key::new("a", "x"), Key::new("b", "x"), Key::new("", "x"));
        let all = Namespaces::default();
        assert!(all.selects(&a) && all.selects(&none));
        let only = Namespaces { only: Some(set(&["a"])), ..Namespaces::default() };
        assert!(only.selects(&a) && !only.selects(&b) && !only.selects(&none));
        let except = Namespaces { except: set(&["b"]), ..Namespaces::default() };
        assert!(except.selects(&a) && !except.selects(&b) && except.selects(&none));
        let texts = [all, only, except].map(|namespaces| namespaces.to_string());
        assert_eq!(texts, ["", " in a", " not in b"]);
    }
}
