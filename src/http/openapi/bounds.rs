//! The bounds of fields in the schemas, from the constants by which requests are checked.

use std::ops::RangeInclusive;

use utoipa::{
    Modify,
    openapi::{
        OpenApi as Spec, RefOr,
        schema::{Object, Schema},
    },
};

use crate::{
    access::{MAX_CERTIFICATE_BYTES, MAX_NAME_BYTES},
    api::limits::{
        CHECK_FAIL_AFTER, CHECK_INTERVAL_MS, CHECK_TIMEOUT_MS, MAX_BATCH, MAX_CAPACITY,
        MAX_CHECK_ADDRESS_BYTES, MAX_CHECK_URL_BYTES, MAX_MIN_HOLD_MS, MAX_REASON_BYTES,
        MAX_REQUEST_ID_BYTES, MAX_TOKEN, MAX_WEIGHT, ORDER_MS,
    },
    http::request::MAX_PREPARED,
    lease::{
        HIDDEN, MAX_ADDRESS_BYTES, MAX_CHECKS, MAX_KEY_BYTES, MAX_LOCK_DELAY_MS, MAX_OWNER_BYTES,
        MAX_PERMITS, MAX_PIN_BYTES, MAX_VERSION_BYTES,
    },
    manager::{MAX_CANDIDATES, MAX_PROGRESS_BYTES, MAX_TAKEN, MAX_VALUE_BYTES},
};

