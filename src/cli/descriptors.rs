//! How many files the process may have open, and how many of them may be connections of callers.
//!
//! Guarantees: connections leave [`RESERVE`] descriptors, or half of a smaller limit, to the store, checks, plugins and
//! calls between nodes.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::http::RESERVED;

/// Descriptors that connections of callers never take: up to 256 checks have one each, or the pipes of a program; the
/// rest is for the files of the store, plugins, calls between nodes and the runtime.
const RESERVE: usize = 512;

/// Raises the limit of open files as far as the process may, and says what it is then.
pub(crate) fn raise() -> usize {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: maximum, maximum };
    let limit = if current == maximum {
        current
    } else if let Err(error) = setrlimit(Resource::Nofile, raised) {
        tracing::warn!(%error, "cannot raise the limit of open files");
        current
    } else {
        maximum
    };
    limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX)
}

/// How many of so many connections each worker may have.
pub(crate) fn connections(wanted: usize, workers: usize, limit: usize) -> usize {
    let left = limit - RESERVE.min(limit / 2);
    let most = (left / workers).saturating_sub(RESERVED).max(1);
    let each = wanted.div_ceil(workers);
    if each > most {
        tracing::warn!(
            max_connections = wanted,
            open_files = limit,
            connections = most * workers,
            "server.max_connections is more than the limit of open files allows: so many connections are accepted; \
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
