//! The values that have a form: durations, names, addresses, templates, paths, secrets. Each is checked as far as it can
//! be without asking anyone.

use std::path::PathBuf;
use std::time::Duration;

use url::Url;

use super::Secret;
use super::mistakes::{Report, closest};
use super::reader::{Field, Keys};

const DURATION_HINT: &str = "write a whole number and a unit, such as 500ms, 5s, 2m or 1h; 0s is none";
const SECRET_HINT: &str = "write { env: NAME } or { file: PATH }, so that the value itself stays out of this file";
/// Longer ones are typing errors, and would overflow sums of times.
const LONGEST: Duration = Duration::from_secs(366 * 24 * 3_600);

/// A duration such as `500ms`.
pub(super) fn duration(field: &Field<'_>, report: &mut Report) -> Option<Duration> {
    if field.is_number() {
        field.expected("a duration", DURATION_HINT, report);
        return None;
    }
    let text = field.text(report)?;
    let (number, unit) = text.split_at(text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len()));
    let milliseconds = match unit {
        "ms" => Some(1),
        "s" => Some(1_000),
        "m" => Some(60_000),
        "h" => Some(3_600_000),
        _ => None,
    };
    let parsed = number.parse::<u64>().ok().zip(milliseconds).and_then(|(number, unit)| number.checked_mul(unit));
    match parsed.map(Duration::from_millis) {
        Some(duration) if duration <= LONGEST => Some(duration),
        Some(_) => {
            field.mistake(format!("`{text}` is longer than a year"), DURATION_HINT, report);
            None
        }
        None => {
            field.mistake(format!("`{text}` is not a duration"), DURATION_HINT, report);
            None
        }
    }
}

/// A duration above zero.
pub(super) fn positive_duration(field: &Field<'_>, report: &mut Report) -> Option<Duration> {
    let duration = duration(field, report)?;
    if duration.is_zero() {
        field.mistake("no time at all", "nothing can be done within 0s: give a longer time", report);
        return None;
    }
    Some(duration)
}

/// A number of bytes as Kubernetes writes quantities: `512Ki`, `32Mi`, `1Gi`.
pub(super) fn bytes(field: &Field<'_>, report: &mut Report) -> Option<usize> {
    let text = field.text(report)?;
    let units = [("Ki", 10), ("Mi", 20), ("Gi", 30)];
    let read = units.iter().find_map(|(unit, shift)| {
        let number: usize = text.strip_suffix(unit)?.parse().ok()?;
        (number > 0 && number < 1 << 20).then_some(number << shift)
    });
    if read.is_none() {
        field.mistake(
            format!("`{text}` is not a number of bytes"),
            "write a whole number and Ki, Mi or Gi, such as 32Mi",
            report,
        );
    }
    read
}

/// The duration as it would be written.
pub(super) fn show(duration: Duration) -> String {
    let milliseconds = duration.as_millis();
    let units = [(3_600_000, "h"), (60_000, "m"), (1_000, "s")];
    match units.into_iter().find(|(unit, _)| milliseconds > 0 && milliseconds.is_multiple_of(*unit)) {
        Some((unit, name)) => format!("{}{name}", milliseconds / unit),
        None if milliseconds == 0 => "0s".to_owned(),
        None => format!("{milliseconds}ms"),
    }
}

/// Whether this could be a DNS label.
pub(super) fn is_label(text: &str) -> bool {
    let inner = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '-';
    (1..=63).contains(&text.len()) && text.chars().all(inner) && !text.starts_with('-') && !text.ends_with('-')
}

/// A name like a DNS label.
pub(super) fn label(field: &Field<'_>, report: &mut Report) -> Option<String> {
    let text = field.text(report)?;
    if !is_label(text) {
        field.mistake(format!("`{text}` is not a name"), LABEL_HINT, report);
        return None;
    }
    Some(text.to_owned())
}

/// What a name may be.
pub(super) const LABEL_HINT: &str = "use up to 63 lower-case letters, digits and `-`, beginning and ending with no `-`";

/// A path in the file system.
pub(super) fn file_path(field: &Field<'_>, report: &mut Report) -> Option<PathBuf> {
    field.text(report).map(PathBuf::from)
}

/// Text as it is, owned.
pub(super) fn text(field: &Field<'_>, report: &mut Report) -> Option<String> {
    field.text(report).map(str::to_owned)
}

/// `host:port`.
pub(super) fn host_and_port(field: &Field<'_>, report: &mut Report) -> Option<String> {
    let text = field.text(report)?;
    let right = text.rsplit_once(':').is_some_and(|(host, port)| {
        // An IPv6 address needs brackets, or its last group would be taken for the port.
        let plain = !host.is_empty() && !host.contains([':', '/', '@', '[', ']', ',']);
        let bracketed = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let host_is_right = plain || bracketed.is_some_and(|host| host.parse::<std::net::Ipv6Addr>().is_ok());
        host_is_right && !host.contains(char::is_whitespace) && port.parse::<u16>().is_ok_and(|port| port > 0)
    });
    if !right {
        field.mistake("not a host and a port", "write host:port, such as kafka:9092 or [::1]:9092", report);
        return None;
    }
    Some(text.to_owned())
}

