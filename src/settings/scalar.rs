//! Reads one value, whichever layer it comes from. A number may be written as text, because the environment and flags
//! have only text. Nothing is rounded, and no value is taken for one of another type.

use std::{fmt, net::SocketAddr, path::PathBuf, time::Duration};

use serde::de::{Deserializer, Error, Unexpected, Visitor};

use super::{ByteSize, LogFormat, Secret, StoreKind, Workers, parse_duration};

/// Reads a `T` from text or from a whole number.
struct Scalar<T> {
    expecting: &'static str,
    text: fn(&str) -> Option<T>,
    whole: fn(u64) -> Option<T>,
}

impl<T> Visitor<'_> for Scalar<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expecting)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        (self.text)(text).ok_or_else(|| E::invalid_value(Unexpected::Str(text), &self))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<T, E> {
        (self.whole)(number).ok_or_else(|| E::invalid_value(Unexpected::Unsigned(number), &self))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<T, E> {
        match u64::try_from(number) {
            Ok(number) => self.visit_u64(number),
            Err(_) => Err(E::invalid_value(Unexpected::Signed(number), &self)),
        }
    }
}

pub(super) fn whole<'de, D: Deserializer<'de>, T: TryFrom<u64>>(from: D) -> Result<T, D::Error> {
    from.deserialize_any(Scalar {
        expecting: "a whole number that is not negative",
        text: |text| text.parse::<u64>().ok().and_then(|n| n.try_into().ok()),
        whole: |n| n.try_into().ok(),
    })
}

pub(super) fn text<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    from.deserialize_any(Scalar {
        expecting: "text in quotes",
        text: |text| Some(text.to_owned()),
        whole: |_| None,
    })
}

pub(super) fn path<'de, D: Deserializer<'de>>(from: D) -> Result<PathBuf, D::Error> {
    text(from).map(PathBuf::from)
}

pub(super) fn duration<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    from.deserialize_any(Scalar {
        expecting: "a duration in quotes such as \"250ms\", \"15s\" or \"2m\"",
        text: |text| parse_duration(text).ok(),
        whole: |_| None,
    })
}

pub(super) fn byte_size<'de, D: Deserializer<'de>>(from: D) -> Result<ByteSize, D::Error> {
    from.deserialize_any(Scalar {
        expecting: "a size in quotes such as \"8MiB\"",
        text: |text| text.parse().ok(),
        whole: |_| None,
    })
}

pub(super) fn address<'de, D: Deserializer<'de>>(from: D) -> Result<SocketAddr, D::Error> {
    from.deserialize_any(Scalar {
        expecting: "an IP address and a port such as \"127.0.0.1:7373\" or \"[::1]:7373\"",
        text: |text| text.parse().ok(),
        whole: |_| None,
    })
}

pub(super) fn workers<'de, D: Deserializer<'de>>(from: D) -> Result<Workers, D::Error> {
    let count = |n: u64| usize::try_from(n).ok().map(Workers::Count);
    from.deserialize_any(Scalar {
        expecting: "\"auto\" or a whole number",
        text: |text| match text {
            "auto" => Some(Workers::Auto),
            number => number.parse().ok().map(Workers::Count),
        },
        whole: count,
    })
}

impl serde::Serialize for Workers {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Auto => serializer.serialize_str("auto"),
            Self::Count(count) => count.serialize(serializer),
        }
    }
}

pub(super) fn log_format<'de, D: Deserializer<'de>>(from: D) -> Result<LogFormat, D::Error> {
    from.deserialize_any(Scalar {
        expecting: "\"text\" or \"json\"",
        text: |text| match text {
            "text" => Some(LogFormat::Text),
            "json" => Some(LogFormat::Json),
            _ => None,
        },
        whole: |_| None,
    })
}

pub(super) fn kind<'de, D: Deserializer<'de>>(from: D) -> Result<StoreKind, D::Error> {
    from.deserialize_any(Scalar {
        expecting: "\"embedded\", \"nats\" or \"dynamodb\"",
        text: |text| StoreKind::ALL.into_iter().find(|kind| kind.as_str() == text),
        whole: |_| None,
    })
}

pub(super) fn secret<'de, D: Deserializer<'de>>(from: D) -> Result<Secret, D::Error> {
    text(from).map(Secret::new)
}

/// Reads a boolean, which may be written as text.
struct Flag;

impl Visitor<'_> for Flag {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("true or false")
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<bool, E> {
        Ok(value)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<bool, E> {
        text.parse().map_err(|_| E::invalid_value(Unexpected::Str(text), &self))
    }
}

/// Reads one of several names.
pub(super) fn choice<T: Copy>(
    from: config::Value,
    names: &[(&str, T)],
    expecting: &str,
) -> Result<T, config::ConfigError> {
    let name = text(from)?;
    let found = names.iter().find(|(known, _)| *known == name).map(|(_, value)| *value);
    found.ok_or_else(|| {
        config::ConfigError::Message(format!(
            "invalid value: string {name:?}, expected {expecting}"
        ))
    })
}

/// Reads a list of texts.
pub(super) fn texts(from: config::Value) -> Result<Vec<String>, config::ConfigError> {
    let config::ValueKind::Array(items) = from.kind else {
        let problem = "must be texts in brackets, such as [\"a\", \"b\"]".to_owned();
        return Err(config::ConfigError::Message(problem));
    };
    items.into_iter().map(text).collect()
}

pub(super) fn flag<'de, D: Deserializer<'de>>(from: D) -> Result<bool, D::Error> {
    from.deserialize_any(Flag)
}
