//! Cases in which other tools that watch Kubernetes are known to have lost, repeated or flooded, each with the test that
//! holds crier to it. Those that no other test covers are below; tests without a file's name are among them.
//!
//! | case | test |
//! |---|---|
//! | loss or duplicates over a restart, history at hand | `changes_while_down_are_told_from_the_history_and_nothing_else` |
//! | a restart replays old objects | `downtime::five_restarts_with_nothing_changed_tell_nothing` |
//! | a receiver that is down over a crash | `a_receiver_that_is_down_over_a_kill_is_told_every_last_state` |
//! | a position that runs ahead of a sink that is stuck | `kafka_outage::kafka_that_hangs_and_then_dies_loses_nothing_and_slows_no_other_sink` |
//! | changes and deletions whose history is gone | `downtime::changes_while_down_with_lost_history_are_told_and_nothing_else` |
//! | a deletion while the connection is broken | `a_path_that_breaks_again_and_again_loses_no_deletion_and_adds_nothing` |
//! | a deletion between the list and the watch | `pages_that_expire_are_read_again_and_what_is_deleted_before_the_watch_begins_is_told` |
//! | a position taken from an item of a list | `changes_while_down_are_told_from_the_history_and_nothing_else` |
//! | a loop at an expired position | `an_expired_history_costs_one_list_and_a_missing_kind_few_requests` |
//! | the position of an idle kind grows old | bookmarks come once a minute: `tests/sim`, and `conformance` for the server's side |
//! | "expired" as a status and as an event | `kubernetes::tests::lost_history_is_known_as_a_status_and_as_an_event` in `src` |
//! | a page's token expires | `pages_that_expire_are_read_again_and_what_is_deleted_before_the_watch_begins_is_told` |
//! | etcd put back | `rewind` |
//! | a list that takes longer than the history lasts | as for a page's token, in small |
//! | versions of more than 64 bits | `model::resource_version::tests` in `src` |
//! | a path that carries nothing | `a_path_that_breaks_again_and_again_loses_no_deletion_and_adds_nothing`; half-open ones take minutes: `tests/chaos` |
//! | connections that a middlebox drops | `kubernetes::tests::connections_to_the_api_server_are_asked_whether_they_live` in `src` |
//! | a refused credential ends it for good | `a_credential_that_is_refused_is_taken_anew_and_nothing_is_lost` |
//! | a broken watch looks like updates | `a_path_that_breaks_again_and_again_loses_no_deletion_and_adds_nothing` |
//! | a throttle swallows the last change | `bursts_are_merged_within_their_bounds_and_the_last_state_is_always_told` |
//! | one action, many messages | the same |
//! | a window that slides for ever; what must not be merged | the same |
//! | a selector makes creations and deletions | `selections::what_enters_and_leaves_a_label_selector_is_neither_created_nor_deleted` |
//! | a slow sink fills the memory | `kafka_outage::kafka_that_hangs_and_then_dies_loses_nothing_and_slows_no_other_sink` |
//! | the API server cuts off a slow reader | `a_sink_that_hangs_never_makes_a_slow_reader` |
//! | a watch and a review for each namespace | `an_expired_history_costs_one_list_and_a_missing_kind_few_requests`, `namespaces` |
//! | a kind that is missing at the start | `parked::a_kind_that_is_missing_stops_no_other_and_is_followed_within_five_seconds_of_its_creation` |
//! | requests for a missing kind | `an_expired_history_costs_one_list_and_a_missing_kind_few_requests` |
//! | an object that cannot be converted | `definitions::versions_that_go_and_come_and_a_broken_conversion_take_nothing_back` |
//! | stored anew in another version | the same |
//! | rights that are missing; one object by its name | `parked::missing_permissions_are_named_by_verb_and_resource_and_heal_when_granted`, `namespaces::an_install_with_rights_in_one_namespace_tells_of_that_one_and_names_what_the_other_lacks` |

use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};

use futures::StreamExt;
use futures::stream::iter;
use serde_json::{Value, json};

use crate::support::{Cluster, Consumer, Crier, Objects, Proxy, Receiver, agrees, newest, outline, what};