/// A URL with one of these schemes and a host, and nothing secret in it. The text is not shown: it may hold a password.
pub(super) fn url(field: &Field<'_>, schemes: &[&str], credentials: &str, report: &mut Report) -> Option<Url> {
    let text = field.text(report)?;
    let hint = format!("write a URL that begins with {}://", schemes.join(":// or "));
    let Ok(url) = Url::parse(text) else {
        field.mistake("not a URL", hint, report);
        return None;
    };
    if !schemes.contains(&url.scheme()) || url.host_str().is_none_or(str::is_empty) {
        field.mistake("not a URL of this kind of sink", hint, report);
        return None;
    }
    if !url.username().is_empty() || url.password().is_some() {
        field.mistake("a user name or password in a URL", credentials, report);
        return None;
    }
    if text.contains(['{', '}']) {
        field.mistake("a token in a URL", "tokens in URLs are planned; this version does not have them", report);
        return None;
    }
    Some(url)
}

/// Checks a template and returns it with its tokens replaced by `x`, for checks of what a protocol allows.
pub(super) fn template(field: &Field<'_>, tokens: &[&str], report: &mut Report) -> Option<(String, String)> {
    let text = field.text(report)?;
    let known = || format!("the tokens are {{{}}}", tokens.join("} {"));
    let (mut literal, mut rest, mut right) = (String::new(), text, true);
    while let Some(at) = rest.find(['{', '}']) {
        literal.push_str(&rest[..at]);
        let token = rest[at..].strip_prefix('{').and_then(|rest| rest.split_once('}'));
        let Some((token, after)) = token else {
            field.mistake("a brace without its counterpart", known(), report);
            return None;
        };
        if !tokens.contains(&token) {
            let meant = closest(token, tokens.iter().copied()).map(|meant| format!("did you mean `{{{meant}}}`?"));
            field.mistake(format!("unknown token `{{{token}}}`"), meant.unwrap_or_else(known), report);
            right = false;
        }
        literal.push('x');
        rest = after;
    }
    literal.push_str(rest);
    right.then(|| (text.to_owned(), literal))
}

/// A path into an object, such as `metadata.annotations["a.b/c"]`.
pub(super) fn object_path(field: &Field<'_>, report: &mut Report) -> Option<String> {
    let text = field.text(report)?;
    match check_object_path(text) {
        Ok(()) => Some(text.to_owned()),
        Err(message) => {
            let hint = "write it like metadata.annotations[\"a.b/c\"]; lists cannot be stepped into yet";
            field.mistake(format!("`{text}` is not a path: {message}"), hint, report);
            None
        }
    }
}

fn check_object_path(text: &str) -> Result<(), &'static str> {
    let mut rest = text;
    loop {
        let name;
        if let Some(quoted) = rest.strip_prefix("[\"") {
            (name, rest) = quoted.split_once("\"]").ok_or("a bracket is not closed")?;
        } else if rest.starts_with('[') {
            return Err("it selects in a list");
        } else {
            (name, rest) = rest.split_at(rest.find(['.', '[', ']', '"']).unwrap_or(rest.len()));
        }
        if name.is_empty() {
            return Err("a name is missing");
        }
        match rest.chars().next() {
            None => return Ok(()),
            Some('.') => rest = &rest[1..],
            Some('[') => {}
            Some(_) => return Err("a quote or bracket has no counterpart"),
        }
    }
}

/// Where a secret comes from. What was written is not shown: it may be the secret itself.
pub(super) fn secret(field: &Field<'_>, report: &mut Report) -> Option<Secret> {
    if !field.is_mapping() {
        field.expected("a secret's source", SECRET_HINT, report);
        return None;
    }
    let section = field.section(&Keys { known: &["env", "file"], later: &[] }, SECRET_HINT, report)?;
    match (section.optional("env"), section.optional("file")) {
        (Some(variable), None) => {
            let name = variable.text(report)?;
            let first = |letter: char| letter.is_ascii_alphabetic() || letter == '_';
            if !name.starts_with(first) || !name.chars().all(|letter| first(letter) || letter.is_ascii_digit()) {
                let hint = "use letters, digits and `_`; this is the variable's name, not the secret";
                variable.mistake("not the name of an environment variable", hint, report);
                return None;
            }
            Some(Secret::Environment(name.to_owned()))
        }
        (None, Some(path)) => file_path(&path, report).map(Secret::File),
        (Some(_), Some(_)) => {
            field.mistake("both `env` and `file`", "a secret has one source: remove one of the two", report);
            None
        }
        (None, None) => {
            field.mistake("neither `env` nor `file`", SECRET_HINT, report);
            None
        }
    }
}