/// What a field may hold.
enum Bound {
    /// A text of 1 to this many bytes, without control characters.
    Name(usize),
    /// A new name, whose length in bytes is in this range: each of its characters is seen.
    New(RangeInclusive<usize>),
    /// A text whose length in bytes is in this range.
    Bytes(RangeInclusive<usize>),
    /// A text of this form.
    Form(&'static str),
    /// A text of at most this many bytes, and of this form.
    ShortForm(usize, &'static str),
    /// A number of this range.
    Number(RangeInclusive<u64>),
    /// A list whose number of items is in this range.
    Items(RangeInclusive<usize>),
    /// A list of at least one item.
    NotEmpty,
}

/// A text without control characters.
const PLAIN: &str = r"^[^\x00-\x1f\x7f-\x9f]*$";
const LEASE_ID: &str = "^[0-9a-fA-F]{32}$";
const SESSION_ID: &str = "^[0-9a-f]{32}[0-9a-fA-F]{32}$";

/// Each bound of a field, and the schemas that have it.
const BOUNDS: [(&str, Bound, &[&str]); 46] = [
    ("address", Bound::ShortForm(MAX_CHECK_ADDRESS_BYTES, ":[0-9]+$"), &["CheckSpec"]),
    ("after", Bound::Name(MAX_KEY_BYTES), &["ForgetBody"]),
    ("by", Bound::Name(MAX_PIN_BYTES), &["PinBody"]),
    ("capacity", Bound::Number(wide(1..=MAX_CAPACITY)), &["SessionBody"]),
    ("checks", Bound::Items(0..=MAX_CHECKS), &["SessionBody"]),
    ("command", Bound::NotEmpty, &["CheckSpec"]),
    ("fail_after", Bound::Number(wide(CHECK_FAIL_AFTER)), &["CheckSpec"]),
    ("interval_ms", Bound::Number(CHECK_INTERVAL_MS), &["CheckSpec"]),
    ("key", Bound::New(1..=MAX_KEY_BYTES), &["AcquireBody", "WantedKey"]),
    ("key", Bound::Name(MAX_KEY_BYTES), &["CheckBody", "TransferBody"]),
    ("key", Bound::Name(MAX_KEY_BYTES), &["FenceSkipBody", "PinBody", "RevokeBody"]),
    ("key", Bound::Name(MAX_KEY_BYTES), &["FenceRetryBody"]),
    ("key", Bound::Bytes(1..=MAX_KEY_BYTES), &["HeartbeatBody", "ReleaseBody"]),
    ("keys", Bound::Items(1..=MAX_CANDIDATES), &["AcquireAnyBody"]),
    ("keys", Bound::Items(1..=MAX_TAKEN), &["AcquireAllBody"]),
    ("permits", Bound::Number(wide(1..=MAX_PERMITS)), &["WantedKey"]),
    ("lease_id", Bound::Form(LEASE_ID), &["HeartbeatBody", "ReleaseBody", "TransferBody"]),
    ("leases", Bound::Items(0..=MAX_BATCH), &["BatchBody"]),
    ("lock_delay_ms", Bound::Number(wide(0..=MAX_LOCK_DELAY_MS)), &["SessionBody"]),
    ("min_hold_ms", Bound::Number(0..=MAX_MIN_HOLD_MS), &["AcquireBody"]),
    ("owner", Bound::New(1..=MAX_OWNER_BYTES), &["AcquireBody", "AcquireAllBody"]),
    ("owner", Bound::New(1..=MAX_OWNER_BYTES), &["AcquireAnyBody", "SessionBody"]),
    ("owner", Bound::Name(MAX_OWNER_BYTES), &["DrainBody"]),
    ("load_limit", Bound::Number(0..=1_000_000_000), &["BeatBody"]),
    ("prefix", Bound::Bytes(0..=MAX_KEY_BYTES), &["AcquireAnyBody", "FenceRetryBody"]),
    ("prefix", Bound::Name(MAX_KEY_BYTES), &["ForgetBody"]),
    ("prepared", Bound::Items(0..=MAX_PREPARED), &["BeatBody"]),
    ("progress", Bound::Bytes(0..=MAX_PROGRESS_BYTES), &["BeatBody"]),
    ("reason", Bound::Name(MAX_REASON_BYTES), &["FenceSkipBody", "ForgetBody", "RevokeBody"]),
    ("reason", Bound::Name(MAX_REASON_BYTES), &["AccessOrderBody", "ReleaseBody", "TransferBody"]),
    ("reason", Bound::Name(MAX_REASON_BYTES), &["FenceRetryBody"]),
    ("principal", Bound::Name(MAX_NAME_BYTES), &["AccessOrderBody"]),
    ("token", Bound::Form("^sha256:[0-9a-fA-F]{64}$"), &["AccessOrderBody"]),
    ("certificate", Bound::New(1..=MAX_CERTIFICATE_BYTES), &["AccessOrderBody"]),
    (
        "request_id",
        Bound::Bytes(1..=MAX_REQUEST_ID_BYTES),
        &["AcquireBody", "AcquireAllBody", "AcquireAnyBody"],
    ),
    ("session", Bound::Form(SESSION_ID), &["AcquireBody", "AcquireAllBody", "AcquireAnyBody"]),
    ("timeout_ms", Bound::Number(CHECK_TIMEOUT_MS), &["CheckSpec"]),
    ("to", Bound::New(1..=MAX_OWNER_BYTES), &["TransferBody"]),
    ("token", Bound::Number(0..=MAX_TOKEN), &["CheckBody"]),
    ("version", Bound::New(0..=MAX_VERSION_BYTES), &["SessionBody"]),
    ("address", Bound::New(1..=MAX_ADDRESS_BYTES), &["SessionBody"]),
    ("for_ms", Bound::Number(ORDER_MS), &["PoolOrderBody", "AccessOrderBody"]),
    ("url", Bound::ShortForm(MAX_CHECK_URL_BYTES, "^https?://"), &["CheckSpec"]),
    ("value", Bound::Bytes(0..=MAX_VALUE_BYTES), &["AcquireBody", "HeartbeatBody"]),
    ("value", Bound::Bytes(0..=MAX_VALUE_BYTES), &["ReleaseBody", "TransferBody"]),
    ("weight", Bound::Number(wide(1..=MAX_WEIGHT)), &["SessionBody"]),
];

const fn wide(range: RangeInclusive<u32>) -> RangeInclusive<u64> {
    *range.start() as u64..=*range.end() as u64
}

/// Adds the bounds of fields to the schemas.
pub struct Bounds;

impl Modify for Bounds {
    fn modify(&self, spec: &mut Spec) {
        let Some(components) = &mut spec.components else { return };
        for (field, bound, schemas) in &BOUNDS {
            for name in *schemas {
                let schema = components.schemas.get_mut(*name);
                let fields = schema.map_or(0, |schema| bound_in(schema, field, bound));
                debug_assert!(fields > 0, "{name} has no {field}");
            }
        }
    }
}

/// Adds the bound of a field to a schema. Returns how many of its forms have the field.
fn bound_in(schema: &mut RefOr<Schema>, field: &str, bound: &Bound) -> usize {
    match schema {
        RefOr::T(Schema::OneOf(forms)) => {
            forms.items.iter_mut().map(|form| bound_in(form, field, bound)).sum()
        }
        RefOr::T(Schema::Object(object)) => match object.properties.get_mut(field) {
            Some(RefOr::T(property)) => {
                bound.apply(property);
                1
            }
            _ => 0,
        },
        _ => 0,
    }
}

impl Bound {
    fn apply(&self, property: &mut Schema) {
        match (self, property) {
            (Self::Items(count), Schema::Array(list)) => {
                list.min_items = at_least(*count.start());
                list.max_items = Some(*count.end());
            }
            (Self::NotEmpty, Schema::Array(list)) => list.min_items = Some(1),
            (_, Schema::Object(value)) => self.apply_to(value),
            _ => {}
        }
    }

    fn apply_to(&self, value: &mut Object) {
        match self {
            Self::Name(most) => {
                Self::Bytes(1..=*most).apply_to(value);
                Self::Form(PLAIN).apply_to(value);
            }
            Self::New(length) => {
                Self::Bytes(length.clone()).apply_to(value);
                value.pattern = Some(seen());
            }
            Self::Bytes(length) => {
                value.min_length = at_least(*length.start());
                value.max_length = Some(*length.end());
            }
            Self::Form(pattern) => value.pattern = Some((*pattern).to_owned()),
            Self::ShortForm(most, pattern) => {
                Self::Bytes(0..=*most).apply_to(value);
                Self::Form(pattern).apply_to(value);
            }
            Self::Number(range) => {
                value.minimum = Some((*range.start()).into());
                value.maximum = Some((*range.end()).into());
            }
            Self::Items(_) | Self::NotEmpty => {}
        }
    }
}

/// A text of which each character is seen. A pattern that every tool reads names no character beyond U+FFFF.
fn seen() -> String {
    let narrow = HIDDEN.iter().filter(|(_, last)| *last <= 0xffff);
    let ranges: Vec<String> =
        narrow.map(|(first, last)| format!("\\u{first:04x}-\\u{last:04x}")).collect();
    format!("^[^{}]*$", ranges.concat())
}

/// A lower bound; none where it bounds nothing.
fn at_least(count: usize) -> Option<usize> {
    Some(count).filter(|count| *count > 0)
}
