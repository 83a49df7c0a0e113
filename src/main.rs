//! The `tenure` command.

/// Requests allocate on one thread and are freed on another, all the time: a tenth of a worker's time
/// went into the system's allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

use std::process::ExitCode;

fn main() -> ExitCode {
    tenure::cli::main()
}
