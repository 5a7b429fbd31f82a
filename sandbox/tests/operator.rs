//! What no scenario can show on a real server in a minute: windows that slide, readers that are slow, backups put back,
//! failures on demand, and that a long run takes no more memory than a short one.

use std::time::Duration;

use crier_sandbox::{ApiServer, Body, Failure, ObjectPath, Request, StreamId, StreamPoll};
use serde_json::{Value, json};

const GROUP: &str = "test.io";
const THINGS: &str = "/apis/test.io/v1/namespaces/default/things";

fn at(seconds: u64) -> Duration {
    Duration::from_secs(1_790_000_000 + seconds)
}

fn thing(name: &str) -> ObjectPath<'_> {
    ObjectPath { group: GROUP, resource: "things", namespace: "default", name }
}

/// A server with things in it.
fn server() -> ApiServer {
    let mut server = ApiServer::new();
    let versions = json!([{"name": "v1", "served": true, "storage": true, "subresources": {"status": {}}}]);
    let names = json!({"kind": "Thing", "plural": "things"});
    let spec = json!({"group": GROUP, "scope": "Namespaced", "names": names, "versions": versions});
    let path = ObjectPath {
        group: "apiextensions.k8s.io",
        resource: "customresourcedefinitions",
        namespace: "",
        name: "things.test.io",
    };
    server.create(at(0), path, json!({"spec": spec})).unwrap();
    server
}

fn fetch(server: &mut ApiServer, now: Duration, target: &str) -> (u16, Value) {
    let answer = server.request(now, &Request::get(target));
    let Body::Whole(body) = answer.body else { panic!("{target} is a watch") };
    (answer.status, serde_json::from_slice(&body).unwrap_or_default())
}

fn watch(server: &mut ApiServer, now: Duration, query: &str) -> StreamId {
    let answer = server.request(now, &Request::get(&format!("{THINGS}?watch=1&{query}")));
    let Body::Stream(stream) = answer.body else { panic!("{query} is refused: {answer:?}") };
    stream
}

/// Everything that can be read now, in short, and how it ended.
fn read(server: &mut ApiServer, now: Duration, stream: StreamId) -> Vec<String> {
    let mut seen = Vec::new();
    loop {
        match server.poll_stream(now, stream) {
            StreamPoll::Line(line) => {
                let line: Value = serde_json::from_slice(&line).unwrap();
                let object = &line["object"];
                let name =
                    object["metadata"]["name"].as_str().unwrap_or_else(|| object["reason"].as_str().unwrap_or("-"));
                seen.push(format!("{} {name}", line["type"].as_str().unwrap()));
            }
            StreamPoll::Pending => return seen,
            ended => {
                seen.push(format!("{ended:?}"));
                return seen;
            }
        }
    }
}

#[test]
fn a_window_of_some_events_forgets_the_others() {
    let mut server = server();
    server.set_window(GROUP, "things", 3);
    let versions: Vec<u64> =
        (0..5).map(|n| server.create(at(n), thing(&format!("t{n}")), json!({})).unwrap()).collect();
    let old = watch(&mut server, at(9), &format!("resourceVersion={}", versions[0]));
    assert_eq!(read(&mut server, at(9), old), ["ERROR Expired", "Ended"]);
    // The oldest that is held is the third: whoever has seen the second misses nothing.
    let resumed = watch(&mut server, at(9), &format!("resourceVersion={}", versions[1]));
    assert_eq!(read(&mut server, at(9), resumed), ["ADDED t2", "ADDED t3", "ADDED t4"]);
    server.set_window(GROUP, "things", 0);
    let late = watch(&mut server, at(9), &format!("resourceVersion={}", versions[3]));
    assert_eq!(read(&mut server, at(9), late), ["ERROR Expired", "Ended"]);
    let newest = watch(&mut server, at(9), &format!("resourceVersion={}", versions[4]));
    assert!(read(&mut server, at(9), newest).is_empty());
}

