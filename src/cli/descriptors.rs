//! The limit of open files, and the number of client connections that it allows.
//!
//! Guarantees: client connections leave [`RESERVE`] descriptors to the store, checks, plugins and calls between nodes.
//! If the limit is less than twice that, they leave half of it.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::http::RESERVED;

/// Descriptors that client connections never take. Up to 256 checks need one each, or the pipes of a program. The rest
/// is for the store's files, plugins, calls between nodes, and the runtime.
const RESERVE: usize = 512;

/// Raises the limit of open files as far as the process may, and returns the new limit.
pub(crate) fn raise() -> usize {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: maximum, maximum };
    let limit = if current == maximum {
        current
    } else if let Err(error) = setrlimit(Resource::Nofile, raised) {
        tracing::warn!(%error, "cannot raise the limit of open files; the current limit stays");
        current
    } else {
        maximum
    };
    limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX)
}

/// The number of connections that each worker may have, out of the `wanted` total.
pub(crate) fn connections(wanted: usize, workers: usize, limit: usize) -> usize {
    let left = limit - RESERVE.min(limit / 2);
    let most = (left / workers).saturating_sub(RESERVED).max(1);
    let each = wanted.div_ceil(workers);
    if each > most {
        tracing::warn!(
            max_connections = wanted,
            open_files = limit,
            connections = most * workers,
            "the limit of open files allows fewer connections than server.max_connections; \
             raise the limit (ulimit -n, LimitNOFILE= of systemd)"
        );
    }
    each.min(most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_descriptors_for_the_store() {
        for (wanted, workers, limit, each) in [
            (20_000, 1, usize::MAX, 20_000),
            (20_000, 4, 1_048_576, 5000),
            (20_000, 1, 20_000, 20_000 - RESERVE - RESERVED),
            (20_000, 2, 1000, 250 - RESERVED),
            (100, 1, 256, 100),
            (200, 1, 256, 128 - RESERVED),
            (10, 4, 1000, 3),
            (10, 8, 16, 1),
        ] {
            assert_eq!(connections(wanted, workers, limit), each, "{wanted} {workers} {limit}");
        }
    }
}
