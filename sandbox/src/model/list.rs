//! Lists: at which revision, from the cache or from etcd, in which pages.

use std::io::Write;
use std::sync::Arc;

use super::refusal::Refusal;
use super::request::Query;
use super::selector::Selection;
use super::server::ApiServer;
use super::state::State;
use super::store::KindId;
use super::token::Token;

/// At which revision a list is read.
enum At {
    /// The newest: it is asked of etcd, so that the cache knows it too.
    Consistent,
    /// What the cache has; not older than this.
    Cached(u64),
    Exactly(u64),
    /// By a token that gave up consistency.
    Remainder,
}

impl ApiServer {
    pub(super) fn list(
        &mut self,
        id: KindId,
        version: &str,
        selection: &Selection,
        query: &Query,
        metadata_only: bool,
    ) -> Result<Vec<u8>, Refusal> {
        let current = self.store.revision;
        self.store.kinds[id].warm(current);
        let mut limit = if query.limit == 0 { usize::MAX } else { query.limit };
        let token = read_token(query)?;
        let at = match &token {
            Some(token) => token.revision.map_or(At::Remainder, At::Exactly),
            None => read_version(query)?,
        };
        let kind = &mut self.store.kinds[id];
        let observed = kind.cache.as_ref().map_or(0, |cache| cache.observed);
        let revision = match at {
            At::Consistent | At::Remainder => current,
            At::Cached(least) | At::Exactly(least) if least > current => {
                return Err(Refusal::too_large(least, current));
            }
            At::Cached(0) => {
                limit = usize::MAX;
                observed
            }
            At::Cached(least) => observed.max(least),
            At::Exactly(revision) => {
                // From etcd until it is compacted; from the cache's snapshots as far as they go.
                if revision < self.store.compacted && revision < kind.floor() {
                    return Err(match &token {
                        Some(token) => Refusal::continue_too_old(&token.inconsistent()),
                        None => Refusal::list_too_old(),
                    });
                }
                revision
            }
        };
        if let (At::Consistent, Some(cache)) = (&at, kind.cache.as_mut()) {
            cache.observed = current;
        }
        let kind = &self.store.kinds[id];
        let start = token.map(|token| format!("{}{}", selection.prefix(), token.start)).unwrap_or_default();
        let states = if matches!(at, At::Exactly(_)) { revision } else { current };
        let states = kind.at(states, selection.prefix(), &start);
        let (items, left) = page(&states, selection, limit);
        let next = items.last().filter(|_| left > 0).map(|last| {
            let key = last.key.strip_prefix(selection.prefix()).unwrap_or(&last.key);
            Token::after(revision, key)
        });
        let left = Some(left).filter(|left| *left > 0 && !selection.is_filtered());
        Ok(self.write_list(id, version, metadata_only, &items, (revision, next.as_deref(), left)))
    }

    fn write_list(
        &self,
        id: KindId,
        version: &str,
        metadata_only: bool,
        items: &[&Arc<State>],
        (revision, next, left): (u64, Option<&str>, Option<usize>),
    ) -> Vec<u8> {
        let kind = &self.store.kinds[id];
        let view = kind.view(version, metadata_only);
        let mut out = Vec::with_capacity(items.iter().map(|state| state.size()).sum::<usize>() + 256);
        let write_items = |out: &mut Vec<u8>| {
            out.extend_from_slice(b"\"items\":[");
            for (number, state) in items.iter().enumerate() {
                if number > 0 {
                    out.push(b',');
                }
                state.write(&view, true, None, out);
            }
            out.push(b']');
        };
        let remaining = left.map(|left| format!(",\"remainingItemCount\":{left}")).unwrap_or_default();
        if kind.custom && !metadata_only {
            let _ = write!(out, "{{\"apiVersion\":\"{}\",", kind.api_version(version));
            write_items(&mut out);
            let (list_kind, next) = (&kind.list_kind, next.unwrap_or_default());
            let _ = write!(
                out,
                ",\"kind\":\"{list_kind}\",\"metadata\":{{\"continue\":\"{next}\"{remaining},\"resourceVersion\":\"{revision}\"}}}}"
            );
        } else {
            let (list_kind, api_version) = if metadata_only {
                ("PartialObjectMetadataList", "meta.k8s.io/v1".to_owned())
            } else {
                (kind.list_kind.as_str(), kind.api_version(version))
            };
            let next = next.map(|next| format!(",\"continue\":\"{next}\"")).unwrap_or_default();
            let _ = write!(
                out,
                "{{\"kind\":\"{list_kind}\",\"apiVersion\":\"{api_version}\",\"metadata\":{{\"resourceVersion\":\"{revision}\"{next}{remaining}}},"
            );
            write_items(&mut out);
            out.push(b'}');
        }
        out
    }
}

/// The first `limit` that are selected, and how many of all keys come after the last of them.
fn page<'a>(states: &'a [Arc<State>], selection: &Selection, limit: usize) -> (Vec<&'a Arc<State>>, usize) {
    let mut items = Vec::with_capacity(states.len().min(limit));
    for (number, state) in states.iter().enumerate() {
        if selection.matches(state) {
            items.push(state);
            if items.len() == limit {
                return (items, states.len() - number - 1);
            }
        }
    }
    (items, 0)
}

fn read_token(query: &Query) -> Result<Option<Token>, Refusal> {
    if query.continue_token.is_empty() {
        return Ok(None);
    }
    if !query.version_match.is_empty() {
        let forbids = |why: &str| Refusal::forbids("resourceVersionMatch", why);
        let mut causes = vec![forbids("resourceVersionMatch is forbidden when continue is provided")];
        if query.resource_version.is_empty() {
            causes.insert(0, forbids("resourceVersionMatch is forbidden unless resourceVersion is provided"));
        }
        return Err(Refusal::options(&causes));
    }
    if !matches!(query.resource_version.as_str(), "" | "0") {
        let message = "specifying resource version is not allowed when using continue";
        return Err(Refusal::bad_request(message));
    }
    let token = Token::read(&query.continue_token);
    token.map(Some).ok_or_else(|| Refusal::bad_request("invalid continue token: continue key is not valid"))
}

fn read_version(query: &Query) -> Result<At, Refusal> {
    let forbidden = |why: &str| Err(Refusal::options(&[Refusal::forbids("resourceVersionMatch", why)]));
    if query.send_initial_events.is_some() {
        let why = "sendInitialEvents is forbidden for list";
        return Err(Refusal::options(&[Refusal::forbids("sendInitialEvents", why)]));
    }
    let text = query.resource_version.as_str();
    if text.is_empty() {
        return match query.version_match.as_str() {
            "" => Ok(At::Consistent),
            _ => forbidden("resourceVersionMatch is forbidden unless resourceVersion is provided"),
        };
    }
    let revision: u64 = text
        .parse()
        .map_err(|_| Refusal::bad_request(format!("invalid resource version: {}", invalid_version(text))))?;
    match query.version_match.as_str() {
        "Exact" if revision == 0 => forbidden("resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\""),
        "Exact" => Ok(At::Exactly(revision)),
        // The older way of asking: a page is of that very revision.
        "" if query.limit > 0 && revision > 0 => Ok(At::Exactly(revision)),
        "" | "NotOlderThan" => Ok(At::Cached(revision)),
        other => forbidden(&format!("resourceVersionMatch {other:?} is not supported")),
    }
}

/// What Go says of a text that is no number.
pub(super) fn invalid_version(text: &str) -> String {
    format!("resourceVersion: Invalid value: {text:?}: strconv.ParseUint: parsing {text:?}: invalid syntax")
}
