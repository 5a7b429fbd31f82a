//! The sink against a receiver on loopback that does what a script says.

use std::sync::Mutex;

use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse, Response};

use super::*;
use crate::event::{Event, sample};
use crate::sink::Mode;

type Request = (Uri, HeaderMap, Bytes);

#[derive(Clone)]
struct Receiver {
    requests: Arc<Mutex<Vec<Request>>>,
    answer: Arc<dyn Fn() -> Response + Send + Sync>,
}

async fn receive(State(receiver): State<Receiver>, uri: Uri, headers: HeaderMap, body: Bytes) -> Response {
    receiver.requests.lock().unwrap().push((uri, headers, body));
    (receiver.answer)()
}

async fn receiver<R: IntoResponse>(answer: impl Fn() -> R + Send + Sync + 'static) -> (url::Url, Receiver) {
    let receiver = Receiver { requests: Arc::default(), answer: Arc::new(move || answer().into_response()) };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/events", listener.local_addr().unwrap()).parse().unwrap();
    let service = axum::Router::new().fallback(receive).with_state(receiver.clone());
    tokio::spawn(async move { axum::serve(listener, service).await });
    (url, receiver)
}

async fn deliver(config: WebhookConfig, event: &Event) -> Verdict {
    // Another test may have installed it already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let sink = WebhookSink::new(config).unwrap();
    sink.deliver(Delivery { route: "apps".into(), event: Arc::new(event.clone()) }).await
}

#[tokio::test]
async fn a_structured_delivery_is_the_event_as_it_is() {
    let (url, receiver) = receiver(|| StatusCode::ACCEPTED).await;
    let event = sample("a");
    assert_eq!(deliver(WebhookConfig::new(url), &event).await, Verdict::Delivered);
    let requests = receiver.requests.lock().unwrap();
    let (uri, headers, body) = &requests[0];
    assert_eq!((uri.path(), body), ("/events", &event.structured()));
    assert_eq!(headers["content-type"], "application/cloudevents+json; charset=UTF-8");
    assert!(headers["user-agent"].to_str().unwrap().starts_with("crier/"));
    assert!(!headers.keys().any(|name| name.as_str().starts_with("ce-")), "attributes are not repeated");
}

#[tokio::test]
async fn a_binary_delivery_has_the_attributes_in_headers_and_the_data_as_body() {
    let (url, receiver) = receiver(|| StatusCode::NO_CONTENT).await;
    let event = sample("a");
    let config = WebhookConfig { mode: Mode::Binary, ..WebhookConfig::new(url) };
    assert_eq!(deliver(config, &event).await, Verdict::Delivered);
    let requests = receiver.requests.lock().unwrap();
    let (_, headers, body) = &requests[0];
    assert_eq!((&headers["content-type"], body), (&"application/json".parse().unwrap(), event.data().unwrap()));
    for (name, value) in event.attributes() {
        assert_eq!(headers[format!("ce-{name}")], *encode_plain(value), "{name}");
    }
}

fn encode_plain(value: &str) -> std::borrow::Cow<'_, str> {
    crate::event::encode_header_value(value)
}

#[tokio::test]
async fn a_token_is_sent_and_never_shown() {
    let (url, receiver) = receiver(|| StatusCode::OK).await;
    let config = WebhookConfig { authorization: Secret::new("Bearer s3cret"), ..WebhookConfig::new(url) };
    assert!(!format!("{config:?}").contains("s3cret"));
    assert_eq!(deliver(config, &sample("a")).await, Verdict::Delivered);
    assert_eq!(receiver.requests.lock().unwrap()[0].1["authorization"], "Bearer s3cret");
}

#[tokio::test]
async fn redirects_are_not_followed() {
    let (url, receiver) = receiver(|| (StatusCode::TEMPORARY_REDIRECT, [("location", "/elsewhere")])).await;
    assert!(matches!(deliver(WebhookConfig::new(url), &sample("a")).await, Verdict::Unavailable { .. }));
    assert_eq!(receiver.requests.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn an_endless_body_is_not_read_to_its_end() {
    let endless =
        || axum::body::Body::from_stream(futures::stream::repeat_with(|| Ok::<_, std::io::Error>(vec![b'x'; 4_096])));
    let (url, _) = receiver(endless).await;
    assert_eq!(deliver(WebhookConfig::new(url), &sample("a")).await, Verdict::Delivered);
}

#[tokio::test]
async fn an_endpoint_that_nobody_listens_at_is_unavailable() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap()).parse().unwrap();
    drop(listener);
    let verdict = deliver(WebhookConfig::new(url), &sample("a")).await;
    assert!(matches!(&verdict, Verdict::Unavailable { reason, .. } if reason.contains("refused")), "{verdict:?}");
}

#[tokio::test]
async fn an_endpoint_that_is_silent_is_tried_again() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap()).parse().unwrap();
    let config = WebhookConfig { timeout: std::time::Duration::from_millis(200), ..WebhookConfig::new(url) };
    let verdict = deliver(config, &sample("a")).await;
    assert!(matches!(verdict, Verdict::Retry { .. }), "{verdict:?}");
    drop(listener);
}
