//! One feed's driver, begun again when it dies. What it had under way has ended before the next one begins.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::board::Board;
use crate::driver::{Driver, DriverFeed, SharedStore};
use crate::kubernetes::Connection;

const BACKOFF: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

pub(super) struct Feed {
    pub(super) number: usize,
    pub(super) feed: DriverFeed,
    pub(super) connection: Arc<Connection>,
    pub(super) store: SharedStore,
    pub(super) board: Arc<Board>,
}

impl Feed {
    /// Runs the feed until `stop` turns true and it is drained.
    pub(super) async fn run(self, mut stop: watch::Receiver<bool>) {
        let (mut wait, longest) = BACKOFF;
        loop {
            let Err(reason) = self.drive(stop.clone()).await else { return };
            tracing::error!(feed = self.feed.name, reason, "the feed's driver has died and is started again");
            self.board.driver_failed(self.number, reason);
            tokio::select! {
                () = tokio::time::sleep(wait) => wait = (wait * 2).min(longest),
                _ = stop.wait_for(|stop| *stop) => return,
            }
        }
    }

    async fn drive(&self, stop: watch::Receiver<bool>) -> Result<(), String> {
        let (feed, connection) = (self.feed.clone(), Arc::clone(&self.connection));
        let (store, board, number) = (Arc::clone(&self.store), Arc::clone(&self.board), self.number);
        // All of it in a task of its own, so that nothing of it can end the supervision.
        let mut task = tokio::task::JoinSet::new();
        task.spawn(async move {
            let driver = Driver::new(feed, connection, store, rand::random());
            let (driver, status, beat) = driver.map_err(|error| format!("{:#}", anyhow::Error::new(error)))?;
            board.driver_began(number, status, beat);
            driver.run(stop).await;
            Ok(())
        });
        match task.join_next().await {
            Some(Ok(ended)) => ended,
            Some(Err(error)) => Err(error.to_string()),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures::FutureExt;
    use futures::future::BoxFuture;
    use http::{Request, Response};
    use kube::client::Body;

    use super::super::{build, plan, sinks};
    use super::*;
    use crate::config::parse;
    use crate::engine::Lives;
    use crate::model::Verdict;
    use crate::sink::{Delivery, Sink};
    use crate::store::MemoryStore;

    /// An API server with one object that never changes.
    async fn answer(request: Request<Body>) -> Result<Response<Body>, std::convert::Infallible> {
        const OBJECT: &str = r#"{"apiVersion":"example.com/v1","kind":"MyApp","metadata":{"name":"shop","namespace":"a","uid":"u","resourceVersion":"4"}}"#;
        let query = request.uri().query().unwrap_or_default();
        let body = match request.uri().path() {
            "/apis/example.com" => r#"{"versions":[{"version":"v1"}]}"#.to_owned(),
            "/apis/example.com/v1" => {
                r#"{"resources":[{"name":"myapps","kind":"MyApp","namespaced":true}]}"#.to_owned()
            }
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/myapps.example.com" => "{}".to_owned(),
            "/apis/example.com/v1/namespaces/a/myapps/shop" => OBJECT.to_owned(),
            _ if query.contains("sendInitialEvents") => format!(
                r#"{{"type":"ADDED","object":{OBJECT}}}
{{"type":"BOOKMARK","object":{{"metadata":{{"resourceVersion":"5","annotations":{{"k8s.io/initial-events-end":"true"}}}}}}}}
"#
            ),
            _ if query.contains("limit=1") => r#"{"metadata":{"resourceVersion":"5"},"items":[]}"#.to_owned(),
            // A watch that tells nothing.
            _ => return std::future::pending().await,
        };
        Ok(Response::new(Body::from(body.into_bytes())))
    }

    /// Panics once: in the driver's own loop, or in the task of the delivery.
    struct Panicking {
        in_task: bool,
        asked: AtomicUsize,
        ids: Mutex<Vec<String>>,
    }

    impl Sink for Panicking {
        fn deliver(&self, delivery: Delivery) -> BoxFuture<'static, Verdict> {
            self.ids.lock().unwrap().push(delivery.event.id().to_owned());
            let first = self.asked.fetch_add(1, Ordering::Relaxed) == 0;
            assert!(!first || self.in_task, "as a defect would");
            async move {
                assert!(!first, "as a defect would");
                Verdict::Delivered
            }
            .boxed()
        }
    }

    #[tokio::test]
    async fn a_driver_that_dies_is_begun_again_counted_and_loses_nothing() {
        for in_task in [false, true] {
            let panicking = Panicking { in_task, asked: AtomicUsize::new(0), ids: Mutex::default() };
            die_and_be_begun_again(panicking).await;
        }
    }

    async fn die_and_be_begun_again(sink: Panicking) {
        let text = "cluster: test\nstate: memory\nsinks: { out: { stdout: {} } }\nroutes:\n  - { name: apps, watch: { resources: [myapps.example.com] }, sinks: [out] }\n";
        let config = parse(text, "f").unwrap();
        let planned = plan(&config, &|_| true).unwrap().remove(0);
        let sink = Arc::new(sink);
        let made = sinks::MadeSink { sink: Arc::clone(&sink) as Arc<dyn Sink>, max_in_flight: 1 };
        let store: SharedStore = Arc::new(Mutex::new(MemoryStore::new(1, [7; 16])));
        let board = Arc::new(Board::new());
        let (_audits, audits) = watch::channel(0);
        let surroundings = build::Surroundings {
            config: &config,
            cluster: "test",
            sinks: &[("out".to_owned(), made)].into(),
            store: &store,
            lives: &Lives::default(),
            labelled: &build::Labelled::new(),
            audits: &audits,
        };
        let feed = Feed {
            number: 0,
            feed: build::feed(&planned, &surroundings),
            connection: Connection::of_client(kube::Client::new(tower::service_fn(answer), "default")),
            store,
            board: Arc::clone(&board),
        };
        board.begin([planned.name.clone()].into_iter());
        let (stop, stopped) = watch::channel(false);
        let running = tokio::spawn(feed.run(stopped));
        let told = async {
            loop {
                let status = board.status().feeds.remove(0);
                if status.routes.first().is_some_and(|route| route.counters.delivered == 1) {
                    return status;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let status = tokio::time::timeout(Duration::from_secs(20), told).await.expect("it is told in the end");
        assert_eq!(status.restarts, 1);
        let ids = sink.ids.lock().unwrap().clone();
        assert_eq!(ids.len(), 2);
        assert_eq!(ids[0], ids[1], "what may have been told is told again, with the id that it had");
        stop.send_replace(true);
        tokio::time::timeout(Duration::from_secs(20), running).await.expect("it drains").unwrap();
    }
}