const LIMIT: Duration = Duration::from_secs(30);
const SINK: &str = "sinks: { out: { file: { path: {dir}/events } } }\n";
const ROUTE: &str =
    "routes:\n  - { name: apps, watch: { resources: [myapps.example.com] }, sinks: [out], debounce: { quiet: 0s } }\n";

fn file() -> String {
    format!("{SINK}{ROUTE}")
}

fn hook(receiver: &Receiver) -> String {
    format!("sinks: {{ out: {{ webhook: {{ url: \"{}\" }} }} }}\n{ROUTE}", receiver.url())
}

async fn settle(crier: &Crier, objects: &Objects) -> Vec<Value> {
    crier.until_told(objects.mark().await, LIMIT).await;
    let events = crier.lines("events");
    agrees(&events, &objects.all().await).unwrap();
    events
}

async fn create_many(objects: &Objects, names: &[String]) {
    iter(names).for_each_concurrent(8, async |name| objects.create(name).await).await;
}

/// The sum of the API server's metrics of this name, over the lines that have all of these in them.
async fn metric(cluster: &Cluster, name: &str, labels: &[&str]) -> f64 {
    let metrics = cluster.metrics().await;
    let lines = metrics.lines().filter(|line| {
        line.strip_prefix(name).is_some_and(|rest| rest.starts_with(['{', ' ']))
            && labels.iter().all(|label| line.contains(label))
    });
    lines.map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap()).sum()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_while_down_are_told_from_the_history_and_nothing_else() {
    let cluster = Cluster::start().await;
    let objects = Objects::of(&cluster);
    objects.install().await;
    // The later they are made, the earlier they are listed.
    for number in (0..100).rev() {
        objects.create(&format!("app-{number:02}")).await;
    }
    let mut crier = Crier::prepare(&cluster, &file());
    crier.start();
    let before = settle(&crier, &objects).await.len();
    // A position that was an item's would tell the others once more.
    crier.terminate().await;
    crier.start();
    assert_eq!(settle(&crier, &objects).await.len(), before + 1, "the mark alone is new");
    crier.terminate().await;

    for number in 0..30 {
        objects.scale(&format!("app-{number:02}"), 1).await;
        objects.scale(&format!("app-{number:02}"), 2).await;
    }
    for number in 30..40 {
        objects.delete(&format!("app-{number:02}")).await;
    }
    for number in 0..5 {
        objects.create(&format!("new-{number}")).await;
    }
    crier.start();
    let events = settle(&crier, &objects).await;
    let mut counted: BTreeMap<&str, usize> = BTreeMap::new();
    for (what, name) in outline(&events[before + 1..]) {
        *counted.entry(what).or_default() += 1;
        assert!(name.starts_with("new") || name < "app-40", "{what} {name}");
    }
    let updates = counted.remove("updated").unwrap();
    assert!((30..=60).contains(&updates), "{updates} updates of 30 objects that were changed twice");
    assert_eq!(counted, [("created", 5), ("deleted", 10)].into());
    let mut consumer = Consumer::default();
    consumer.read(&events);
    assert_eq!(consumer.repeats, 0);
    let status = crier.status().await.unwrap();
    assert_eq!(status["feeds"][0]["routes"][0]["counters"]["comparisons"], 0, "nothing was listed: {status:#}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_receiver_that_is_down_over_a_kill_is_told_every_last_state() {
    let (cluster, receiver) = tokio::join!(Cluster::start(), Receiver::start());
    let objects = Objects::of(&cluster);
    objects.install().await;
    let names: Vec<String> = (0..10).map(|number| format!("app-{number}")).collect();
    create_many(&objects, &names).await;
    let mut crier = Crier::prepare(&cluster, &hook(&receiver));
    crier.start();
    crier.until_told(objects.mark().await, LIMIT).await;
    receiver.answer(503, None);
    for round in 1..=3 {
        for name in &names {
            objects.scale(name, round).await;
        }
        let owes = |status: &Value| status["feeds"][0]["routes"][0]["owed"].as_u64() >= Some(10);
        crier.until("it owes them all", LIMIT, owes).await;
        crier.kill();
        objects.scale(&names[0], 10 + round).await;
        crier.start();
    }
    objects.delete(&names[1]).await;
    receiver.answer(204, None);
    crier.until_told(objects.mark().await, LIMIT).await;
    agrees(&receiver.events(), &objects.all().await).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_path_that_breaks_again_and_again_loses_no_deletion_and_adds_nothing() {
    let mut cluster = Cluster::start().await;
    let objects = Objects::of(&cluster);
    objects.install().await;
    let names: Vec<String> = (0..20).map(|number| format!("app-{number}")).collect();
    create_many(&objects, &names).await;
    let proxy = Proxy::start(cluster.port()).await;
    cluster.put_behind(proxy.port());
    let mut crier = Crier::prepare(&cluster, &file());
    crier.start();
    let before = settle(&crier, &objects).await.len();
    for _ in 0..5 {
        crier.until("it watches", LIMIT, |status| status["feeds"][0]["state"] == "watching").await;
        proxy.cut();
        crier.until("it notices", LIMIT, |status| status["feeds"][0]["state"] != "watching").await;
    }
    assert_eq!(settle(&crier, &objects).await.len(), before + 1, "the mark alone is new");

    proxy.close(true);
    objects.delete("app-0").await;
    proxy.close(false);
    let told = settle(&crier, &objects).await;
    assert_eq!(outline(&told[before..]), [("deleted", "app-0")]);

    // Held up, not broken: what was on its way arrives.
    proxy.stall(true);
    objects.delete("app-1").await;
    objects.scale("app-2", 3).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(crier.lines("events").len(), told.len());
    proxy.stall(false);
    let after = settle(&crier, &objects).await;
    assert_eq!(outline(&after[told.len()..]), [("deleted", "app-1"), ("updated", "app-2")]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_that_expire_are_read_again_and_what_is_deleted_before_the_watch_begins_is_told() {
    let gates = "--feature-gates=WatchList=false,ListFromCacheSnapshot=false";
    let cluster = Cluster::start_with(&[gates]).await;
    let objects = Objects::of(&cluster);
    objects.install().await;
    let names: Vec<String> = (0..501).map(|number| format!("app-{number:04}")).collect();
    create_many(&objects, &names).await;
    // One request a second: there is time to do something between two of them.
    let mut crier = Crier::prepare(&cluster, &format!("kubernetes: {{ qps: 1, burst: 1 }}\n{}", file()));
    crier.start();
    let lists = async |code: &str| {
        metric(&cluster, "apiserver_request_total", &["resource=\"myapps\"", "verb=\"LIST\"", code]).await
    };
    let (mut asked, own) = (false, lists("code=\"200\"").await);
    let synced = |status: &Value| status["feeds"][0]["routes"][0]["synced"] == true;
    let began = Instant::now();
    while !crier.status().await.is_some_and(|status| synced(&status)) {
        if !asked && lists("code=\"200\"").await > own {
            objects.mark().await;
            objects.delete("app-0500").await;
            objects.mark().await;
            cluster.compact().await;
            asked = true;
        }
        assert!(began.elapsed() < LIMIT, "{:#?}", crier.status().await);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(asked && lists("code=\"410\"").await >= 1.0, "a token has expired");
    let watching = |status: &Value| status["feeds"][0]["state"] == "watching";
    assert!(!watching(&crier.status().await.unwrap()), "the watch has not begun");
    objects.delete("app-0000").await;
    let told = settle(&crier, &objects).await;
    let deleted: Vec<&str> =
        told.iter().filter(|event| what(event) == "deleted").map(|event| event["name"].as_str().unwrap()).collect();
    assert_eq!(deleted, ["app-0000"], "no half of a list was taken for a whole one");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_credential_that_is_refused_is_taken_anew_and_nothing_is_lost() {
    let mut cluster = Cluster::start().await;
    let objects = Objects::of(&cluster);
    objects.install().await;
    objects.grant(&["get", "list", "watch"]).await;
    objects.create("gone").await;
    let mut crier = Crier::prepare(&cluster, &file()).with_context("limited");
    crier.start();
    let before = settle(&crier, &objects).await.len();
    cluster.set_token("limited", "another-token");
    // It sleeps while the API server is away, so that it does not learn to be patient.
    crier.signal("STOP");
    cluster.restart_api_server().await;
    let objects = Objects::of(&cluster);
    objects.delete("gone").await;
    let kubeconfig = fs::read_to_string(crier.file("kubeconfig")).unwrap();
    fs::write(crier.file("kubeconfig"), kubeconfig.replace("limited-token", "another-token")).unwrap();
    crier.signal("CONT");
    let refused = |line: &Value| line["reason"].as_str().is_some_and(|reason| reason.contains("nauthorized"));
    crier.until("it is refused, and says so", LIMIT, |_| crier.log().iter().any(refused)).await;
    assert_eq!(crier.get("/livez").await.unwrap().0, 200);
    let told = settle(&crier, &objects).await;
    assert_eq!(outline(&told[before..]), [("deleted", "gone")]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bursts_are_merged_within_their_bounds_and_the_last_state_is_always_told() {
    let cluster = Cluster::start().await;
    let objects = Objects::of(&cluster);
    objects.install().await;
    let debounced = file().replace("quiet: 0s", "quiet: 300ms, maxWait: 1s");
    let mut crier = Crier::prepare(&cluster, &debounced);
    crier.start();
    settle(&crier, &objects).await;
    let of = |name: &str| {
        let all = crier.lines("events").into_iter().filter(|event| event["name"] == name);
        all.collect::<Vec<_>>()
    };

    // One action of five writers.
    objects.create("made").await;
    for replicas in 1..=5 {
        objects.scale("made", replicas).await;
    }
    settle(&crier, &objects).await;
    let made = of("made");
    assert!(made.len() == 1 && what(&made[0]) == "created" && made[0]["coalesced"] == "5", "{made:#?}");

    // Never quiet: a word a second all the same, and the last state at the end.
    objects.create("busy").await;
    let (began, mut replicas) = (Instant::now(), 0);
    while began.elapsed() < Duration::from_secs(4) {
        replicas += 1;
        objects.scale("busy", replicas).await;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    settle(&crier, &objects).await;
    let busy = of("busy");
    assert!((4..=6).contains(&busy.len()), "{} events in 4 s", busy.len());
    assert_eq!(newest(&busy)["busy"]["data"]["spec"]["replicas"], replicas);

    // A deletion is a wall, even if the name is taken again at once.
    objects.scale("made", 9).await;
    objects.delete("made").await;
    objects.create("made").await;
    settle(&crier, &objects).await;
    let again = of("made");
    let said: Vec<&str> = again.iter().map(what).collect();
    assert_eq!(said, ["created", "deleted", "created"], "{again:#?}");
    assert!(again[0]["uid"] == again[1]["uid"] && again[1]["uid"] != again[2]["uid"]);
}

/// Requests of crier in the API server's audit log.
fn requests_of_crier(log: &std::path::Path) -> Vec<Value> {
    let text = fs::read_to_string(log).unwrap_or_default();
    let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    lines.filter(|line| line["userAgent"].as_str().is_some_and(|agent| agent.starts_with("crier/"))).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_expired_history_costs_one_list_and_a_missing_kind_few_requests() {
    let folder = tempfile::tempdir().unwrap();
    let (policy, log) = (folder.path().join("policy.yaml"), folder.path().join("audit.log"));
    let text = "apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [ResponseStarted, ResponseComplete]\nrules:\n- level: Metadata\n";
    fs::write(&policy, text).unwrap();
    let arguments =
        [format!("--audit-policy-file={}", policy.display()), format!("--audit-log-path={}", log.display())];
    let mut cluster = Cluster::start_with(&arguments.each_ref().map(|it| &**it)).await;
    let mut objects = Objects::of(&cluster);
    objects.install().await;
    let names: Vec<String> = (0..100).map(|number| format!("team-{number}")).collect();
    iter(&names).for_each_concurrent(8, async |name| drop(objects.make_namespace(name, json!({})).await)).await;
    objects.create("one").await;
    // Five kinds, of which one is missing, in a hundred namespaces.
    let kinds = "[myapps.example.com, configmaps, leases.coordination.k8s.io, roles.rbac.authorization.k8s.io]";
    let route = |name: &str, kinds: &str| {
        let namespaces = names.join(", ");
        format!(
            "  - {{ name: {name}, watch: {{ resources: {kinds}, namespaces: [default, {namespaces}] }}, sinks: [out], initial: none }}\n"
        )
    };
    let all = format!("{SINK}routes:\n{}{}", route("many", kinds), route("missing", "[others.example.com]"));
    let mut crier = Crier::prepare(&cluster, &all);
    let began = Instant::now();
    crier.start();
    crier
        .until("it is ready", LIMIT, |status| {
            let feeds = status["feeds"].as_array().unwrap();
            let states = feeds.iter().map(|feed| feed["state"].as_str().unwrap()).collect::<Vec<_>>();
            feeds.len() == 5 && states.iter().all(|state| ["watching", "parked"].contains(state))
        })
        .await;
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    let asked = requests_of_crier(&log);
    let paths: Vec<&str> = asked.iter().map(|it| it["requestURI"].as_str().unwrap()).collect();
    // For each kind: two reviews, three to discover it, a list, a probe and a watch.
    assert!(paths.len() <= 45, "{} requests: {paths:#?}", paths.len());
    let of_missing = || {
        let about = |it: &Value| it["requestURI"].as_str().is_some_and(|uri| uri.contains("others.example.com"));
        requests_of_crier(&log).iter().filter(|it| about(it)).count()
    };
    let (began, before) = (Instant::now(), requests_of_crier(&log).len());
    assert!(of_missing() <= 2);
    tokio::time::sleep(Duration::from_secs(4)).await;
    let rate = (requests_of_crier(&log).len() - before) as f64 / began.elapsed().as_secs_f64();
    assert!(rate < 4.0, "{rate} requests a second for a kind that is missing");

    // The history is gone: one list, and no second question at the same position.
    crier.terminate().await;
    crier.configure(&file());
    crier.start();
    let before = settle(&crier, &objects).await.len();
    crier.terminate().await;
    objects.scale("one", 5).await;
    cluster.compact().await;
    cluster.restart_api_server().await;
    objects = Objects::of(&cluster);
    let asked = requests_of_crier(&log).len();
    crier.start();
    let told = settle(&crier, &objects).await;
    assert_eq!(outline(&told[before..]), [("updated", "one")]);
    let of_apps = || {
        let requests = requests_of_crier(&log).split_off(asked);
        let uris = requests.iter().map(|it| it["requestURI"].as_str().unwrap().to_owned());
        uris.filter(|uri| uri.contains("/myapps?")).collect::<Vec<_>>()
    };
    let at_once = of_apps();
    let lists = at_once.iter().filter(|uri| uri.contains("sendInitialEvents")).count();
    let probes = at_once.iter().filter(|uri| uri.contains("limit=1")).count();
    assert!(lists == 1 && probes <= 3 && at_once.len() <= 6, "{at_once:#?}");
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(of_apps().len(), at_once.len(), "then it is silent");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sink_that_hangs_never_makes_a_slow_reader() {
    let (cluster, receiver) = tokio::join!(Cluster::start(), Receiver::start());
    let objects = Objects::of(&cluster);
    objects.install().await;
    let names: Vec<String> = (0..20).map(|number| format!("app-{number}")).collect();
    let create = async |name: &String| objects.create_padded(name, 20 << 10).await;
    iter(&names).for_each_concurrent(8, create).await;
    let mut crier = Crier::prepare(&cluster, &format!("limits: {{ bufferPerFeed: 100Ki }}\n{}", hook(&receiver)));
    crier.start();
    crier.until_told(objects.mark().await, LIMIT).await;
    receiver.hang();
    let before = crier.resident();
    for round in 1..=50 {
        iter(&names).for_each_concurrent(8, async |name| objects.scale(name, round).await).await;
    }
    let version = objects.mark().await;
    let read = |status: &Value| {
        let feed = &status["feeds"][0];
        feed["resourceVersion"].as_str().is_some_and(|at| at.parse::<u128>().unwrap() >= version)
    };
    crier.until("everything is read though nothing is taken", LIMIT, read).await;
    let ended = metric(&cluster, "apiserver_terminated_watchers_total", &["myapps"]).await;
    assert!(ended < 0.5, "the API server has cut off {ended} watches");
    let grown = crier.resident().saturating_sub(before);
    assert!(grown < 16 << 10, "20 MB of changes have cost {grown} KiB");
    receiver.answer(204, None);
    crier.until_told(objects.mark().await, LIMIT).await;
    agrees(&receiver.events(), &objects.all().await).unwrap();
}
