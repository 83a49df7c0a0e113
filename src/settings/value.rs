//! The types of values: how each is read, whichever layer it comes from, and how it is shown. A number may be written
//! as text, because the environment and flags have only text. Nothing is rounded, and no value is taken for one of
//! another type.

use std::{fmt, net::SocketAddr, ops::RangeInclusive, path::PathBuf, time::Duration};

use config::{ConfigError, Value, ValueKind};
use serde::de::{Deserializer as _, Error, Unexpected, Visitor};

use super::{
    secret::Secret,
    units::{ByteSize, in_one_unit, parse_duration},
};

/// How the values of a type are written.
pub(super) trait Format: Sized {
    /// Whether the values are secrets. Neither `config show` nor a fault prints them.
    const SECRET: bool = false;

    fn read(value: Value) -> Result<Self, ConfigError>;
    fn show(&self) -> Shown;
}

/// A type whose values have bounds.
pub(super) trait Bounded {
    type Bound: PartialOrd + Format;

    /// What the bounds are for; `None` if the value has nothing to bound.
    fn bounded(&self) -> Option<Self::Bound>;
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Shown {
    /// Not at all.
    Nothing,
    /// As text in quotes.
    Text(String),
    /// As it is: a number, a flag, a list.
    Plain(String),
    /// As being set, followed by what may be said of it.
    Hidden(String),
}

impl Shown {
    /// The line of a key, as TOML. For a hidden value it is a comment, since a placeholder would read back as a wrong
    /// value.
    pub(super) fn line(&self, key: &str) -> Option<String> {
        match self {
            Self::Nothing => None,
            Self::Text(text) => Some(format!("{key} = {}", quoted(text))),
            Self::Plain(text) => Some(format!("{key} = {text}")),
            Self::Hidden(rest) => Some(format!("# {key} is set, and not shown{rest}")),
        }
    }
}

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) | Self::Plain(text) => f.write_str(text),
            Self::Nothing | Self::Hidden(_) => Ok(()),
        }
    }
}

/// A JSON string is a TOML basic string.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// The fault of a value outside of its bounds.
pub(super) fn outside<V: Bounded>(value: &V, allowed: RangeInclusive<V::Bound>) -> Option<String> {
    let value = value.bounded().filter(|value| !allowed.contains(value))?;
    Some(format!("is {}; must be from {}", value.show(), range::<V>(allowed)))
}

pub(super) fn range<V: Bounded>(allowed: RangeInclusive<V::Bound>) -> String {
    format!("{} to {}", allowed.start().show(), allowed.end().show())
}

/// The message alone: the fault already names the key and the origin.
pub(super) fn say(error: &ConfigError) -> String {
    match error {
        ConfigError::At { error, .. } => say(error),
        ConfigError::Type { unexpected, expected, .. } => {
            format!("invalid type: {unexpected}, expected {expected}")
        }
        other => other.to_string(),
    }
}

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

/// Reads what is written as text or as a whole number.
pub(super) fn from_text_or_number<T>(
    value: Value,
    expecting: &'static str,
    text: fn(&str) -> Option<T>,
    whole: fn(u64) -> Option<T>,
) -> Result<T, ConfigError> {
    value.deserialize_any(Scalar { expecting, text, whole })
}

