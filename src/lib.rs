//! crier watches Kubernetes custom resources and tells the outside world what changed.
//!
//! The tour, in reading order: [`model`] has the words that all rooms share; [`engine`] takes every decision and does
//! no IO; the edges around it do what it decides.
//!
//! This library exists for the `crier` binary and its tests; it is not a stable public interface.

pub mod engine;
pub mod model;
