//! crier watches Kubernetes custom resources and tells the outside world what changed.
//!
//! The tour, in reading order: [`model`] has the words that all rooms share; [`engine`] takes every decision and does
//! no IO; [`store`] keeps what it decided across a crash. The other edges are still to come (ROADMAP.md).
//!
//! This library exists for the `crier` binary and its tests; it is not a stable public interface.

pub mod engine;
pub mod model;
pub mod store;
