//! The house stands: arrows between floors point down, no circle joins the children of a folder, files stay small, time
//! and chance come from one place, and names are words of the field. `ARCHITECTURE.md` draws what these tests enforce.

mod circles;
mod modules;
mod rules;
mod syntax;
mod words;

use std::{
    fs,
    path::{Path, PathBuf},
};

/// The repository.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The files below a folder with one of these extensions.
fn files(dir: &Path, kinds: &[&str], found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            files(&path, kinds, found);
        } else if path.extension().is_some_and(|own| kinds.iter().any(|kind| own == *kind)) {
            found.push(path);
        }
    }
}

/// The sources: for each its path below `src`, and its text.
fn sources() -> Vec<(String, String)> {
    let root = root().join("src");
    let mut found = Vec::new();
    files(&root, &["rs"], &mut found);
    let source = |path: &PathBuf| {
        let file = path.strip_prefix(&root).expect("below src").to_str().expect("UTF-8");
        (file.to_owned(), fs::read_to_string(path).expect("readable"))
    };
    found.iter().map(source).collect()
}
