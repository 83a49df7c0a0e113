//! The pauses of a caller whose call an overloaded server refused.
//!
//! Guarantees: such a call had no effect, so it may be sent again, to any server. Callers that were refused at the same
//! time come back at different times, and later after each refusal.

use std::time::Duration;

use super::ClientError;
use crate::{
    api::Code,
    clock::{Entropy, SystemEntropy},
};

/// How long a call is repeated whose caller set no time.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);
/// The pause if the server names none, and the longest pause.
const PAUSES: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(10)];

/// Whether a server refused the call because it has too much to do.
pub(super) fn is_overload(error: &ClientError) -> bool {
    error.code() == Some(Code::Overloaded)
}

/// How long to wait after the `refusals`-th refusal in a row. `None` if the call failed for another reason.
pub(super) fn pause(error: &ClientError, refusals: u32) -> Option<Duration> {
    let problem = error.problem().filter(|_| is_overload(error))?;
    let asked = problem.retry_after_ms.map_or(PAUSES[0], Duration::from_millis);
    let pause = asked.saturating_mul(refusals).min(PAUSES[1]);
    Some(pause + SystemEntropy::new().chance().jitter(pause / 4))
}
