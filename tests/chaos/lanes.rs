//! Does what the schedule says: each lane on its own, all at once. When a lane has ended, what it broke is whole again.

use std::time::Duration;

use serde_json::{Value, json};

use super::faults::{Fault, Lane, Planned};
use super::history::Recorder;
use super::support::{Cluster, Crier, DEFINITIONS, Objects, Proxy, Receiver, eventually};
use super::trace::Trace;
use super::world::{KINDS, Paths, World};

/// A definition is changed within this time while the API server is there, and crier has begun.
const LIMIT: Duration = Duration::from_secs(30);

const PATIENCE: Duration = Duration::from_secs(5);
/// More than what begins a connection with TLS, less than a list or a batch.
const TORN_AFTER: usize = 12_000;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    Begin,
    End,
}

/// All lanes, until each has done all of its faults.
pub(crate) async fn run(plan: &[Planned], world: &mut World, trace: &Trace) {
    let World { cluster, kafka, nats, receiver, paths, objects, crier, recorder } = world;
    let (receiver, recorder, objects): (&Receiver, &Recorder, &Objects) = (receiver, recorder, objects);
    let Paths { api_server, kafka: to_kafka, nats: to_nats, receiver: to_receiver } = &*paths;
    let kafka_lane = lane(Lane::Kafka, plan, trace, async |fault, step| match (fault, step) {
        (Fault::Kill, Step::Begin) => kafka.kill(),
        (Fault::Kill, Step::End) => kafka.restart().await,
        (_, Step::Begin) => kafka.stop(),
        (_, Step::End) => kafka.resume(),
    });
    let nats_lane = lane(Lane::Nats, plan, trace, async |fault, step| match (fault, step) {
        (Fault::Kill, Step::Begin) => nats.kill(),
        (Fault::Kill, Step::End) => nats.restart().await,
        (_, Step::Begin) => nats.signal("STOP"),
        (_, Step::End) => nats.signal("CONT"),
    });
    tokio::join!(
        lane(Lane::Crier, plan, trace, async |fault, step| {
            if (fault, step) == (Fault::KillBlind, Step::End) {
                // As well as it goes: the API server may be what is broken just now.
                let _ = tokio::time::timeout(PATIENCE, edit(objects)).await;
            }
            crier_fault(crier, trace, fault, step).await;
        }),
        lane(Lane::Cluster, plan, trace, async |fault, step| {
            cluster_fault(cluster, objects, recorder, fault, step).await;
        }),
        kafka_lane,
        nats_lane,
        lane(Lane::Receiver, plan, trace, async |fault, step| receiver_fault(receiver, fault, step)),
        lane(Lane::PathToApiServer, plan, trace, async |fault, step| path_fault(api_server, fault, step)),
        lane(Lane::PathToKafka, plan, trace, async |fault, step| path_fault(to_kafka, fault, step)),
        lane(Lane::PathToNats, plan, trace, async |fault, step| path_fault(to_nats, fault, step)),
        lane(Lane::PathToReceiver, plan, trace, async |fault, step| path_fault(to_receiver, fault, step)),
    );
}

async fn lane(lane: Lane, plan: &[Planned], trace: &Trace, mut act: impl AsyncFnMut(Fault, Step)) {
    for planned in plan.iter().filter(|planned| planned.lane == lane) {
        tokio::time::sleep_until((trace.began() + planned.at).into()).await;
        let kind = format!("{lane:?} {:?}", planned.fault);
        trace.count(&kind);
        trace.note(&format!("{kind} for {} ms", planned.lasts.as_millis()));
        act(planned.fault, Step::Begin).await;
        tokio::time::sleep(planned.lasts).await;
        act(planned.fault, Step::End).await;
        trace.note(&format!("{kind} is over"));
    }
}

