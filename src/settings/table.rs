//! The one table of settings: what reading, checking, `config show` and the shipped file need to know of each.
//!
//! A section lists its settings in [`section!`], from which the macro makes a struct with the settings as fields, its
//! defaults, and its [`Row`]s.

use config::{ConfigError, Value};

use super::{content::Content, value::Shown};

/// A struct whose fields are settings.
pub(super) trait Section: Default + 'static {
    /// Its settings, in the order of the shipped file.
    const ROWS: &'static [Row<Self>];
}

/// A setting of the section `S`.
pub(super) struct Row<S: 'static> {
    pub(super) about: About,
    pub(super) set: fn(&mut S, Value) -> Result<(), ConfigError>,
    pub(super) show: fn(&S) -> Shown,
    pub(super) differs: fn(&S, &S) -> bool,
    /// What is wrong with a value of the right type.
    pub(super) rules: &'static [fn(&S) -> Vec<String>],
    /// What is wrong with the file that it names.
    pub(super) files: &'static [fn(&S) -> Option<String>],
    /// What must be in the file that it names.
    pub(super) contents: &'static [Content],
}

/// What a row says of its setting, whatever the section.
pub(super) struct About {
    pub(super) key: &'static str,
    /// Its meaning, in lines.
    pub(super) help: &'static [&'static str],
    /// The allowed values, for people.
    pub(super) range: &'static [fn() -> String],
    /// What the shipped file shows instead of the default; empty: it does not show the key.
    pub(super) example: Option<&'static str>,
    pub(super) required: bool,
    pub(super) secret: bool,
}

impl<S: 'static> Row<S> {
    /// The faults of a value of the right type.
    pub(super) fn faults(&self, section: &S) -> Vec<String> {
        self.rules.iter().flat_map(|rule| rule(section)).collect()
    }

    /// Whether it names a file with certificates.
    pub(super) fn is_of_certificates(&self) -> bool {
        matches!(self.contents, [Content::Pem("CERTIFICATE")])
    }

    /// The faults of the file that the value names.
    pub(super) fn file_faults(&self, section: &S) -> Vec<String> {
        self.files.iter().filter_map(|fault| fault(section)).collect()
    }
}

/// The settings of a section, with their values as they are shown.
pub(super) fn shown<S: Section>(section: &S) -> Vec<(&'static About, Shown)> {
    S::ROWS.iter().map(|row| (&row.about, (row.show)(section))).collect()
}

/// Makes a section from a list of its settings:
///
/// ```text
/// /// Help, in sentences. The shipped file adds the range.
/// key: Type = default, option, option;
/// ```
///
/// The options, in this order:
///
/// | option | meaning |
/// | --- | --- |
/// | `required = true` | the key must be given |
/// | `example = "…"` | what the shipped file shows instead of the default; `""`: it does not show the key |
/// | `read function` | reads the value, instead of its type |
/// | `show function` | shows the value, instead of its type |
/// | `in range` | the allowed values |
/// | `file content` | the value names a file, with this content |
/// | `if rule` | a function that returns the faults of this key in a section; may be repeated |
///
/// Fields that are no settings follow in a block `with { … }`.
macro_rules! section {
    (
        $(#[$about:meta])*
        pub struct $name:ident {$(
            $(#[doc = $help:literal])+
            $key:ident: $type:ty = $default:expr
            $(, required = $required:literal)?
            $(, example = $example:literal)?
            $(, read $read:ident)?
            $(, show $show:ident)?
            $(, in $range:expr)?
            $(, file $content:expr)?
            $(, if $rule:ident)*
            ;
        )*}
        $(with {$(
            $(#[$part_about:meta])+
            $part:ident: $part_type:ty,
        )*})?
    ) => {
        $(#[$about])*
        // The help is plain text.
        #[allow(rustdoc::bare_urls, rustdoc::broken_intra_doc_links)]
        #[derive(Clone, Debug, PartialEq)]
        pub struct $name {
            $($(#[doc = $help])+ pub $key: $type,)*
            $($($(#[$part_about])+ pub $part: $part_type,)*)?
        }

        impl Default for $name {
            fn default() -> Self {
                Self {
                    $($key: $default,)*
                    $($($part: Default::default(),)*)?
                }
            }
        }

        impl $crate::settings::table::Section for $name {
            const ROWS: &'static [$crate::settings::table::Row<Self>] = &[$(
                $crate::settings::table::Row {
                    about: $crate::settings::table::About {
                        key: stringify!($key),
                        help: &[$($help),+],
                        range: &[$(|| $crate::settings::value::range::<$type>($range),)?],
                        example: section!(@option $($example)?),
                        required: section!(@required $($required)?),
                        secret: <$type as $crate::settings::value::Format>::SECRET,
                    },
                    set: |section, value| {
                        section.$key = section!(@read $($read)?)(value)?;
                        Ok(())
                    },
                    show: |section| section!(@show $($show)?)(&section.$key),
                    differs: |one, other| one.$key != other.$key,
                    rules: &[
                        $(|section| {
                            $crate::settings::value::outside(&section.$key, $range).into_iter().collect()
                        },)?
                        $(|section| $rule(section).into_iter().map(String::from).collect(),)*
                    ],
                    files: &[$(|section| $content.fault(&section.$key),)?],
                    contents: &[$($content)?],
                },
            )*];
        }
    };
    (@required) => { false };
    (@required $value:literal) => { $value };
    (@option) => { None };
    (@option $value:literal) => { Some($value) };
    (@read) => { $crate::settings::value::Format::read };
    (@read $read:ident) => { $read };
    (@show) => { $crate::settings::value::Format::show };
    (@show $show:ident) => { $show };
}

pub(super) use section;
