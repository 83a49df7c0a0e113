//! No circle joins the children of a folder: of its files and subfolders, one after the other can be understood from
//! those before it. A folder's own file is one of its children.
//!
//! The check follows paths. It does not see a method that a file calls on a type of another file, nor a name that
//! `use super::*` brings from a folder's `pub use`.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    modules::{Arrow, Modules, is_test},
    sources,
};

/// How many places are named for one arrow of a circle.
const PLACES: usize = 3;

/// Which child uses which, and where.
type Edges<'a> = BTreeMap<(&'a str, &'a str), Vec<&'a Arrow<'a>>>;

/// A text for each circle among the children of a folder.
fn circles(files: &[(String, String)]) -> Vec<String> {
    let modules = Modules::of(files);
    let arrows = modules.arrows();
    let of_folder = |folder: &[String]| {
        let edges = edges(folder, &arrows);
        let found = groups(&edges);
        found.iter().map(|circle| describe(folder, circle, &edges)).collect::<Vec<_>>()
    };
    modules.folders().into_iter().flat_map(of_folder).collect()
}

fn edges<'a>(folder: &[String], arrows: &'a [Arrow<'a>]) -> Edges<'a> {
    let mut edges = Edges::new();
    for arrow in arrows.iter().filter(|arrow| !is_test(arrow.to)) {
        if let (Some(from), Some(to)) = (child(folder, arrow.from), child(folder, arrow.to))
            && from != to
        {
            edges.entry((from, to)).or_default().push(arrow);
        }
    }
    edges
}

/// The child of a folder that a module is or lies in.
fn child<'a>(folder: &[String], module: &'a [String]) -> Option<&'a str> {
    let inside = module.strip_prefix(folder)?;
    Some(inside.first().map_or("mod", String::as_str))
}

/// The sets of children of which each leads to each other one.
fn groups<'a>(edges: &Edges<'a>) -> BTreeSet<BTreeSet<&'a str>> {
    let starts: BTreeSet<_> = edges.keys().map(|(from, _)| *from).collect();
    let reach: BTreeMap<_, _> = starts.iter().map(|&from| (from, reach(from, edges))).collect();
    let leads = |from: &str, to: &str| reach.get(from).is_some_and(|found| found.contains(to));
    let group = |one: &&'a str| -> BTreeSet<&'a str> {
        let both = |other: &&str| leads(one, other) && leads(other, one);
        starts.iter().copied().filter(both).collect()
    };
    starts.iter().map(group).filter(|group| group.len() > 1).collect()
}

/// All children to which the arrows lead from one.
fn reach<'a>(from: &'a str, edges: &Edges<'a>) -> BTreeSet<&'a str> {
    let (mut found, mut open) = (BTreeSet::new(), vec![from]);
    while let Some(next) = open.pop() {
        let ahead = edges.keys().filter(|(start, _)| *start == next).map(|(_, to)| *to);
        open.extend(ahead.filter(|to| found.insert(*to)));
    }
    found
}

fn describe(folder: &[String], circle: &BTreeSet<&str>, edges: &Edges<'_>) -> String {
    let names: Vec<_> = circle.iter().copied().collect();
    let folder: Vec<_> = ["src"].into_iter().chain(folder.iter().map(String::as_str)).collect();
    let mut text = format!("{} has a circle of {}:", folder.join("/"), names.join(", "));
    for ((from, to), arrows) in edges {
        if circle.contains(from) && circle.contains(to) {
            let place = |arrow: &&Arrow<'_>| format!("{} names {}", arrow.file, arrow.written);
            let places: Vec<_> = arrows.iter().take(PLACES).map(place).collect();
            text.push_str(&format!("\n    {from} -> {to}: {}", places.join("; ")));
        }
    }
    text
}

#[test]
fn no_circle_joins_the_children_of_a_folder() {
    let found = circles(&sources());
    assert!(found.is_empty(), "\n{}", found.join("\n"));
}

/// The circles of a crate with these files.
fn found(files: &[(&str, &str)]) -> Vec<String> {
    let own = |(file, text): &(&str, &str)| ((*file).to_owned(), (*text).to_owned());
    circles(&files.iter().map(own).collect::<Vec<_>>())
}

#[test]
fn a_circle_of_two_files_is_told_with_its_arrows() {
    let files = [
        ("lib.rs", "mod room;"),
        ("room/mod.rs", "mod above; mod one; mod two;"),
        ("room/above.rs", "use super::{one::One, two::Two};"),
        ("room/one.rs", "use super::two::Two; pub struct One;"),
        ("room/two.rs", "use super::{one::{self, One}}; pub struct Two;"),
    ];
    let expected = "src/room has a circle of one, two:\n    one -> two: room/one.rs names super::two::Two\n    \
                    two -> one: room/two.rs names super::one::self; room/two.rs names super::one::One";
    assert_eq!(found(&files), [expected]);
}

