//! The requests against an API server on loopback that answers as a script says.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::extract::State;
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use futures::StreamExt;

use super::*;
use crate::model::{Key, ResourceVersion};

type Script = Arc<dyn Fn(&Uri) -> Response + Send + Sync>;

#[derive(Clone)]
struct Server {
    script: Script,
    asked: Arc<Mutex<Vec<String>>>,
}

/// Discovery, three requests, is always the same; what it is followed by is the script's.
async fn answer(State(server): State<Server>, uri: Uri) -> Response {
    server.asked.lock().unwrap().push(uri.to_string());
    match uri.path() {
        "/apis/example.com" => r#"{"versions":[{"version":"v1"}],"preferredVersion":{"version":"v1"}}"#.into_response(),
        "/apis/example.com/v1" => {
            r#"{"resources":[{"name":"myapps","kind":"MyApp","namespaced":true}]}"#.into_response()
        }
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/myapps.example.com" => "{}".into_response(),
        _ => (server.script)(&uri),
    }
}

async fn serve(script: impl Fn(&Uri) -> Response + Send + Sync + 'static) -> (Requests, Arc<Mutex<Vec<String>>>) {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let server = Server { script: Arc::new(script), asked: Arc::default() };
    let asked = Arc::clone(&server.asked);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let uri: Uri = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
    let service = axum::Router::new().fallback(answer).with_state(server);
    tokio::spawn(async move { axum::serve(listener, service).await });
    let mut config = kube::Config::new(uri);
    config.default_retry = false;
    let collection = Collection {
        group: "example.com".into(),
        version: None,
        resource: "myapps".into(),
        namespace: None,
        label_selector: "tier in (a,b)".into(),
        field_selector: String::new(),
    };
    (Requests::new(Connection::of_client(kube::Client::try_from(config).unwrap()), collection, None), asked)
}

fn version(number: u128) -> ResourceVersion {
    ResourceVersion::new(number).unwrap()
}

fn object(name: &str, at: u128) -> String {
    format!(
        r#"{{"apiVersion":"example.com/v1","kind":"MyApp","metadata":{{"name":"{name}","namespace":"n","uid":"u-{name}","resourceVersion":"{at}"}},"x":1.0}}"#
    )
}

/// The lines of a watch, in chunks that respect no line.
fn chunked(text: String) -> Response {
    let chunks: Vec<_> = text.into_bytes().chunks(7).map(|chunk| Ok::<_, std::io::Error>(chunk.to_vec())).collect();
    axum::body::Body::from_stream(futures::stream::iter(chunks)).into_response()
}

async fn watch(requests: &Requests) -> Vec<Result<WatchLine, Failure>> {
    match requests.watch(version(5), Duration::from_secs(200)).await {
        Ok(stream) => stream.collect().await,
        Err(failure) => vec![Err(failure)],
    }
}

#[tokio::test]
async fn a_watch_gives_the_objects_bytes_as_sent_and_ends_cleanly() {
    let text = format!(
        "{{\"type\":\"ADDED\",\"object\":{}}}\n{{\"type\":\"BOOKMARK\",\"object\":{{\"metadata\":{{\"resourceVersion\":\"9\"}}}}}}\n",
        object("a", 7)
    );
    let (requests, asked) = serve(move |_| chunked(text.clone())).await;
    let lines = watch(&requests).await;
    let [Ok(WatchLine::Added(added)), Ok(WatchLine::Bookmark { .. })] = &lines[..] else { panic!("{lines:?}") };
    assert_eq!(added.bytes, object("a", 7).as_bytes());
    let asked = asked.lock().unwrap()[3].clone();
    assert_eq!(
        asked,
        "/apis/example.com/v1/myapps?watch=1&allowWatchBookmarks=true&resourceVersion=5&timeoutSeconds=200&labelSelector=tier+in+%28a%2Cb%29"
    );
}

#[tokio::test]
async fn lost_history_is_known_as_a_status_and_as_an_event() {
    let status = r#"{"kind":"Status","code":410,"reason":"Expired","message":"too old"}"#;
    let (requests, _) = serve(move |_| (StatusCode::GONE, status).into_response()).await;
    assert_eq!(watch(&requests).await, [Err(Failure::Expired("too old".into()))]);
    let (requests, _) = serve(move |_| chunked(format!("{{\"type\":\"ERROR\",\"object\":{status}}}\n"))).await;
    assert_eq!(watch(&requests).await, [Err(Failure::Expired("too old".into()))]);
}

