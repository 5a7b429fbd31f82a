//! Every metric: its name, its labels, and what it means (OpenMetrics 1.0). They are made of the status when asked for,
//! so that nothing is counted twice.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;

use crate::model::{FeedPhase, FeedStatus, ProcessStatus, RouteReport};

/// The metrics of this status as OpenMetrics text.
pub fn render(status: ProcessStatus) -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Metrics(status)));
    let mut text = String::new();
    // Writing into a string does not fail.
    let _ = encode(&mut text, &registry);
    text
}

#[derive(Debug)]
struct Metrics(ProcessStatus);

type Labels<'a> = Vec<(&'static str, &'a str)>;

enum Kind {
    Gauge,
    Counter,
}

struct RouteMetric {
    kind: Kind,
    name: &'static str,
    help: &'static str,
    samples: fn(&RouteReport) -> Vec<Sample>,
}

/// Label and value beside `feed` and `route`, and the number.
type Sample = (Option<(&'static str, &'static str)>, u64);

const ROUTE_METRICS: &[RouteMetric] = &[
    RouteMetric {
        kind: Kind::Gauge,
        name: "crier_route_told_objects",
        help: "Objects whose state the sink has acknowledged",
        samples: |route| vec![(None, route.told as u64)],
    },
    RouteMetric {
        kind: Kind::Gauge,
        name: "crier_route_owed_objects",
        help: "Objects of which something is still to be told",
        samples: |route| vec![(None, route.owed as u64)],
    },
    RouteMetric {
        kind: Kind::Gauge,
        name: "crier_route_in_flight_deliveries",
        help: "Deliveries without an answer yet",
        samples: |route| vec![(None, route.in_flight as u64)],
    },
    RouteMetric {
        kind: Kind::Gauge,
        name: "crier_route_failing",
        help: "Whether the last delivery failed: 1 from an error until a delivery succeeds",
        samples: |route| vec![(None, u64::from(route.last_error.is_some()))],
    },
    RouteMetric {
        kind: Kind::Gauge,
        name: "crier_route_gone",
        help: "Whether the endpoint has asked not to be called again",
        samples: |route| vec![(None, u64::from(route.gone))],
    },
    RouteMetric {
        kind: Kind::Counter,
        name: "crier_route_deliveries",
        help: "Deliveries by the sink's verdict",
        samples: |route| {
            vec![
                (Some(("verdict", "delivered")), route.counters.delivered),
                (Some(("verdict", "retry")), route.counters.retried),
                (Some(("verdict", "reject")), route.counters.rejected),
                (Some(("verdict", "unavailable")), route.counters.unavailable),
            ]
        },
    },
    RouteMetric {
        kind: Kind::Counter,
        name: "crier_route_untold_changes",
        help: "Changes that led to no event of their own: repeats, no-ops, and those merged into a later one",
        samples: |route| {
            vec![
                (Some(("reason", "repeat")), route.counters.repeats),
                (Some(("reason", "unchanged")), route.counters.suppressed),
                (Some(("reason", "coalesced")), route.counters.coalesced),
            ]
        },
    },
    RouteMetric {
        kind: Kind::Counter,
        name: "crier_route_comparisons",
        help: "Complete lists that were compared with what is told",
        samples: |route| vec![(None, route.counters.comparisons)],
    },
    RouteMetric {
        kind: Kind::Counter,
        name: "crier_route_drift",
        help: "Differences that an audit found and no watch had told of",
        samples: |route| vec![(None, route.counters.drift)],
    },
];

