//! Putting load on a server, and counting what came of it.

mod disk;
mod lane;
mod raw_nats;
mod rounds;
mod tally;
mod turns;

pub use disk::{Disk, Probes};
pub use lane::{Lane, drive, drive_beside};
pub use rounds::{Rounds, interleaved};
pub use tally::{Faults, Latencies, Summary, Tally, median};
pub use turns::{Turns, order, ratios};
