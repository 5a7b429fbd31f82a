//! A sink that stops answering costs neither events nor memory, and slows no other sink.

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::{Everything, agrees};

const STOPPED: Duration = Duration::from_secs(60);
const AFTER: Duration = Duration::from_secs(30);
const APPS: usize = 50;

fn route<'a>(status: &'a Value, sink: &str) -> &'a Value {
    let routes = status["feeds"][0]["routes"].as_array().unwrap();
    routes.iter().find(|route| route["route"].as_str().unwrap().ends_with(sink)).unwrap()
}

/// Writes for so long, and looks every few seconds whether the other sinks are as the cluster is.
async fn write_while_others_stay_current(all: &Everything, duration: Duration) {
    let began = Instant::now();
    let mut round = 0;
    while began.elapsed() < duration {
        round += 1;
        for number in 0..APPS {
            all.objects.scale(&format!("app-{number}"), round).await;
        }
        let version = all.objects.mark().await;
        let current = |status: &Value| {
            let feed = &status["feeds"][0];
            feed["resourceVersion"].as_str().is_some_and(|at| at.parse::<u128>().unwrap() >= version)
                && ["nats", "webhook", "stdout"].iter().all(|sink| route(status, sink)["owed"] == 0)
        };
        all.crier.until("the other sinks are current", Duration::from_secs(5), current).await;
        let cluster = all.objects.all().await;
        agrees(&all.receiver.events(), &cluster).unwrap();
        agrees(&all.crier.lines("stdout"), &cluster).unwrap();
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kafka_that_hangs_and_then_dies_loses_nothing_and_slows_no_other_sink() {
    let mut all = Everything::start().await;
    for number in 0..APPS {
        all.objects.create(&format!("app-{number}")).await;
    }
    all.crier.start();
    all.settle(Duration::from_secs(30)).await;
    let before = all.crier.resident();

    all.kafka.stop();
    write_while_others_stay_current(&all, STOPPED / 3).await;
    // A restart in the middle of the outage resumes: what is owed holds the position back nowhere.
    all.crier.kill();
    all.crier.start();
    let limit = Duration::from_secs(15);
    let status = all.crier.until("it follows again", limit, |status| status["feeds"][0]["caughtUp"] == true).await;
    assert_eq!(route(&status, "kafka")["counters"]["comparisons"], 0, "it has listed: {status:#}");
    write_while_others_stay_current(&all, STOPPED * 2 / 3).await;
    let status = all.crier.status().await.unwrap();
    assert!(route(&status, "kafka")["owed"].as_u64().unwrap() > 0, "Kafka is behind");
    let error = route(&status, "kafka")["lastError"].as_str().expect("and the status says so");
    assert!(error.starts_with("no answer to"), "{error}");
    let during = all.crier.resident();
    assert!(during < before + (16 << 10), "memory grew from {before} to {during} KiB");

    all.kafka.resume();
    write_while_others_stay_current(&all, AFTER).await;
    all.kafka.kill();
    for number in 0..APPS {
        all.objects.delete(&format!("app-{number}")).await;
    }
    all.kafka.restart().await;
    all.settle(Duration::from_secs(60)).await;
}
