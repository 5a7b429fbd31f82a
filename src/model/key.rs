//! Which object: its key (namespace and name) and its uid (one incarnation of that key).

use std::fmt;
use std::sync::Arc;

/// Namespace and name; cluster-scoped objects have no namespace. Cheap to clone: the text is shared.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    // `namespace/name`, or `name`. Neither part may contain a slash, so the text is unambiguous.
    text: Arc<str>,
}

impl Key {
    /// The key of a namespaced object, or of a cluster-scoped one when `namespace` is empty.
    pub fn new(namespace: &str, name: &str) -> Self {
        let text = if namespace.is_empty() { name.into() } else { format!("{namespace}/{name}").into() };
        Self { text }
    }

    /// The key from its text form, as [`Key::as_str`] gives it.
    pub fn from_text(text: &str) -> Self {
        Self { text: text.into() }
    }

    /// The namespace, or `None` for a cluster-scoped object.
    pub fn namespace(&self) -> Option<&str> {
        self.text.split_once('/').map(|(namespace, _)| namespace)
    }

    /// The object's name.
    pub fn name(&self) -> &str {
        self.text.split_once('/').map_or(&*self.text, |(_, name)| name)
    }

    /// `namespace/name`, or `name`: also the CloudEvents `subject`.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for Key {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

/// An object's uid: with the key it names one incarnation.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uid(Arc<str>);

impl Uid {
    /// The uid with this text.
    pub fn new(text: &str) -> Self {
        Self(text.into())
    }

    /// The text, as in `metadata.uid`.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Uid {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl fmt::Debug for Uid {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_gives_back_its_parts() {
        let namespaced = Key::new("team-a", "shop");
        assert_eq!((namespaced.namespace(), namespaced.name()), (Some("team-a"), "shop"));
        let cluster_scoped = Key::new("", "node-1");
        assert_eq!((cluster_scoped.namespace(), cluster_scoped.name()), (None, "node-1"));
        assert_eq!(Key::from_text(namespaced.as_str()), namespaced);
    }
}