#[test]
fn a_circle_through_a_facade_is_found() {
    let through_exports = [
        ("room/mod.rs", "mod one; mod two; pub use one::One; pub use two::Two as Second;"),
        ("room/one.rs", "use super::Second; pub struct One;"),
        ("room/two.rs", "use crate::room::One; pub struct Two;"),
    ];
    let circle = &found(&through_exports)[..];
    assert!(matches!(circle, [one] if one.starts_with("src/room has a circle of one, two:")));
    let with_the_facade = [
        ("room/mod.rs", "mod one; use self::one::One; pub struct Shared(One);"),
        ("room/one.rs", "use super::Shared; pub struct One;"),
    ];
    let circle = &found(&with_the_facade)[..];
    assert!(matches!(circle, [one] if one.starts_with("src/room has a circle of mod, one:")));
    let through_a_glob = [
        ("room/mod.rs", "mod one; mod two; pub use one::*; pub use two::*;"),
        ("room/one.rs", "use super::Two; pub struct One;"),
        ("room/two.rs", "use super::One; pub enum Two {}"),
    ];
    assert_eq!(found(&through_a_glob).len(), 1);
    let through_its_name = [
        ("room/mod.rs", "mod one; mod two; pub use one::One; pub use two::Two;"),
        ("room/one.rs", "use crate::room; pub struct One(room::Two);"),
        ("room/two.rs", "use super::One; pub struct Two;"),
    ];
    let circle = &found(&through_its_name)[..];
    assert!(matches!(circle, [one] if one.starts_with("src/room has a circle of one, two:")));
}

#[test]
fn a_circle_through_paths_in_code_is_found() {
    let files = [
        ("room/one.rs", "pub fn f() { super::two::g(\"super::three\") }"),
        ("room/two.rs", "pub fn g() { let _: Vec<crate::room::three::Three>; }"),
        ("room/three.rs", "use super::one as first; pub struct Three; fn h() { first::f() }"),
        ("room/four.rs", "// super::one::f()\nuse other_crate::one;"),
    ];
    let circle = &found(&files)[..];
    assert!(
        matches!(circle, [one] if one.starts_with("src/room has a circle of one, three, two:"))
    );
    let from_the_facade = [
        ("room/mod.rs", "mod one; pub struct Shared; fn f() { one::f() }"),
        ("room/one.rs", "use super::Shared; pub fn f() {}"),
    ];
    assert_eq!(found(&from_the_facade).len(), 1);
}

#[test]
fn a_circle_of_subfolders_is_found_in_the_folder_that_has_them() {
    let files = [
        ("room/a/mod.rs", "mod high; mod low; pub use high::High; pub use low::Low;"),
        ("room/a/high.rs", "use crate::room::b::Other; pub struct High;"),
        ("room/a/low.rs", "pub struct Low;"),
        ("room/b/mod.rs", "mod other; pub use other::Other;"),
        ("room/b/other.rs", "use super::super::a::Low; pub struct Other;"),
    ];
    let circle = &found(&files)[..];
    assert!(matches!(circle, [one] if one.starts_with("src/room has a circle of a, b:")));
}

#[test]
fn a_facade_that_shows_a_neighbour_uses_it() {
    let files = [
        ("room/a/mod.rs", "mod low; pub use low::Low; pub use crate::room::b::Other;"),
        ("room/a/low.rs", "pub struct Low;"),
        ("room/b/mod.rs", "mod other; pub use other::Other;"),
        ("room/b/other.rs", "use crate::room::a::Low; pub struct Other;"),
    ];
    let circle = &found(&files)[..];
    assert!(matches!(circle, [one] if one.starts_with("src/room has a circle of a, b:")));
}

#[test]
fn re_exports_tests_and_visibilities_are_no_arrows() {
    let files = [
        (
            "room/mod.rs",
            "mod one; mod two;\n#[cfg(test)]\nmod tests;\npub use one::One;\npub(crate) use two::Two;",
        ),
        ("room/one.rs", "pub struct One; mod tests { use super::*; fn f(_: super::One) {} }"),
        ("room/two.rs", "use super::One; pub struct Two; pub(in crate::room) fn f(_: &One) {}"),
        ("room/tests.rs", "use super::*; use super::two::Two;"),
    ];
    assert_eq!(found(&files), [""; 0]);
}
