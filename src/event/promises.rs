//! What consumers may rely on in an event, each as a test; the SDK that others wrote reads what comes out.

use std::sync::Arc;

use bytes::Bytes;
use cloudevents::AttributesReader;
use serde_json::{Value, json};

use super::*;
use crate::model::{Cause, Epoch, Key, Metadata, Object, Origin, ResourceVersion, Sequence, Uid, What};

const TEXT: &str = r#"{"apiVersion":"example.com/v1","kind":"MyApp","metadata":{"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"{}","note":"\"é\""},"managedFields":[{"manager":"kubectl","time":"2026-01-02T00:00:00Z"}],"name":"shop","namespace":"team-a","resourceVersion":"42","uid":"u-1"},"spec":{"image":"shop:1","ratio":1.0}}"#;

fn object(text: &str, at: u128) -> Object {
    let metadata = Metadata {
        api_version: "example.com/v1".into(),
        kind: "MyApp".into(),
        key: Key::new("team-a", "shop"),
        uid: Uid::new("u-1"),
        resource_version: ResourceVersion::new(at).unwrap(),
        generation: Some(3),
        creation_timestamp: Some("2026-01-01T00:00:00Z".into()),
        deletion_timestamp: None,
        last_write: Some("2026-01-02T00:00:00Z".into()),
        field_manager: Some("kubectl".into()),
    };
    Object { metadata: Arc::new(metadata), bytes: Bytes::copy_from_slice(text.as_bytes()) }
}

fn encoder(mode: PayloadMode, omitted: &[&str]) -> Encoder {
    let route = RouteAttributes {
        cluster: "prod".into(),
        group: "example.com".into(),
        resource: "myapps".into(),
        type_prefix: "dev.crier.resource".into(),
    };
    Encoder::new(route, mode, omitted.iter().map(|path| path.parse().unwrap()).collect(), [7; 16])
}

const OMITTED: &[&str] =
    &["metadata.managedFields", r#"metadata.annotations["kubectl.kubernetes.io/last-applied-configuration"]"#];

fn occurrence<'a>(what: What, object: &'a Object) -> Occurrence<'a> {
    Occurrence {
        what,
        api_version: "example.com/v1",
        kind: "MyApp",
        key: &object.metadata.key,
        uid: &object.metadata.uid,
        sequence: Sequence::new(Epoch::new(1_700_000_000), object.metadata.resource_version),
        rewinds: 0,
        cause: Cause::Change,
        object: Some(object),
        inferred: false,
        sorts_after: false,
        origin: Origin::Watch,
        coalesced: 2,
        seen: "2026-01-02T00:00:01Z".parse().unwrap(),
        recorded: "2026-01-02T00:00:02Z".parse().unwrap(),
    }
}

fn inferred(object: &Object) -> Occurrence<'_> {
    Occurrence {
        what: What::Deleted,
        object: None,
        inferred: true,
        sorts_after: true,
        coalesced: 0,
        ..occurrence(What::Deleted, object)
    }
}

fn parsed(event: &Event) -> Value {
    serde_json::from_slice(&event.structured()).unwrap()
}

/// An event of an object with this name, for the tests of other rooms.
pub(crate) fn sample(name: &str) -> Event {
    let object = object(TEXT, 42);
    let key = Key::new("team-a", name);
    let occurrence = Occurrence { key: &key, ..occurrence(What::Updated, &object) };
    encoder(PayloadMode::Object, OMITTED).encode(&occurrence).unwrap()
}

#[test]
fn an_event_has_all_its_attributes_and_the_object_minus_what_is_omitted() {
    let object = object(TEXT, 42);
    let event = encoder(PayloadMode::Object, OMITTED).encode(&occurrence(What::Updated, &object)).unwrap();
    let mut read = parsed(&event);
    let id = read["id"].take();
    assert!(id.as_str().unwrap().starts_with("u-1-42-updated-") && !id.as_str().unwrap().contains('.'));
    let expected = json!({
        "specversion": "1.0", "id": null, "source": "/clusters/prod/apis/example.com/myapps",
        "type": "dev.crier.resource.updated", "subject": "team-a/shop", "time": "2026-01-02T00:00:00Z",
        "recordedtime": "2026-01-02T00:00:02Z", "dataschema": "urn:crier:payload:object:v1",
        "partitionkey": "prod/example.com/myapps/team-a/shop", "sequence": "1700000000-00000000000000000042",
        "cluster": "prod", "apigroup": "example.com", "apiversion": "example.com/v1", "kind": "MyApp",
        "namespace": "team-a", "name": "shop", "uid": "u-1", "resourceversion": "42", "generation": "3",
        "origin": "watch", "coalesced": "2", "fieldmanager": "kubectl", "datacontenttype": "application/json",
        "data": {
            "apiVersion": "example.com/v1", "kind": "MyApp",
            "metadata": {"annotations": {"note": "\"é\""}, "name": "shop", "namespace": "team-a", "resourceVersion": "42", "uid": "u-1"},
            "spec": {"image": "shop:1", "ratio": 1.0}
        }
    });
    assert_eq!(read, expected);
}

