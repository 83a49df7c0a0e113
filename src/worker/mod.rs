//! The worker's side: what runs beside the work, and ends it in time.

pub mod guard;
