//! The read-only HTTP port: `/livez`, `/readyz`, `/metrics`, `/routes`. It shows no object's data and changes nothing.
//! Beside it, in `control`, the socket through which commands reach the process.

pub mod control;

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tokio::net::TcpListener;

use crate::model::ProcessStatus;

const METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Where the port gets what it shows.
#[derive(Clone)]
pub struct Sources {
    /// Where the process stands now.
    pub status: Arc<dyn Fn() -> ProcessStatus + Send + Sync>,
    /// A status as metrics.
    pub metrics: fn(ProcessStatus) -> String,
}

/// Answers requests until the task is dropped.
///
/// # Errors
/// When the listener fails.
pub async fn serve(listener: TcpListener, sources: Sources) -> std::io::Result<()> {
    let routes = Router::new()
        .route("/livez", get(async |State(sources): State<Sources>| verdict((sources.status)().hanging())))
        .route("/readyz", get(async |State(sources): State<Sources>| verdict((sources.status)().unready())))
        .route("/metrics", get(metrics))
        .route("/routes", get(routes))
        .with_state(sources);
    axum::serve(listener, routes).await
}

/// `ok`, or 503 with a line for each thing that is not.
fn verdict(faults: Vec<String>) -> Response {
    if faults.is_empty() {
        return "ok\n".into_response();
    }
    (StatusCode::SERVICE_UNAVAILABLE, faults.join("\n") + "\n").into_response()
}

async fn metrics(State(sources): State<Sources>) -> Response {
    ([(CONTENT_TYPE, METRICS)], (sources.metrics)((sources.status)())).into_response()
}

async fn routes(State(sources): State<Sources>) -> Response {
    match serde_json::to_vec_pretty(&(sources.status)()) {
        Ok(body) => ([(CONTENT_TYPE, "application/json")], body).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}