/// Reads what is always written as text.
pub(super) fn from_text<T>(
    value: Value,
    expecting: &'static str,
    text: fn(&str) -> Option<T>,
) -> Result<T, ConfigError> {
    from_text_or_number(value, expecting, text, |_| None)
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

impl Format for bool {
    fn read(value: Value) -> Result<Self, ConfigError> {
        value.deserialize_any(Flag)
    }

    fn show(&self) -> Shown {
        Shown::Plain(self.to_string())
    }
}

/// Reads a number with a fraction, which may be written as text.
struct Fraction;

impl Visitor<'_> for Fraction {
    type Value = f64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number")
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<f64, E> {
        Ok(number)
    }

    #[expect(clippy::cast_precision_loss, reason = "no setting has numbers that large")]
    fn visit_i64<E: Error>(self, number: i64) -> Result<f64, E> {
        Ok(number as f64)
    }

    #[expect(clippy::cast_precision_loss, reason = "no setting has numbers that large")]
    fn visit_u64<E: Error>(self, number: u64) -> Result<f64, E> {
        Ok(number as f64)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<f64, E> {
        text.parse().map_err(|_| E::invalid_value(Unexpected::Str(text), &self))
    }
}

impl Format for f64 {
    fn read(value: Value) -> Result<Self, ConfigError> {
        value.deserialize_any(Fraction)
    }

    fn show(&self) -> Shown {
        Shown::Plain(self.to_string())
    }
}

/// For types that are written as text: what is expected, how the text is read, and how it is made.
macro_rules! written_as_text {
    ($($type:ty: $expecting:literal, $read:expr, $show:expr;)*) => {$(
        impl $crate::settings::value::Format for $type {
            fn read(value: config::Value) -> Result<Self, config::ConfigError> {
                $crate::settings::value::from_text(value, $expecting, $read)
            }

            fn show(&self) -> $crate::settings::value::Shown {
                let show: fn(&Self) -> String = $show;
                $crate::settings::value::Shown::Text(show(self))
            }
        }
    )*};
}

pub(super) use written_as_text;

written_as_text! {
    String: "text in quotes", |text| Some(text.to_owned()), Self::clone;
    PathBuf: "text in quotes", |text| Some(text.into()), |path| path.display().to_string();
    Duration: "a duration in quotes such as \"250ms\", \"15s\" or \"2m\"",
        |text| parse_duration(text).ok(), |span| in_one_unit(*span);
    ByteSize: "a size in quotes such as \"8MiB\"", |text| text.parse().ok(), ToString::to_string;
    SocketAddr: "an IP address and a port such as \"127.0.0.1:7373\" or \"[::1]:7373\"",
        |text| text.parse().ok(), ToString::to_string;
}

macro_rules! whole_numbers {
    ($($number:ty),*) => {$(
        impl Format for $number {
            fn read(value: Value) -> Result<Self, ConfigError> {
                from_text_or_number(
                    value,
                    "a whole number that is not negative",
                    |text| text.parse::<u64>().ok()?.try_into().ok(),
                    |number| number.try_into().ok(),
                )
            }

            fn show(&self) -> Shown {
                Shown::Plain(self.to_string())
            }
        }
    )*};
}

whole_numbers!(u8, u32, u64, usize);

impl Format for Secret {
    const SECRET: bool = true;

    fn read(value: Value) -> Result<Self, ConfigError> {
        String::read(value).map(Self::new)
    }

    fn show(&self) -> Shown {
        if self.is_empty() { Shown::Text(String::new()) } else { Shown::Hidden(String::new()) }
    }
}

impl<T: Format> Format for Option<T> {
    fn read(value: Value) -> Result<Self, ConfigError> {
        T::read(value).map(Some)
    }

    fn show(&self) -> Shown {
        self.as_ref().map_or(Shown::Nothing, Format::show)
    }
}

impl Format for Vec<String> {
    fn read(value: Value) -> Result<Self, ConfigError> {
        let ValueKind::Array(items) = value.kind else {
            let problem = "must be texts in brackets, such as [\"a\", \"b\"]";
            return Err(ConfigError::Message(problem.to_owned()));
        };
        items.into_iter().map(String::read).collect()
    }

    fn show(&self) -> Shown {
        let items: Vec<String> = self.iter().map(|item| quoted(item)).collect();
        Shown::Plain(format!("[{}]", items.join(",")))
    }
}

macro_rules! bounded {
    ($($bound:ty),*) => {$(
        impl Bounded for $bound {
            type Bound = Self;

            fn bounded(&self) -> Option<Self> {
                Some(*self)
            }
        }
    )*};
}

bounded!(u8, u32, u64, usize, f64, Duration, ByteSize);

impl<T: Bounded> Bounded for Option<T> {
    type Bound = T::Bound;

    fn bounded(&self) -> Option<T::Bound> {
        self.as_ref()?.bounded()
    }
}
