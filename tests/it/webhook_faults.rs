//! An endpoint that is in trouble is left alone as long as it asks, loses nothing, and is told all when it is back.

use std::time::{Duration, Instant};

use crate::support::{Cluster, Crier, Objects, Receiver, agrees};

const APPS: usize = 100;
const LIMIT: Duration = Duration::from_secs(45);
/// Requests of the webhook at once, by default.
const CONCURRENCY: usize = 8;

struct World {
    _cluster: Cluster,
    objects: Objects,
    receiver: Receiver,
    crier: Crier,
}

impl World {
    /// All objects are told, and the endpoint works.
    async fn start() -> Self {
        let (cluster, receiver) = tokio::join!(Cluster::start(), Receiver::start());
        let objects = Objects::of(&cluster);
        objects.install().await;
        for number in 0..APPS {
            objects.create(&format!("app-{number}")).await;
        }
        let configuration = format!(
            "sinks: {{ gateway: {{ webhook: {{ url: \"{}\" }} }} }}
routes:
  - {{ name: apps, watch: {{ resources: [myapps.example.com] }}, sinks: [gateway] }}
",
            receiver.url()
        );
        let mut crier = Crier::prepare(&cluster, &configuration);
        crier.start();
        let world = Self { _cluster: cluster, objects, receiver, crier };
        world.settle().await;
        world
    }

    async fn settle(&self) {
        self.crier.until_told(self.objects.mark().await, LIMIT).await;
        agrees(&self.receiver.events(), &self.objects.all().await).unwrap();
        let status = self.crier.status().await.unwrap();
        assert_eq!(status["feeds"][0]["routes"][0]["counters"]["rejected"], 0);
    }

    /// Answers like this for so long while every object changes; when each request came, since then.
    async fn trouble(&self, status: u16, retry_after: Option<u32>, duration: Duration) -> Vec<Duration> {
        self.receiver.answer(status, retry_after);
        let (began, before) = (Instant::now(), self.receiver.requests().len());
        for number in 0..APPS {
            self.objects.scale(&format!("app-{number}"), status.into()).await;
        }
        tokio::time::sleep(duration.saturating_sub(began.elapsed())).await;
        let requests = self.receiver.requests();
        self.receiver.answer(204, None);
        requests[before..].iter().map(|request| request.at - began).collect()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_webhook_that_answers_503_is_not_stormed_and_loses_nothing() {
    let world = World::start().await;
    let requests = world.trouble(503, None, Duration::from_secs(20)).await;
    // One burst of what was on its way, then one probe after each wait of 1, 2, 4, 8 s.
    assert!(!requests.is_empty() && requests.len() <= CONCURRENCY + 8, "{} requests: {requests:?}", requests.len());
    world.settle().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_webhook_that_answers_429_is_left_alone_as_long_as_it_asks() {
    let world = World::start().await;
    let requests = world.trouble(429, Some(6), Duration::from_secs(15)).await;
    let first = *requests.first().expect("it was asked at least once");
    let burst = requests.iter().filter(|at| **at < first + Duration::from_millis(1_500)).count();
    assert!(burst <= CONCURRENCY, "{requests:?}");
    let next = requests.iter().find(|at| **at >= first + Duration::from_millis(1_500)).expect("it was asked again");
    assert!(*next >= first + Duration::from_secs(6), "asked again too early: {requests:?}");
    assert!(requests.len() <= burst + 2, "one request after each wait: {requests:?}");
    world.settle().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_webhook_that_answers_401_rejects_nothing_and_heals() {
    let world = World::start().await;
    let requests = world.trouble(401, None, Duration::from_secs(20)).await;
    assert!(!requests.is_empty() && requests.len() <= CONCURRENCY + 8, "{} requests: {requests:?}", requests.len());
    let status = world.crier.status().await.unwrap();
    let error = status["feeds"][0]["routes"][0]["lastError"].as_str().unwrap();
    assert!(error.contains("401"), "{error}");
    world.settle().await;
}
