//! The lists of the program and of the page are made from Unicode's tables; `UPDATE=1` writes them anew.

use std::{fmt::Write as _, path::Path};

use regex_syntax::hir::{Class, HirKind};

/// The characters that are not seen. U+2800, U+13441, U+13442, U+16FE4 and U+1D159 show as blanks, and U+FFFC stands for
/// something that is not there; they have no property in common.
const HIDDEN: &str = r"[\p{Default_Ignorable_Code_Point}\p{Noncharacter_Code_Point}\p{Cc}\p{Cf}\p{Zl}\p{Zp}\x{2800}\x{FFFC}\x{13441}\x{13442}\x{16FE4}\x{1D159}]";

/// The ranges of characters that are not seen, in ascending order.
pub fn ranges() -> Vec<(u32, u32)> {
    let hir = regex_syntax::parse(HIDDEN).expect("a class");
    let HirKind::Class(Class::Unicode(class)) = hir.kind() else { panic!("{hir:?}") };
    class.iter().map(|range| (u32::from(range.start()), u32::from(range.end()))).collect()
}

/// The first and the last character of each range.
pub fn samples() -> Vec<char> {
    let ends = ranges().into_iter().flat_map(|(first, last)| [first, last]);
    let mut all: Vec<char> = ends.map(|code| char::from_u32(code).expect("a character")).collect();
    all.extend("\u{ad}\u{200b}\u{202e}\u{2066}\u{feff}\u{e0072}".chars());
    all.sort_unstable();
    all.dedup();
    all
}

/// The characters of a text that are not seen.
pub fn hidden_in(text: &str) -> Vec<char> {
    let ranges = ranges();
    let is_hidden = |c: &char| {
        let code = u32::from(*c);
        ranges.iter().any(|(first, last)| (*first..=*last).contains(&code))
    };
    text.chars().filter(is_hidden).collect()
}

/// The version of the crate that has the tables.
fn version() -> String {
    let lock = include_str!("../../../Cargo.lock");
    let (_, rest) = lock.split_once("name = \"regex-syntax\"\nversion = \"").expect("the crate");
    rest.split('"').next().expect("a version").to_owned()
}

fn assert_written(file: &str, expected: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, expected).expect("it is written");
    }
    let found = std::fs::read_to_string(&path).expect("the list");
    assert!(found == expected, "{file} is old; run the test with UPDATE=1");
}

#[test]
fn the_list_of_the_program_is_the_generated_one() {
    let mut text = format!(
        "//! The characters that are not seen, as ranges. `UPDATE=1 cargo test --test it hidden::table` writes this file from the\n\
         //! Unicode tables of regex-syntax {}. Do not edit it.\n\n\
         pub(crate) const HIDDEN: &[(u32, u32)] = &[\n",
        version()
    );
    for (first, last) in ranges() {
        let _ = writeln!(text, "    (0x{first:x}, 0x{last:x}),");
    }
    text += "];\n";
    assert_written("src/lease/primitives/hidden_table.rs", &text);
}

#[test]
fn the_list_of_the_page_is_the_generated_one() {
    let mut text = format!(
        "// The characters that are not seen. `UPDATE=1 cargo test --test it hidden::table` writes this file from the Unicode tables of\n\
         // regex-syntax {}. Do not edit it.\n\n\
         /** Each character that is not seen. */\n\
         export const HIDDEN = /[",
        version()
    );
    for (first, last) in ranges() {
        let _ = write!(text, "\\u{{{first:x}}}");
        if last > first {
            let _ = write!(text, "-\\u{{{last:x}}}");
        }
    }
    text += "]/gu;\n";
    assert_written("src/http/pages/assets/page/hidden.js", &text);
}
