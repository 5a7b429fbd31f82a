//! Values that must not be seen: where they come from, and their reading. A configuration holds the source only, so that
//! a rotated value is found by reading again.

use std::env::VarError;
use std::fmt;
use std::path::PathBuf;

/// Where a secret value comes from. Its `Debug` shows nothing: a value that was taken for a name must not be logged.
#[derive(Clone, PartialEq, Eq)]
pub enum Secret {
    /// The environment variable of this name.
    Environment(String),
    /// The file at this path, without the line break at its end.
    File(PathBuf),
}

/// A secret value. Its `Debug` shows nothing.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretValue(String);

/// Why a secret has no value.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    /// The variable is not there.
    #[error("the environment variable {0} is not set")]
    VariableMissing(String),
    /// The variable is there and is not UTF-8.
    #[error("the environment variable {0} is not UTF-8")]
    VariableEncoding(String),
    /// The file cannot be read, or is not UTF-8.
    #[error("the file {path} cannot be read")]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// There is nothing in it.
    #[error("the secret in {0} is empty")]
    Empty(String),
}

impl Secret {
    /// Reads the value as it is now.
    ///
    /// # Errors
    /// When the variable or file is not there, cannot be read, is not UTF-8, or is empty.
    pub fn read(&self) -> Result<SecretValue, SecretError> {
        let (value, place) = match self {
            Self::Environment(name) => {
                let value = std::env::var(name).map_err(|error| match error {
                    VarError::NotPresent => SecretError::VariableMissing(name.clone()),
                    VarError::NotUnicode(_) => SecretError::VariableEncoding(name.clone()),
                })?;
                (value, format!("the environment variable {name}"))
            }
            Self::File(path) => {
                let mut value =
                    std::fs::read_to_string(path).map_err(|source| SecretError::File { path: path.clone(), source })?;
                // Editors end a file with a line break, and no header can carry one.
                value.truncate(value.trim_end_matches(['\r', '\n']).len());
                (value, format!("the file {}", path.display()))
            }
        };
        if value.is_empty() { Err(SecretError::Empty(place)) } else { Ok(SecretValue(value)) }
    }
}

impl SecretValue {
    /// The value itself; it must not reach a log, an event or an error.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl SecretError {
    /// What to do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::VariableMissing(_) => "set the variable for the process, or name another one",
            Self::VariableEncoding(_) => "put the value into a file as UTF-8 and use `file` instead of `env`",
            Self::File { .. } => "check that the path exists, is UTF-8 text, and may be read by the process's user",
            Self::Empty(_) => "an empty secret is never meant: put the value there",
        }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("[redacted]")
    }
}

impl fmt::Debug for SecretValue {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("[redacted]")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_read_from_its_file_without_the_last_line_break() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        for (content, value) in [("s3cret\n", "s3cret"), ("s3cret\r\n", "s3cret"), (" two words ", " two words ")] {
            std::fs::write(&path, content).unwrap();
            assert_eq!(Secret::File(path.clone()).read().unwrap().expose(), value);
        }
    }

    #[test]
    fn a_secret_is_read_from_its_environment_variable() {
        let value = Secret::Environment("CARGO_PKG_NAME".to_owned()).read().unwrap();
        assert_eq!(value.expose(), "crier");
    }

    #[test]
    fn a_secret_without_a_value_is_an_error_with_a_hint() {
        let folder = tempfile::tempdir().unwrap();
        let (empty, binary) = (folder.path().join("empty"), folder.path().join("binary"));
        std::fs::write(&empty, "\n").unwrap();
        std::fs::write(&binary, [0xff, 0xfe]).unwrap();
        for (secret, message) in [
            (Secret::Environment("CRIER_TEST_UNSET".into()), "the environment variable CRIER_TEST_UNSET is not set"),
            (Secret::File(empty.clone()), &*format!("the secret in the file {} is empty", empty.display())),
            (Secret::File(binary.clone()), &*format!("the file {} cannot be read", binary.display())),
        ] {
            let error = secret.read().unwrap_err();
            assert_eq!(error.to_string(), message);
            assert!(!error.hint().is_empty());
        }
    }

    #[test]
    fn debug_output_shows_neither_the_value_nor_its_source() {
        let secret = Secret::Environment("CARGO_PKG_NAME".to_owned());
        let text = format!("{secret:?} {:?}", secret.read().unwrap());
        assert_eq!(text, "[redacted] [redacted]");
    }
}
