//! Why a request is refused, in the API server's own words. Not when.

use serde_json::{Value, json};

use super::kind::Kind;

/// One of several causes: the field, the machine's word, the text.
pub(super) type Cause = (&'static str, &'static str, String);

/// A `Status` of kind Failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The HTTP status code.
    pub status: u16,
    /// The machine's word for it, as `NotFound`; empty if it has none.
    pub reason: &'static str,
    /// The text for people.
    pub message: String,
    /// Seconds of a Retry-After header.
    pub retry_after: Option<u64>,
    details: Value,
    /// A token that leads on.
    continue_token: Option<String>,
}

impl Refusal {
    pub(super) fn new(status: u16, reason: &'static str, message: impl Into<String>) -> Self {
        let message = message.into();
        Self { status, reason, message, retry_after: None, details: Value::Null, continue_token: None }
    }

    fn with_details(mut self, details: Value) -> Self {
        self.details = details;
        self
    }

    /// The `Status` as JSON.
    pub fn body(&self) -> String {
        let metadata = self.continue_token.as_ref().map_or(json!({}), |token| json!({"continue": token}));
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": metadata, "status": "Failure",
            "message": self.message, "code": self.status,
        });
        if !self.reason.is_empty() {
            status["reason"] = self.reason.into();
        }
        if !self.details.is_null() {
            status["details"] = self.details.clone();
        }
        status.to_string()
    }

    pub(super) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    pub(super) fn not_found(kind: &Kind, name: &str) -> Self {
        Self::new(404, "NotFound", format!("{} \"{name}\" not found", kind.full_name()))
            .with_details(kind.details(name))
    }

    pub(super) fn already_exists(kind: &Kind, name: &str) -> Self {
        let message = format!("{} \"{name}\" already exists", kind.full_name());
        Self::new(409, "AlreadyExists", message).with_details(kind.details(name))
    }

    pub(super) fn conflict(kind: &Kind, name: &str) -> Self {
        let message = format!(
            "Operation cannot be fulfilled on {} \"{name}\": the object has been modified; please apply your changes \
             to the latest version and try again",
            kind.full_name()
        );
        Self::new(409, "Conflict", message).with_details(kind.details(name))
    }

    /// The uid that a delete or an update insists on is another one's. Deletes speak of the kind, not of the resource.
    pub(super) fn other_uid(kind: &Kind, name: &str, wanted: &str, found: &str) -> Self {
        let message = format!(
            "Operation cannot be fulfilled on {} \"{name}\": the UID in the precondition ({wanted}) does not match the \
             UID in record ({found}). The object might have been deleted and then recreated",
            kind.full_kind()
        );
        let mut details = kind.details(name);
        details["kind"] = kind.kind.as_str().into();
        Self::new(409, "Conflict", message).with_details(details)
    }

    /// An object that does not pass; `named` is how the message calls it, `what` how the details do.
    pub(super) fn invalid(kind: &Kind, name: &str, field: &str, cause: (&str, &str), by_resource: bool) -> Self {
        let (named, what) = if by_resource {
            (kind.full_name(), kind.resource.as_str())
        } else {
            (kind.full_kind(), kind.kind.as_str())
        };
        let mut details = json!({"kind": what, "causes": [{"reason": cause.0, "message": cause.1, "field": field}]});
        if !name.is_empty() {
            details["name"] = name.into();
        }
        if !kind.group.is_empty() {
            details["group"] = kind.group.as_str().into();
        }
        let message = format!("{named} \"{name}\" is invalid: {field}: {}", cause.1);
        Self::new(422, "Invalid", message).with_details(details)
    }

    /// Parameters of a list or watch that contradict each other.
    pub(super) fn options(causes: &[Cause]) -> Self {
        let texts: Vec<String> = causes.iter().map(|(field, _, message)| format!("{field}: {message}")).collect();
        let text = if let [text] = texts.as_slice() { text.clone() } else { format!("[{}]", texts.join(", ")) };
        let cause = |(field, reason, message): &Cause| json!({"reason": reason, "message": message, "field": field});
        let causes: Vec<Value> = causes.iter().map(cause).collect();
        Self::new(422, "Invalid", format!("ListOptions.meta.k8s.io \"\" is invalid: {text}"))
            .with_details(json!({"group": "meta.k8s.io", "kind": "ListOptions", "causes": causes}))
    }

    /// The usual cause.
    pub(super) fn forbids(field: &'static str, why: &str) -> Cause {
        (field, "FieldValueForbidden", format!("Forbidden: {why}"))
    }

    /// An object that is being deleted gets no more finalizers. The server finds that twice.
    pub(super) fn new_finalizers(kind: &Kind, name: &str, found: &[&str]) -> Self {
        let found: Vec<String> = found.iter().map(|name| format!("{name:?}")).collect();
        let message = format!(
            "Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
            found.join(", ")
        );
        let mut refusal = Self::invalid(kind, name, "metadata.finalizers", ("FieldValueForbidden", &message), false);
        if let Some(causes) = refusal.details["causes"].as_array_mut() {
            causes.push(causes[0].clone());
        }
        refusal
    }

    /// The version that a delete insists on is another one.
    pub(super) fn other_version(kind: &Kind, name: &str, wanted: &str, found: u64) -> Self {
        let message = format!(
            "Operation cannot be fulfilled on {} \"{name}\": the ResourceVersion in the precondition ({wanted}) does not \
             match the ResourceVersion in record ({found}). The object might have been modified",
            kind.full_kind()
        );
        let mut details = kind.details(name);
        details["kind"] = kind.kind.as_str().into();
        Self::new(409, "Conflict", message).with_details(details)
    }

    pub(super) fn forbidden(verb: &str, group: &str, resource: &str, namespace: &str, name: &str) -> Self {
        let full = if group.is_empty() { resource.to_owned() } else { format!("{resource}.{group}") };
        let named = if name.is_empty() { String::new() } else { format!(" \"{name}\"") };
        let place = if namespace.is_empty() {
            "at the cluster scope".into()
        } else {
            format!("in the namespace \"{namespace}\"")
        };
        let message = format!(
            "{full}{named} is forbidden: User \"limited\" cannot {verb} resource \"{resource}\" in API group \
             \"{group}\" {place}"
        );
        let mut details = json!({"kind": resource});
        for (member, value) in [("name", name), ("group", group)] {
            if !value.is_empty() {
                details[member] = value.into();
            }
        }
        Self::new(403, "Forbidden", message).with_details(details)
    }

    pub(super) fn terminating_definition(kind: &Kind, name: &str) -> Self {
        let message = format!(
            "{} \"{name}\" is forbidden: create not allowed while custom resource definition is terminating",
            kind.full_name()
        );
        Self::new(403, "Forbidden", message).with_details(kind.details(name))
    }

    pub(super) fn terminating_namespace(kind: &Kind, name: &str, namespace: &str) -> Self {
        let message = format!(
            "{} \"{name}\" is forbidden: unable to create new content in namespace {namespace} because it is being \
             terminated",
            kind.full_name()
        );
        let mut details = kind.details(name);
        details["causes"] = json!([{
            "reason": "NamespaceTerminating",
            "message": format!("namespace {namespace} is being terminated"),
            "field": "metadata.namespace",
        }]);
        Self::new(403, "Forbidden", message).with_details(details)
    }

    pub(super) fn too_old(asked: u64, floor: u64) -> Self {
        Self::new(410, "Expired", format!("too old resource version: {asked} ({floor})"))
    }

    pub(super) fn list_too_old() -> Self {
        Self::new(410, "Expired", "The resourceVersion for the provided list is too old.")
    }

    /// The token is no longer of use; the one in the answer leads on, at the price of consistency.
    pub(super) fn continue_too_old(inconsistent: &str) -> Self {
        let message = "The provided continue parameter is too old to display a consistent list result. You can start a \
                       new list without the continue parameter, or use the continue token in this response to retrieve \
                       the remainder of the results. Continuing with the provided token results in an inconsistent list \
                       - objects that were created, modified, or deleted between the time the first chunk was returned \
                       and now may show up in the list.";
        let mut refusal = Self::new(410, "Expired", message);
        refusal.continue_token = Some(inconsistent.to_owned());
        refusal
    }

    pub(super) fn too_large(asked: u64, current: u64) -> Self {
        let message = format!("Timeout: Too large resource version: {asked}, current: {current}");
        let causes = json!([{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]);
        let mut refusal =
            Self::new(504, "Timeout", message).with_details(json!({"causes": causes, "retryAfterSeconds": 1}));
        refusal.retry_after = Some(1);
        refusal
    }

    pub(super) fn throttled(seconds: u64) -> Self {
        let mut refusal = Self::new(429, "TooManyRequests", "storage is (re)initializing")
            .with_details(json!({"retryAfterSeconds": seconds}));
        refusal.retry_after = Some(seconds);
        refusal
    }
}