#[tokio::test]
async fn every_other_failure_is_told_by_what_can_be_done_about_it() {
    let answers: [(u16, &'static str, &'static str, Failure); 5] = [
        (404, "404 page not found\n", "", Failure::NotFound("404 page not found".into())),
        (
            403,
            "{\n  \"message\": \"cannot list resource\\n\"\n}",
            "",
            Failure::Forbidden("cannot list resource\n".into()),
        ),
        (429, "slow down", "7", Failure::Throttled { reason: "slow down".into(), after: Some(Duration::from_secs(7)) }),
        (401, "Unauthorized", "", Failure::Other("the API server answered 401: Unauthorized".into())),
        (500, "conversion", "", Failure::Other("the API server answered 500: conversion".into())),
    ];
    for (status, body, retry_after, expected) in answers {
        let (requests, _) = serve(move |_| {
            (StatusCode::from_u16(status).unwrap(), [("retry-after", retry_after)], body).into_response()
        })
        .await;
        assert_eq!(requests.probe().await, Err(expected));
    }
}

#[tokio::test]
async fn a_cut_line_and_an_unreadable_line_are_failures() {
    let (requests, _) = serve(|_| chunked("{\"type\":\"ADDED\",\"obj".into())).await;
    assert!(matches!(&watch(&requests).await[..], [Err(Failure::Other(_))]));
    let (requests, _) = serve(|_| chunked("{\"type\":\"ADDED\"}\n{}\n".into())).await;
    assert!(matches!(&watch(&requests).await[..], [Err(Failure::Undecodable(_))]), "nothing follows a failure");
}

#[tokio::test]
async fn a_connection_that_is_half_open_is_given_up_ten_seconds_after_its_watch_should_have_ended() {
    let (requests, _) = serve(|_| {
        let line = format!("{{\"type\":\"ADDED\",\"object\":{}}}\n", object("a", 7));
        let silence = futures::stream::once(async { Ok::<_, std::io::Error>(line) }).chain(futures::stream::pending());
        axum::body::Body::from_stream(silence).into_response()
    })
    .await;
    let mut lines = requests.watch(version(5), Duration::from_secs(200)).await.unwrap();
    assert!(matches!(lines.next().await, Some(Ok(WatchLine::Added(_)))));
    // From here on there is nothing to wait for but the clock.
    tokio::time::pause();
    let began = tokio::time::Instant::now();
    let Some(Err(Failure::Other(reason))) = lines.next().await else { panic!("it says something") };
    assert_eq!(reason, "the watch did not end in time: the connection is half open");
    let waited = began.elapsed();
    assert!(waited > Duration::from_secs(205) && waited <= Duration::from_secs(211), "{waited:?}");
    assert!(lines.next().await.is_none());
}

#[tokio::test]
async fn pages_are_read_by_their_tokens_and_a_missing_object_is_none() {
    let (requests, asked) = serve(|uri| {
        let query = uri.query().unwrap_or_default();
        let page = |token: &str, name: &str| {
            format!(r#"{{"metadata":{{"resourceVersion":"9","continue":"{token}"}},"items":[{}]}}"#, object(name, 3))
                .into_response()
        };
        match query {
            "" => StatusCode::NOT_FOUND.into_response(),
            query if query.contains("continue=t%2F1") => page("", "b"),
            query if query.contains("metadata.name") => {
                r#"{"metadata":{"resourceVersion":"9"},"items":[]}"#.into_response()
            }
            _ => page("t/1", "a"),
        }
    })
    .await;
    let mut names = Vec::new();
    let first =
        requests.list_page(None, false, |object| names.push(object.metadata.key.name().to_owned())).await.unwrap();
    let second = requests
        .list_page(first.next.as_deref(), false, |object| names.push(object.metadata.key.name().to_owned()))
        .await
        .unwrap();
    assert_eq!((names, second.next, second.resource_version), (vec!["a".into(), "b".into()], None, version(9)));
    assert_eq!(requests.get(&Key::new("n", "gone")).await, Ok(None));
    assert_eq!(
        asked.lock().unwrap()[5],
        "/apis/example.com/v1/namespaces/n/myapps?fieldSelector=metadata.name%3Dgone&labelSelector=tier+in+%28a%2Cb%29",
        "by its name alone it would be found outside of the selection, too"
    );
}

#[tokio::test]
async fn a_streaming_list_is_asked_for_by_its_parameters_and_a_server_without_it_is_known() {
    let (requests, asked) = serve(|_| {
        let text = r#"{"message":"sendInitialEvents: Forbidden"}"#;
        (StatusCode::UNPROCESSABLE_ENTITY, text).into_response()
    })
    .await;
    let Err(failure) = requests.stream_list(false).await else { panic!("it was taken") };
    assert_eq!(failure, Failure::Invalid("sendInitialEvents: Forbidden".into()));
    let asked = asked.lock().unwrap()[3].clone();
    assert!(
        asked.contains("sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"),
        "{asked}"
    );
}

#[tokio::test]
async fn a_kind_that_vanishes_is_looked_for_anew() {
    let (requests, asked) = serve(|_| StatusCode::NOT_FOUND.into_response()).await;
    for _ in 0..2 {
        assert!(matches!(requests.probe().await, Err(Failure::NotFound(_))));
    }
    assert_eq!(requests.found().unwrap().kind, "MyApp", "what it was is still known");
    assert_eq!(asked.lock().unwrap().iter().filter(|path| *path == "/apis/example.com").count(), 2);
}

/// A server that takes one token only, a kubeconfig for it with another, and a connection of that kubeconfig.
async fn behind_token(accepted: &'static str) -> (tempfile::TempDir, Arc<Connection>, std::net::SocketAddr) {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let check = move |headers: axum::http::HeaderMap| async move {
        let agent = headers["user-agent"].to_str().unwrap();
        assert_eq!(agent, concat!("crier/", env!("CARGO_PKG_VERSION")));
        match headers.get("authorization").and_then(|value| value.to_str().ok()) {
            Some(given) if given == format!("Bearer {accepted}") => {
                object("kube-system", 1).replace("\"n\"", "\"\"").into_response()
            }
            _ => StatusCode::UNAUTHORIZED.into_response(),
        }
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, axum::Router::new().fallback(check)).await });
    let folder = tempfile::tempdir().unwrap();
    write_kubeconfig(folder.path(), address, "old");
    let settings = ConnectionSettings {
        context: None,
        kubeconfig: Some(folder.path().join("kubeconfig")),
        queries_per_second: 100,
        burst: 100,
    };
    let connection = Connection::open(settings).await.unwrap();
    (folder, connection, address)
}