#[test]
fn a_window_holds_seventy_five_seconds_and_at_least_a_hundred_events() {
    let mut server = server();
    let first = server.create(at(0), thing("a"), json!({"spec": {"n": 0}})).unwrap();
    let resumes = |server: &mut ApiServer, now| {
        let stream = watch(server, now, &format!("resourceVersion={first}"));
        let seen = read(server, now, stream);
        server.close_stream(stream);
        seen.first().map(String::as_str) != Some("ERROR Expired")
    };
    for n in 1..300 {
        server.update(at(10), thing("a"), &json!({"spec": {"n": n}})).unwrap();
    }
    assert!(resumes(&mut server, at(10)), "fast writes make the window larger");
    assert!(resumes(&mut server, at(100_000)), "nothing is forgotten but by a write");
    for n in 300..420 {
        server.update(at(90), thing("a"), &json!({"spec": {"n": n}})).unwrap();
    }
    assert!(!resumes(&mut server, at(90)), "400 later events and 75 s are enough to be forgotten");
}

#[test]
fn a_slow_reader_gets_what_was_queued_and_a_clean_end() {
    let mut server = server();
    let start = server.resource_version();
    let slow = watch(&mut server, at(1), &format!("resourceVersion={start}"));
    let idle = watch(&mut server, at(1), &format!("resourceVersion={start}&labelSelector=none"));
    for n in 0..30 {
        server.create(at(1), thing(&format!("t{n:02}")), json!({})).unwrap();
    }
    let fast = watch(&mut server, at(1), &format!("resourceVersion={start}"));
    assert_eq!(read(&mut server, at(1), fast).len(), 30);
    server.evict_slow_readers();
    let seen = read(&mut server, at(1), slow);
    assert_eq!((seen.len(), seen.last().map(String::as_str)), (21, Some("Ended")));
    assert_eq!(seen[19], "ADDED t19");
    server.create(at(2), thing("later"), json!({})).unwrap();
    assert_eq!(read(&mut server, at(2), fast), ["ADDED later"], "who keeps up stays");
    assert!(read(&mut server, at(2), idle).is_empty(), "what is not selected is not queued");
    assert_eq!(server.open_streams(), 2);
}

#[test]
fn a_backup_put_back_lets_the_counter_step_back() {
    let mut server = server();
    let kept = server.create(at(1), thing("kept"), json!({"spec": {"n": 1}})).unwrap();
    let backup = server.snapshot();
    let (kept_uid, _, kept_bytes) = server.object(thing("kept")).unwrap();
    server.update(at(2), thing("kept"), &json!({"spec": {"n": 2}})).unwrap();
    let newest = server.create(at(2), thing("lost"), json!({})).unwrap();
    let (lost_uid, ..) = server.object(thing("lost")).unwrap();
    let open = watch(&mut server, at(2), &format!("resourceVersion={newest}"));
    server.restore(&backup);
    assert_eq!(read(&mut server, at(3), open), ["Broken"]);
    assert_eq!(server.resource_version(), kept);
    assert_eq!(server.object(thing("kept")), Some((kept_uid, kept, kept_bytes)));
    assert_eq!(server.object(thing("lost")), None);
    // A watch from the lost future is told nothing of the new present: that is what makes a rewind dangerous.
    let silent = watch(&mut server, at(3), &format!("resourceVersion={newest}"));
    let again = server.create(at(3), thing("lost"), json!({})).unwrap();
    assert!(again < newest && read(&mut server, at(3), silent).is_empty());
    assert_ne!(server.object(thing("lost")).unwrap().0, lost_uid, "no uid is given twice");
    let next = server.create(at(3), thing("next"), json!({})).unwrap();
    assert_eq!(next, newest);
    server.create(at(3), thing("more"), json!({})).unwrap();
    assert_eq!(read(&mut server, at(3), silent), ["ADDED more"], "only what is newer than it asked for");
    let (status, list) = fetch(&mut server, at(4), &format!("{THINGS}?limit=1"));
    assert_eq!((status, list["metadata"]["resourceVersion"].as_str()), (200, Some(&*(newest + 1).to_string())));
}

