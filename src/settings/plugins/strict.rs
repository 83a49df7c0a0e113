//! Reads the values of plugins: each has the type that TOML has for it. No fault quotes a value, since it may be a
//! secret.

use std::{fmt::Display, ops::RangeInclusive, path::PathBuf};

use config::{ConfigError, Value, ValueKind};

/// What was read, or the fault that says what it must be.
pub(super) fn must_be<T>(expecting: impl Display, read: Option<T>) -> Result<T, ConfigError> {
    read.ok_or_else(|| ConfigError::Message(format!("must be {expecting}")))
}

pub(super) fn text(value: Value) -> Option<String> {
    match value.kind {
        ValueKind::String(text) => Some(text),
        _ => None,
    }
}

pub(super) fn texts(value: Value) -> Option<Vec<String>> {
    match value.kind {
        ValueKind::Array(items) => items.into_iter().map(text).collect(),
        _ => None,
    }
}

pub(super) fn any_text(value: Value) -> Result<String, ConfigError> {
    must_be("text in quotes", text(value))
}

pub(super) fn path(value: Value) -> Result<PathBuf, ConfigError> {
    any_text(value).map(PathBuf::from)
}

pub(super) fn flag(value: Value) -> Result<bool, ConfigError> {
    let flag = match value.kind {
        ValueKind::Boolean(flag) => Some(flag),
        _ => None,
    };
    must_be("true or false", flag)
}

pub(super) fn number<T: TryFrom<i64> + PartialOrd + Display>(
    value: Value,
    allowed: RangeInclusive<T>,
) -> Result<T, ConfigError> {
    let number = match value.kind {
        ValueKind::I64(number) => T::try_from(number).ok(),
        _ => None,
    };
    let number = number.filter(|number| allowed.contains(number));
    must_be(format!("a whole number from {} to {}", allowed.start(), allowed.end()), number)
}
