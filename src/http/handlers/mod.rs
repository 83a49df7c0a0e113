//! One file per resource: each operation reads its request, asks the manager, and answers with a document.

pub mod access;
pub mod acquire;
pub mod acquire_all;
pub mod acquire_any;
pub mod admin;
pub mod assignment;
pub mod batch;
mod call;
pub mod events;
pub mod fences;
pub mod heartbeats;
pub mod leases;
mod place;
pub mod pools;
pub mod releases;
pub mod service;
pub mod sessions;
pub mod status;
pub mod stream;