#[test]
fn rights_are_taken_by_verb_and_given_back() {
    let mut server = server();
    server.create(at(1), thing("a"), json!({})).unwrap();
    server.deny("watch", "things.test.io");
    let watching = format!("{THINGS}?watch=1");
    let (status, refusal) = fetch(&mut server, at(1), &watching);
    assert_eq!((status, refusal["reason"].as_str()), (403, Some("Forbidden")));
    assert!(refusal["message"].as_str().unwrap().contains("cannot watch resource \"things\" in API group \"test.io\""));
    assert_eq!(fetch(&mut server, at(1), THINGS).0, 200, "listing is another right");
    server.allow("watch", "things.test.io");
    let stream = watch(&mut server, at(1), "");
    assert_eq!(read(&mut server, at(1), stream), ["ADDED a"]);
}

#[test]
fn failures_come_as_often_as_was_said() {
    let mut server = server();
    let expected = [
        (Failure::Initializing(7), 429, Some(7)),
        (Failure::Starting, 503, Some(5)),
        (Failure::Conversion, 500, None),
        (Failure::Unauthorized, 401, None),
    ];
    for (failure, status, after) in expected {
        server.unavailable(failure, 2);
        for _ in 0..2 {
            let answer = server.request(at(1), &Request::get(THINGS));
            assert_eq!((answer.status, answer.retry_after), (status, after), "{failure:?}");
        }
        assert_eq!(fetch(&mut server, at(1), THINGS).0, 200, "after {failure:?}");
    }
}

#[test]
fn bookmarks_come_each_minute_and_before_the_end_but_only_with_news() {
    let mut server = server();
    let start = server.create(at(0), thing("a"), json!({})).unwrap();
    let query = format!("resourceVersion={start}&allowWatchBookmarks=true&timeoutSeconds=200");
    let stream = watch(&mut server, at(0), &query);
    assert_eq!(server.stream_wakes_at(stream), Some(at(60)));
    assert!(read(&mut server, at(60), stream).is_empty(), "nothing has happened since it began");
    // What happens to other kinds is not known to this cache, until a consistent list asks etcd.
    let map = ObjectPath { group: "", resource: "configmaps", namespace: "default", name: "m" };
    server.create(at(70), map, json!({})).unwrap();
    assert!(read(&mut server, at(120), stream).is_empty());
    fetch(&mut server, at(130), THINGS);
    assert_eq!(read(&mut server, at(180), stream), ["BOOKMARK -"]);
    for moment in [198, 199] {
        assert_eq!(server.stream_wakes_at(stream), Some(at(moment)));
        assert_eq!(read(&mut server, at(moment), stream), ["BOOKMARK -"]);
    }
    assert_eq!(read(&mut server, at(200), stream), ["Ended"]);
    assert_eq!(server.stream_wakes_at(stream), None);
}

#[test]
fn a_long_run_holds_no_more_than_its_window() {
    let mut server = server();
    server.set_window(GROUP, "things", 50);
    let mut stream = watch(&mut server, at(0), "");
    for n in 0..20_000 {
        let name = format!("t{}", n % 10);
        match n / 10 % 3 {
            0 => drop(server.create(at(n), thing(&name), json!({"spec": {"n": n}})).unwrap()),
            1 => drop(server.update(at(n), thing(&name), &json!({"spec": {"n": n}})).unwrap()),
            _ => drop(server.delete(at(n), thing(&name)).unwrap()),
        }
        if n % 100 == 0 {
            server.compact();
            if read(&mut server, at(n), stream).iter().any(|seen| seen == "Ended") {
                stream = watch(&mut server, at(n), "");
            }
        }
    }
    server.compact();
    let held = server.held(GROUP, "things");
    assert!(held.objects <= 10 && held.events <= 150, "{held:?}");
}
