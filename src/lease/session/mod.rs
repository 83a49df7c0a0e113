//! Sessions beyond their own lease: what one keeps, which of its calls are repeats, and what follows its end.

mod cleanup;
mod holdings;
mod inquiry;
mod kept;
mod reissue;
mod repeats;

pub use cleanup::{Cleanup, CleanupEffect};
pub use holdings::Holdings;
pub use inquiry::Inquiry;
pub use kept::{Indexing, Kept, KeptEffect};
pub use repeats::Repeats;
