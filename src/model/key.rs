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
///
/// Kubernetes makes UUIDs, which are held as their 16 bytes: a hundred thousand keys need no text for them.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uid(Form);

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Form {
    Uuid([u8; 16]),
    Other(Arc<str>),
}

impl Uid {
    /// The uid with this text, as in `metadata.uid`; [`fmt::Display`] gives it back.
    pub fn new(text: &str) -> Self {
        Self(uuid(text).map_or_else(|| Form::Other(text.into()), Form::Uuid))
    }

    /// The uid of these 16 bytes.
    pub fn from_uuid(bytes: [u8; 16]) -> Self {
        Self(Form::Uuid(bytes))
    }

    /// Its 16 bytes, if it is a UUID.
    pub fn as_uuid(&self) -> Option<&[u8; 16]> {
        match &self.0 {
            Form::Uuid(bytes) => Some(bytes),
            Form::Other(_) => None,
        }
    }
}

/// The bytes of a UUID in the one form that Kubernetes writes: lower case, with hyphens (RFC 9562, section 4). Any other
/// form would not be given back as it was.
fn uuid(text: &str) -> Option<[u8; 16]> {
    let text: &[u8; 36] = text.as_bytes().try_into().ok()?;
    let mut bytes = [0; 16];
    let mut digits = 0;
    for (place, character) in text.iter().enumerate() {
        if matches!(place, 8 | 13 | 18 | 23) {
            if *character != b'-' {
                return None;
            }
            continue;
        }
        let digit = match character {
            b'0'..=b'9' => character - b'0',
            b'a'..=b'f' => character - b'a' + 10,
            _ => return None,
        };
        bytes[digits / 2] |= if digits % 2 == 0 { digit << 4 } else { digit };
        digits += 1;
    }
    Some(bytes)
}

impl fmt::Display for Uid {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Form::Other(text) => formatter.write_str(text),
            Form::Uuid(bytes) => {
                for (place, byte) in bytes.iter().enumerate() {
                    if matches!(place, 4 | 6 | 8 | 10) {
                        formatter.write_str("-")?;
                    }
                    write!(formatter, "{byte:02x}")?;
                }
                Ok(())
            }
        }
    }
}

impl fmt::Debug for Uid {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
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

    #[test]
    fn a_uid_gives_back_its_text_whatever_its_form() {
        let uuid = "6ba7b810-9dad-11d1-80b4-00c04fd430c8";
        for text in [uuid, &uuid.to_uppercase(), "uid-1", "", "6ba7b810-9dad-11d1-80b4-00c04fd430cg"] {
            assert_eq!(Uid::new(text).to_string(), text);
        }
        assert!(Uid::new(uuid).as_uuid().is_some() && Uid::new("uid-1").as_uuid().is_none());
        assert_eq!(std::mem::size_of::<Uid>(), 24);
    }
}
