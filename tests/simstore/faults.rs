//! What happens under faults.
