//! The bounds of the API's fields. The checks of requests and the OpenAPI document both take them from here.
//!
//! The bounds of keys, owners, pins and tokens belong to the protocol ([`crate::lease`]).

use std::ops::RangeInclusive;

/// The longest request id, in bytes.
pub const MAX_REQUEST_ID_BYTES: usize = 64;
/// The longest reason of an administrator's order, and of a release or transfer, in bytes.
pub const MAX_REASON_BYTES: usize = 256;
/// The highest token. Every JSON reader represents it exactly.
pub const MAX_TOKEN: u64 = (1 << 53) - 1;
/// The most leases in one batch.
pub const MAX_BATCH: usize = 10_000;
/// The number of leases or sessions on a page, by default.
pub const DEFAULT_PAGE: usize = 100;
/// The most leases or sessions on a page.
pub const MAX_PAGE: usize = 1000;
/// The most keys on a page of an assignment, and the number by default.
pub const MAX_ASSIGNMENT: usize = 10_000;
/// How long an order for a pool may last that ends by itself, in milliseconds: a second to 30 days.
pub const ORDER_MS: RangeInclusive<u64> = 1_000..=2_592_000_000;
/// The number of rows of `/v1/top`, by default.
pub const DEFAULT_ROWS: usize = 20;
/// The most rows of `/v1/top`.
pub const MAX_ROWS: usize = 100;
/// The number of events in the history of a lease, by default.
pub const DEFAULT_EVENTS: usize = 40;
/// The longest wait of a long poll for events, in milliseconds.
pub const MAX_POLL_MS: u64 = 60_000;
/// The longest time between two deliveries of a stream of events, in milliseconds.
pub const MAX_PACE_MS: u64 = 500;

/// The longest minimum hold of a lease, in milliseconds: a day.
pub const MAX_MIN_HOLD_MS: u64 = 86_400_000;

/// The highest weight of a member of a pool.
pub const MAX_WEIGHT: u32 = 1_000_000;
/// The highest capacity that a member of a pool may declare, in keys.
pub const MAX_CAPACITY: u32 = 1_000_000;
/// The interval between two rounds of a check, in milliseconds.
pub const CHECK_INTERVAL_MS: RangeInclusive<u64> = 100..=3_600_000;
/// The timeout of one round of a check, in milliseconds. A round occupies one of the node's slots for checks while it
/// runs.
pub const CHECK_TIMEOUT_MS: RangeInclusive<u64> = 100..=60_000;
/// The number of failed rounds in a row that ends a session.
pub const CHECK_FAIL_AFTER: RangeInclusive<u32> = 1..=1000;
/// The longest URL of a check, in bytes.
pub const MAX_CHECK_URL_BYTES: usize = 2048;
/// The longest address of a check, in bytes.
pub const MAX_CHECK_ADDRESS_BYTES: usize = 256;
/// The longest command of a check, in bytes, including its arguments.
pub const MAX_CHECK_COMMAND_BYTES: usize = 4096;
