//! The NATS sink on a real nats-server: stored once, a missing stream rejects nothing, and a killed server heals.

use std::sync::Arc;
use std::time::Duration;

use async_nats::jetstream;
use crier::event::{Encoder, Event, Occurrence, PayloadMode, RouteAttributes};
use crier::model::{Cause, Epoch, Key, Origin, ResourceVersion, Sequence, Uid, Verdict, What};
use crier::sink::nats::{NatsConfig, NatsSink};
use crier::sink::{Delivery, Mode, Sink};
use futures::StreamExt;

use crate::support::Nats;

fn event(name: &str) -> Event {
    let route = RouteAttributes {
        cluster: "test".into(),
        group: "example.com".into(),
        resource: "myapps".into(),
        type_prefix: "dev.crier.resource".into(),
    };
    let now = "2026-01-01T00:00:00Z".parse().unwrap();
    let occurrence = Occurrence {
        what: What::Deleted,
        api_version: "example.com/v1",
        kind: "MyApp",
        key: &Key::new("team-a", name),
        uid: &Uid::new(&format!("uid-{name}")),
        sequence: Sequence::new(Epoch::new(1_700_000_000), ResourceVersion::new(7).unwrap()),
        rewinds: 0,
        cause: Cause::Change,
        object: None,
        inferred: true,
        sorts_after: true,
        origin: Origin::Relist,
        coalesced: 0,
        seen: now,
        recorded: now,
    };
    Encoder::new(route, PayloadMode::Object, Vec::new(), [7; 16]).encode(&occurrence).unwrap()
}

async fn sink(nats: &Nats, mode: Mode) -> NatsSink {
    let config = NatsConfig {
        servers: vec![nats.url()],
        stream: "CR".into(),
        subject: "cr.{resource}.{namespace}.{name}".parse().unwrap(),
        mode,
        timeout: Duration::from_secs(2),
    };
    NatsSink::connect(config).await.unwrap()
}

async fn deliver(sink: &NatsSink, name: &str) -> Verdict {
    sink.deliver(Delivery { route: Arc::from("apps/myapps/bus"), event: Arc::new(event(name)) }).await
}

/// Delivers as the engine would: again after every Retry.
async fn deliver_in_the_end(sink: &NatsSink, name: &str) {
    let delivered = async {
        loop {
            match deliver(sink, name).await {
                Verdict::Delivered => return,
                Verdict::Retry { .. } | Verdict::Unavailable { .. } => {
                    tokio::time::sleep(Duration::from_millis(20)).await
                }
                verdict => panic!("nothing is rejected: {verdict:?}"),
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(30), delivered).await.expect("it heals");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_are_stored_once_and_a_missing_stream_or_a_killed_server_rejects_nothing() {
    let mut nats = Nats::start().await;
    let (structured, binary) = (sink(&nats, Mode::Structured).await, sink(&nats, Mode::Binary).await);
    let verdict = deliver(&structured, "a").await;
    assert!(matches!(verdict, Verdict::Unavailable { .. }), "no stream yet: {verdict:?}");

    let context = jetstream::new(async_nats::connect(nats.url()).await.unwrap());
    let config = jetstream::stream::Config { name: "CR".into(), subjects: vec!["cr.>".into()], ..Default::default() };
    context.create_stream(config).await.unwrap();
    deliver_in_the_end(&structured, "a").await;
    assert_eq!(deliver(&structured, "a").await, Verdict::Delivered, "a repeat is acknowledged");
    deliver_in_the_end(&binary, "b.c").await;
    nats.kill();
    assert!(matches!(deliver(&structured, "d").await, Verdict::Retry { .. } | Verdict::Unavailable { .. }));
    nats.restart().await;
    deliver_in_the_end(&structured, "d").await;

    let stream = jetstream::new(async_nats::connect(nats.url()).await.unwrap()).get_stream("CR").await.unwrap();
    let consumer = stream.create_consumer(jetstream::consumer::pull::Config::default()).await.unwrap();
    let stored: Vec<_> = consumer.fetch().max_messages(10).messages().await.unwrap().collect().await;
    let messages: Vec<_> = stored.into_iter().map(|message| message.unwrap().message).collect();
    let subjects: Vec<&str> = messages.iter().map(|message| message.subject.as_str()).collect();
    assert_eq!(subjects, ["cr.myapps.team-a.a", "cr.myapps.team-a.b%2Ec", "cr.myapps.team-a.d"], "each once");
    assert_eq!(messages[0].payload, event("a").structured());
    let header =
        |message: usize, name: &str| messages[message].headers.as_ref().unwrap().get(name).unwrap().to_string();
    assert_eq!(header(0, "Content-Type"), "application/cloudevents+json");
    assert_eq!(header(0, "Nats-Msg-Id"), "apps/myapps/bus:uid-a-deleted");
    assert_eq!(Some(&*header(1, "ce-sequence")), event("b.c").attribute("sequence"));
    assert_eq!(Some(&messages[1].payload), event("b.c").data());
}
