//! What the process says of itself to machines and operators: the log and the metrics. It decides nothing.

mod log;
mod metrics;

pub use log::{LogFormat, start_log};
pub use metrics::render;
