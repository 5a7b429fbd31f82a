//! A kill -9 loses nothing, whenever it comes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::support::{Consumer, Everything};

const KILLS: usize = 20;
const APPS: usize = 60;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_twenty_times_under_a_writer_loses_nothing_and_steps_back_nowhere() {
    let mut all = Everything::start().await;
    let done = Arc::new(AtomicBool::new(false));
    let writer = tokio::spawn(write(all.objects.clone(), Arc::clone(&done)));
    let mut random = StdRng::seed_from_u64(20);
    for _ in 0..KILLS {
        all.crier.start();
        tokio::time::sleep(Duration::from_millis(random.random_range(50..1_500))).await;
        all.crier.kill();
    }
    all.crier.start();
    done.store(true, Ordering::Relaxed);
    let writes = writer.await.unwrap();
    assert!(writes > 500, "the writer went on: {writes} writes");
    let events = all.settle(Duration::from_secs(120)).await;
    let mut repeats = 0;
    for (sink, events) in &events {
        // Reading fails where a sequence steps back or an id stands for two changes.
        let mut consumer = Consumer::default();
        consumer.read(events);
        assert!(consumer.newest.len() > APPS / 2, "{sink}");
        repeats += consumer.repeats;
    }
    // Where nothing was ever repeated, no kill has hit a delivery, and the test has shown little.
    assert!(repeats > 0, "no kill came between a delivery and its record");
    assert_eq!(all.crier.terminate().await, 0);
}

/// Creates, changes and deletes objects until it is told to end; how many writes it made.
async fn write(objects: crate::support::Objects, done: Arc<AtomicBool>) -> usize {
    let mut random = StdRng::seed_from_u64(1);
    let mut present = [false; APPS];
    let mut writes = 0;
    while !done.load(Ordering::Relaxed) {
        let number = random.random_range(0..APPS);
        let name = format!("app-{number}");
        if !present[number] {
            objects.create(&name).await;
            present[number] = true;
        } else if random.random_range(0..10) == 0 {
            objects.delete(&name).await;
            present[number] = false;
        } else {
            objects.scale(&name, random.random_range(1..1_000_000)).await;
        }
        writes += 1;
    }
    writes
}