async fn crier_fault(crier: &mut Crier, trace: &Trace, fault: Fault, step: Step) {
    if step == Step::End {
        return if fault == Fault::Stop { crier.signal("CONT") } else { crier.start() };
    }
    if !crier.is_running() {
        trace.broken("crier has ended by itself".to_owned());
        crier.kill();
        trace.death();
        crier.start();
    }
    match fault {
        Fault::Stop => crier.signal("STOP"),
        Fault::Terminate => {
            // In its first moments a process does not yet know what to do about SIGTERM, and has nothing to finish.
            eventually("crier answers on its port", LIMIT, async || crier.get("/livez").await).await;
            let ended = crier.try_terminate().await;
            trace.death();
            if ended != Ok(0) {
                trace.broken(format!("crier does not end well after SIGTERM: {ended:?}"));
            }
        }
        _ => {
            crier.kill();
            trace.death();
        }
    }
}

async fn cluster_fault(cluster: &mut Cluster, objects: &Objects, recorder: &Recorder, fault: Fault, step: Step) {
    match (fault, step) {
        (Fault::Stop, Step::Begin) => cluster.signal_api_server("STOP"),
        (Fault::Stop, Step::End) => cluster.signal_api_server("CONT"),
        (Fault::StopEtcd, Step::Begin) => cluster.signal_etcd("STOP"),
        (Fault::StopEtcd, Step::End) => cluster.signal_etcd("CONT"),
        (Fault::Compact, Step::Begin) => cluster.compact().await,
        (Fault::LoseHistory, Step::Begin) => {
            cluster.compact().await;
            cluster.kill_api_server();
        }
        (Fault::EditKind, Step::Begin) => edit(objects).await,
        (Fault::Rewind, Step::Begin) => cluster.copy_etcd(),
        (Fault::Rewind, Step::End) => {
            recorder.begin_life(cluster.put_etcd_back().await);
            cluster.restart_api_server().await;
        }
        (Fault::Compact | Fault::EditKind, Step::End) => {}
        (_, Step::Begin) => cluster.kill_api_server(),
        (_, Step::End) => cluster.restart_api_server().await,
    }
}

/// Changes no object, and how none of them is read; the API server ends all watches of the kinds all the same.
async fn edit(objects: &Objects) {
    for kind in KINDS {
        let path = format!("{DEFINITIONS}/{}", kind.definition);
        let edited = async || {
            let mut definition = within(objects.call("GET", &path, None)).await?;
            let schema = &mut definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
            schema["description"] = json!(format!("edited at {}", jiff::Timestamp::now()));
            within(objects.call("PUT", &path, Some(definition))).await
        };
        eventually("a definition is changed", LIMIT, edited).await;
    }
}

async fn within(call: impl Future<Output = kube::Result<Value>>) -> Option<Value> {
    tokio::time::timeout(PATIENCE, call).await.ok()?.ok()
}

fn receiver_fault(receiver: &Receiver, fault: Fault, step: Step) {
    match (fault, step) {
        (_, Step::End) => receiver.answer(204, None),
        (Fault::Refuse503, _) => receiver.answer(503, None),
        (Fault::Refuse429, _) => receiver.answer(429, Some(2)),
        (Fault::KeepAndFail, _) => receiver.answer_wrongly(),
        (_, Step::Begin) => receiver.hang(),
    }
}

fn path_fault(path: &Proxy, fault: Fault, step: Step) {
    match (fault, step) {
        (Fault::Cut, Step::Begin) => path.cut(),
        (Fault::Cut, Step::End) => {}
        (Fault::Tear, _) => path.tear((step == Step::Begin).then_some(TORN_AFTER)),
        (Fault::Stall, _) => path.stall(step == Step::Begin),
        (Fault::HalfOpen, Step::Begin) => path.forget(),
        // Whoever writes to a connection that nobody knows any more is told so in the end.
        (Fault::HalfOpen, Step::End) => path.cut(),
        (_, _) => path.close(step == Step::Begin),
    }
}
