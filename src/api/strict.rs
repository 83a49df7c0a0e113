//! Strict readers of JSON. Without them, serde would also accept a list of the fields in place of an object, and
//! `{"listed": null}` in place of the word `"listed"`.

use std::{fmt, marker::PhantomData};

use serde::{
    Deserialize, Deserializer,
    de::{
        Error, IntoDeserializer, MapAccess, Visitor,
        value::{MapAccessDeserializer, StrDeserializer},
    },
};

/// A JSON object, and nothing else.
pub struct Object<T>(pub T);

struct Fields<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(Fields(PhantomData)).map(Self)
    }
}

impl<'de, T: Deserialize<'de>> Visitor<'de> for Fields<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, fields: A) -> Result<T, A::Error> {
        T::deserialize(MapAccessDeserializer::new(fields))
    }
}

/// A list of JSON objects.
pub fn objects<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    from: D,
) -> Result<Vec<T>, D::Error> {
    let objects = Vec::<Object<T>>::deserialize(from)?;
    Ok(objects.into_iter().map(|Object(object)| object).collect())
}

/// A word of an enumeration, as a JSON string.
pub fn word<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<T, D::Error> {
    struct Word<T>(PhantomData<T>);
    impl<'de, T: Deserialize<'de>> Visitor<'de> for Word<T> {
        type Value = T;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a string")
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
            let text: StrDeserializer<'_, E> = text.into_deserializer();
            T::deserialize(text)
        }
    }
    from.deserialize_str(Word(PhantomData))
}
