//! Reads the query of a request as strictly as a body.

use std::fmt::Display;

use actix_web::{HttpRequest, web};
use serde::{
    Deserialize, Deserializer,
    de::{
        DeserializeOwned, Error as _, IntoDeserializer, Unexpected, Visitor,
        value::{Error, MapDeserializer},
    },
    forward_to_deserialize_any,
};

use super::words::{self, quoted};
use crate::http::{answer::Problem, percent::percent_decode};

/// A query without parameters.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NoQuery {}

/// Reads the query of a request. Unknown and duplicate parameters are refused.
pub fn query<T: DeserializeOwned>(request: &HttpRequest) -> Result<T, Problem> {
    parse_query(request.query_string())
}

/// Reads a query from its raw text.
pub fn parse_query<T: DeserializeOwned>(raw: &str) -> Result<T, Problem> {
    let unread = |detail: String, field| Problem::malformed(detail, field);
    // The parser would replace bytes that are not UTF-8.
    percent_decode(raw.as_bytes())
        .and_then(|bytes| String::from_utf8(bytes).map_err(|_| "is not UTF-8"))
        .map_err(|detail| unread(format!("the query {detail}"), None))?;
    let pairs = web::Query::<Vec<(String, String)>>::from_query(raw)
        .map_err(|error| unread(error.to_string(), None))?
        .into_inner();
    let pairs = pairs.into_iter().map(|(name, text)| (name, Text(text)));
    let fields = MapDeserializer::<_, Error>::new(pairs);
    serde_path_to_error::deserialize(fields).map_err(|error| {
        let path = error.path().to_string();
        let detail = error.into_inner().to_string();
        let field = if path == "." { quoted(&detail) } else { Some(path) };
        unread(words::of_value(&detail), field)
    })
}

/// The text of a parameter, which may have to be a number.
struct Text(String);

impl IntoDeserializer<'_, Error> for Text {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

impl Text {
    fn whole<T: std::str::FromStr + TryInto<u64>>(&self, max: impl Display) -> Result<T, Error> {
        // The number parser accepts a plus sign, which the query parser reads as a space.
        let digits = self.0.bytes().all(|b| b.is_ascii_digit());
        digits.then(|| self.0.parse().ok()).flatten().ok_or_else(|| {
            let expected = format!("a whole number from 0 to {max}");
            Error::invalid_value(Unexpected::Str(&self.0), &expected.as_str())
        })
    }
}

impl<'de> Deserializer<'de> for Text {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_string(self.0)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_some(self)
    }

    fn deserialize_u8<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_u8(self.whole(u8::MAX)?)
    }

    fn deserialize_u64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_u64(self.whole(u64::MAX)?)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u16 u32 u128 f32 f64 char str string bytes byte_buf unit unit_struct
        newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}