#[test]
fn the_sdk_that_others_wrote_reads_every_event_and_agrees() {
    let object = object(TEXT, 42);
    for mode in [PayloadMode::Object, PayloadMode::Metadata, PayloadMode::Reference] {
        let encoder = encoder(mode, OMITTED);
        for occurrence in [occurrence(What::Created, &object), inferred(&object)] {
            let event = encoder.encode(&occurrence).unwrap();
            let read = cloudevents::Event::try_from(&event).unwrap();
            assert_eq!((read.id(), read.subject()), (event.id(), event.attribute("subject")));
            assert_eq!(read.ty(), event.attribute("type").unwrap());
            for (name, value) in read.iter_extensions() {
                assert_eq!(event.attribute(name), Some(&*value.to_string()), "{name}");
            }
            assert_eq!(read.iter_extensions().count() + 7, event.attributes().count());
            let back = Event::try_from(&read).unwrap();
            assert_eq!((back.id(), back.partition_key()), (event.id(), event.partition_key()));
            assert_eq!(parsed(&back)["data"], parsed(&event)["data"]);
        }
    }
}

#[test]
fn bytes_pass_through_when_nothing_is_omitted() {
    let object = object(TEXT, 42);
    let event = encoder(PayloadMode::Object, &[]).encode(&occurrence(What::Created, &object)).unwrap();
    assert_eq!(event.data().unwrap().as_ptr(), object.bytes.as_ptr(), "not copied");
    assert!(String::from_utf8_lossy(&event.structured()).ends_with(&format!("\"data\":{TEXT}}}")));
}

#[test]
fn one_change_has_one_id_in_every_payload_mode_and_another_change_another() {
    let first = object(TEXT, 42);
    let id =
        |mode, what, object: &Object| encoder(mode, OMITTED).encode(&occurrence(what, object)).unwrap().id().to_owned();
    let updated = id(PayloadMode::Object, What::Updated, &first);
    assert_eq!(updated, id(PayloadMode::Metadata, What::Updated, &first));
    assert_eq!(updated, id(PayloadMode::Reference, What::Updated, &first));
    assert_ne!(updated, id(PayloadMode::Object, What::Created, &first));
    assert_ne!(updated, id(PayloadMode::Object, What::Updated, &object(&TEXT.replace("shop:1", "shop:2"), 42)));
    assert_ne!(updated, id(PayloadMode::Object, What::Updated, &object(TEXT, 43)));
}

#[test]
fn a_seen_and_an_inferred_deletion_are_one_event_and_the_inferred_one_sorts_before_a_successor() {
    let object = object(TEXT, 42);
    let encoder = encoder(PayloadMode::Object, OMITTED);
    let seen = encoder.encode(&occurrence(What::Deleted, &object)).unwrap();
    let inferred = encoder.encode(&inferred(&object)).unwrap();
    assert_eq!((seen.id(), inferred.id()), ("u-1-deleted", "u-1-deleted"));
    let sequence = inferred.attribute("sequence").unwrap();
    assert!(seen.attribute("sequence").unwrap() < sequence && sequence < "1700000000-00000000000000000043");
    assert_eq!(inferred.attribute("inferred"), Some("true"));
    let reference = json!({"apiVersion": "example.com/v1", "kind": "MyApp", "namespace": "team-a", "name": "shop",
        "uid": "u-1", "resourceVersion": "42"});
    assert_eq!(parsed(&inferred)["data"], reference, "no body is invented");
}

#[test]
fn writes_that_change_nothing_that_is_chosen_have_one_fingerprint() {
    let encoder = encoder(PayloadMode::Object, OMITTED);
    let fingerprint = |text: &str| encoder.change_fingerprint(&object(text, 42)).unwrap();
    let first = fingerprint(TEXT);
    assert_eq!(first, fingerprint(&TEXT.replace(r#""resourceVersion":"42""#, r#""resourceVersion":"43""#)));
    assert_eq!(first, fingerprint(&TEXT.replace(r#""manager":"kubectl""#, r#""manager":"controller""#)));
    assert_eq!(first, fingerprint(&TEXT.replace(r#"configuration":"{}""#, r#"configuration":"{1}""#)));
    assert_ne!(first, fingerprint(&TEXT.replace(r#""note""#, r#""other""#)));
    assert_ne!(first, fingerprint(&TEXT.replace("shop:1", "shop:2")));
}

#[test]
fn neither_data_nor_secrets_are_in_the_debug_text() {
    let object = object(TEXT, 42);
    let event = encoder(PayloadMode::Object, &[]).encode(&occurrence(What::Created, &object)).unwrap();
    assert!(!format!("{event:?}").contains("shop:1"));
}

#[test]
fn another_life_selection_or_resync_is_another_event_and_what_has_left_shows_nothing() {
    let object = object(TEXT, 42);
    let encoder = encoder(PayloadMode::Object, OMITTED);
    let id = |occurrence: &Occurrence<'_>| encoder.encode(occurrence).unwrap().id().to_owned();
    let plain = occurrence(What::Updated, &object);
    let rewound = Occurrence { rewinds: 2, ..plain.clone() };
    assert_eq!(id(&rewound), format!("{}-e2", id(&plain)));
    let edited = Occurrence { rewinds: 2, cause: Cause::Selection(3), ..plain.clone() };
    assert_eq!(id(&edited), format!("{}-e2-s3", id(&plain)));
    let again = Occurrence { cause: Cause::Resync(1), ..plain.clone() };
    assert_eq!(id(&again), format!("{}-r1", id(&plain)));
    let left = Occurrence { what: What::Left, object: None, ..plain };
    let event = encoder.encode(&left).unwrap();
    assert_eq!(event.id(), "u-1-42-left");
    assert_eq!(event.attribute("dataschema"), Some("urn:crier:payload:reference:v1"));
    let deleted = Occurrence { rewinds: 1, ..inferred(&object) };
    assert_eq!(id(&deleted), "u-1-deleted-e1");
}