fn write_kubeconfig(folder: &std::path::Path, address: std::net::SocketAddr, token: &str) {
    let text = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters: [{{ name: c, cluster: {{ server: \"http://{address}\" }} }}]\n\
         users: [{{ name: u, user: {{ token: {token} }} }}]\ncontexts: [{{ name: c, context: {{ cluster: c, user: u }} }}]\n"
    );
    std::fs::write(folder.join("kubeconfig"), text).unwrap();
}

#[tokio::test]
async fn a_refused_token_is_taken_anew() {
    let (folder, connection, address) = behind_token("new").await;
    write_kubeconfig(folder.path(), address, "new");
    let refused = connection.cluster_uid().await;
    assert!(matches!(refused, Err(Failure::Other(text)) if text.contains("401")));
    assert_eq!(connection.cluster_uid().await.unwrap().to_string(), "u-kube-system");
}

#[tokio::test]
async fn connections_to_the_api_server_are_asked_whether_they_live() {
    let (_folder, connection, address) = behind_token("old").await;
    connection.cluster_uid().await.unwrap();
    // The kernel's own word: of the connection to this port, timer 2 (keep-alive) is running.
    let port = format!(":{:04X}", address.port());
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let rows = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let timers: Vec<_> = rows.filter(|row| row[2].ends_with(&port)).map(|row| row[5][..2].to_owned()).collect();
    assert_eq!(timers, ["02"], "{table}");
}

#[tokio::test]
async fn a_kubeconfig_that_is_missing_is_an_error_with_a_hint() {
    let settings = ConnectionSettings {
        context: None,
        kubeconfig: Some("/nonexistent/kubeconfig".into()),
        queries_per_second: 1,
        burst: 1,
    };
    let Err(error) = Connection::open(settings).await else { panic!("it was opened") };
    assert_eq!(error.to_string(), "the kubeconfig cannot be used");
    assert!(error.hint().contains("--kubeconfig"));
}

#[tokio::test]
async fn however_many_wait_for_it_discovery_is_asked_for_once() {
    let (requests, asked) = serve(|_| StatusCode::NOT_FOUND.into_response()).await;
    let keys: Vec<Key> = (0..20).map(|number| Key::new("n", &format!("app-{number}"))).collect();
    futures::future::join_all(keys.iter().map(|key| requests.get(key))).await;
    assert_eq!(asked.lock().unwrap().iter().filter(|path| *path == "/apis/example.com").count(), 1);
}

#[tokio::test]
async fn no_answer_silences_a_feed_for_longer_than_five_minutes() {
    let (requests, _) =
        serve(|_| (StatusCode::TOO_MANY_REQUESTS, [("retry-after", "18446744073709551615")]).into_response()).await;
    let Err(Failure::Throttled { after, .. }) = requests.probe().await else { panic!("it was not throttled") };
    assert_eq!(after, Some(Duration::from_secs(300)));
}
