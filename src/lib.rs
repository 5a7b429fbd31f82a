//! crier watches Kubernetes custom resources and tells the outside world what changed.
//!
//! The tour, in reading order: [`model`] has the words that all rooms share; [`engine`] takes every decision and does
//! no IO; [`kubernetes`]
//! makes what the API server says readable, [`store`] keeps what was decided across a crash, [`event`] makes
//! CloudEvents of it, [`sink`] sends them. The other edges are still to come (ROADMAP.md).
//!
//! This library exists for the `crier` binary and its tests; it is not a stable public interface.

pub mod engine;
pub mod event;
pub mod kubernetes;
pub mod model;
pub mod sink;
pub mod store;