impl Collector for Metrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let build = vec![((vec![("version", self.0.version)]), 1)];
        family(&mut encoder, &Kind::Gauge, "crier_build_info", "The version that runs", build)?;
        let feeds = || self.0.feeds.iter();
        let states = feeds().flat_map(|feed| {
            FeedPhase::ALL
                .map(|phase| (vec![("feed", &*feed.feed), ("state", phase.as_str())], u64::from(feed.state == phase)))
        });
        let help = "What the feed is doing: 1 for its present state";
        family(&mut encoder, &Kind::Gauge, "crier_feed_state", help, states.collect())?;
        let of_feed =
            |value: fn(&FeedStatus) -> u64| feeds().map(move |feed| (vec![("feed", &*feed.feed)], value(feed)));
        let help = "Whether the feed has followed the changes at least once since the start";
        let caught_up = of_feed(|feed| feed.caught_up.into()).collect();
        family(&mut encoder, &Kind::Gauge, "crier_feed_caught_up", help, caught_up)?;
        let help = "Bytes of objects that wait to be told; above a budget they are let go and fetched again";
        let held = of_feed(|feed| feed.held_bytes as u64).collect();
        family(&mut encoder, &Kind::Gauge, "crier_feed_held_bytes", help, held)?;
        let help = "Whether the feed's state cannot be saved: nothing is sent meanwhile";
        let failing = of_feed(|feed| feed.state_error.is_some().into()).collect();
        family(&mut encoder, &Kind::Gauge, "crier_feed_save_failing", help, failing)?;
        let help = "How often the feed's driver has died and was started again";
        family(&mut encoder, &Kind::Counter, "crier_feed_restarts", help, of_feed(|feed| feed.restarts).collect())?;
        let help = "Answers of the API server that could not be read; the collection stands still while there are such";
        let unreadable = of_feed(|feed| feed.unreadable).collect();
        family(&mut encoder, &Kind::Counter, "crier_feed_unreadable_answers", help, unreadable)?;
        for metric in ROUTE_METRICS {
            let mut samples = Vec::new();
            for (feed, route) in feeds().flat_map(|feed| feed.routes.iter().map(move |route| (feed, route))) {
                for (label, value) in (metric.samples)(route) {
                    let mut labels = vec![("feed", &*feed.feed), ("route", &*route.route)];
                    labels.extend(label);
                    samples.push((labels, value));
                }
            }
            family(&mut encoder, &metric.kind, metric.name, metric.help, samples)?;
        }
        Ok(())
    }
}

fn family(
    encoder: &mut DescriptorEncoder<'_>,
    kind: &Kind,
    name: &str,
    help: &str,
    samples: Vec<(Labels<'_>, u64)>,
) -> fmt::Result {
    let metric_type = match kind {
        Kind::Gauge => MetricType::Gauge,
        Kind::Counter => MetricType::Counter,
    };
    let mut metric = encoder.encode_descriptor(name, help, None, metric_type)?;
    for (labels, value) in samples {
        let sample = metric.encode_family(&labels)?;
        match kind {
            Kind::Gauge => ConstGauge::new(value).encode(sample)?,
            Kind::Counter => ConstCounter::new(value).encode(sample)?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::RouteCounters;

    #[test]
    fn every_route_is_there_by_name_with_what_it_has_told_and_owes() {
        let counters = RouteCounters { delivered: 7, coalesced: 2, ..RouteCounters::default() };
        let route =
            RouteReport { route: "apps/myapps.example.com/out".into(), owed: 3, counters, ..RouteReport::default() };
        let feed = FeedStatus {
            feed: "myapps.example.com".into(),
            state: FeedPhase::Parked,
            reason: None,
            resource_version: None,
            held_bytes: 0,
            caught_up: false,
            state_error: None,
            silent_for_seconds: 0,
            restarts: 1,
            unreadable: 3,
            routes: vec![route],
        };
        let text = render(ProcessStatus { version: "1.2.3", starting: None, feeds: vec![feed] });
        for line in [
            "crier_build_info{version=\"1.2.3\"} 1",
            "crier_feed_state{feed=\"myapps.example.com\",state=\"parked\"} 1",
            "crier_feed_state{feed=\"myapps.example.com\",state=\"watching\"} 0",
            "crier_feed_restarts_total{feed=\"myapps.example.com\"} 1",
            "crier_feed_unreadable_answers_total{feed=\"myapps.example.com\"} 3",
            "crier_route_owed_objects{feed=\"myapps.example.com\",route=\"apps/myapps.example.com/out\"} 3",
            "crier_route_deliveries_total{feed=\"myapps.example.com\",route=\"apps/myapps.example.com/out\",verdict=\"delivered\"} 7",
            "crier_route_untold_changes_total{feed=\"myapps.example.com\",route=\"apps/myapps.example.com/out\",reason=\"coalesced\"} 2",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is missing in\n{text}");
        }
        assert!(text.ends_with("# EOF\n"));
    }
}
