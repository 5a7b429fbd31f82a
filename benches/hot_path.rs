//! What the way of one change costs in the process, step by step: time, allocations and bytes allocated, for an object of
//! 3 kB and one of 64 kB. It prints figures and judges nothing.

use std::hint::black_box;
use std::io::Write;
use std::time::Instant;

use bytes::Bytes;
use crier::event::{Encoder, Occurrence, PayloadMode, RouteAttributes};
use crier::kubernetes::{LineSplitter, WatchLine, read_watch_line};
use crier::model::{Cause, Epoch, Object, Origin, Sequence, What};

const ROUNDS: u32 = 2_000;

fn say(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}

/// A line of a watch whose object has about so many bytes.
fn line(bytes: usize) -> Bytes {
    let managed = r#"[{"apiVersion":"example.com/v1","fieldsType":"FieldsV1","fieldsV1":{"f:spec":{".":{},"f:config":{},"f:image":{},"f:replicas":{}}},"manager":"kubectl","operation":"Update","time":"2026-01-02T00:00:00Z"}]"#;
    let values: Vec<String> = (0..bytes / 40).map(|n| format!(r#""key-{n:06}":"value-{n:016}""#)).collect();
    let text = format!(
        r#"{{"type":"MODIFIED","object":{{"apiVersion":"example.com/v1","kind":"MyApp","metadata":{{"creationTimestamp":"2026-01-01T00:00:00Z","generation":3,"managedFields":{managed},"name":"shop","namespace":"team-a","resourceVersion":"42","uid":"01234567-89ab-cdef-0123-456789abcdef"}},"spec":{{"config":{{{}}},"image":"shop:1","replicas":3}}}}}}"#,
        values.join(",")
    );
    Bytes::from(text + "\n")
}

/// One figure of each kind, for one call.
fn measure<T>(step: &str, mut work: impl FnMut() -> T) {
    let allocated = allocation_counter::measure(|| {
        black_box(work());
    });
    let began = Instant::now();
    for _ in 0..ROUNDS {
        black_box(work());
    }
    let each = began.elapsed().as_secs_f64() * 1e6 / f64::from(ROUNDS);
    say(&format!(
        "  {step:<44} {each:>8.2} us  {:>3} allocations  {:>8} bytes allocated",
        allocated.count_total, allocated.bytes_total
    ));
}

fn read(line: &Bytes) -> Object {
    let mut splitter = LineSplitter::new(LineSplitter::DEFAULT_LIMIT);
    splitter.push(line.clone()).expect("the line is short");
    match read_watch_line(&splitter.next_line().expect("a line")).expect("a line of a watch") {
        WatchLine::Modified(object) => object,
        _ => panic!("a modification was made"),
    }
}

fn encoder() -> Encoder {
    let route = RouteAttributes {
        cluster: "prod".into(),
        group: "example.com".into(),
        resource: "myapps".into(),
        type_prefix: "dev.crier.resource".into(),
    };
    let omitted =
        ["metadata.managedFields", r#"metadata.annotations["kubectl.kubernetes.io/last-applied-configuration"]"#];
    Encoder::new(route, PayloadMode::Object, omitted.map(|path| path.parse().expect("a path")).into(), [7; 16])
}

fn main() {
    let encoder = encoder();
    for (name, bytes) in [("3 kB", 3_000), ("64 kB", 64_000)] {
        let line = line(bytes);
        say(&format!("an object of {name} ({} bytes in its line)", line.len()));
        let object = read(&line);
        let at = "2026-01-02T00:00:01Z".parse().expect("a time");
        let occurrence = Occurrence {
            what: What::Updated,
            api_version: "example.com/v1",
            kind: "MyApp",
            key: &object.metadata.key,
            uid: &object.metadata.uid,
            sequence: Sequence::new(Epoch::new(1_700_000_000), object.metadata.resource_version),
            rewinds: 0,
            cause: Cause::Change,
            object: Some(&object),
            inferred: false,
            sorts_after: false,
            origin: Origin::Watch,
            coalesced: 0,
            seen: at,
            recorded: at,
        };
        let event = encoder.encode(&occurrence).expect("an event");
        measure("a line read: metadata parsed, bytes shared", || read(&line));
        measure("its fingerprint", || encoder.change_fingerprint(&object));
        measure("its event", || encoder.encode(&occurrence));
        measure("the event in structured mode", || event.structured());
    }
}
