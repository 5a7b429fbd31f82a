//! crier watches Kubernetes custom resources and tells the outside world what changed.
//!
//! The tour, in reading order: [`model`] has the words that all rooms share; [`engine`] takes every decision and does
//! no IO; [`kubernetes`] makes what the API server says readable; [`event`] makes CloudEvents of changes, [`sink`] sends
//! them, [`store`] keeps what is told and owed across a crash; [`driver`] is the loop that carries out what the engine
//! decides.
//!
//! This library exists for the `crier` binary and its tests; it is not a stable public interface.

pub mod admin;
pub mod app;
pub mod cli;
pub mod config;
pub mod driver;
pub mod engine;
pub mod event;
pub mod kubernetes;
pub mod model;
pub mod select;
pub mod sink;
pub mod store;
pub mod telemetry;
