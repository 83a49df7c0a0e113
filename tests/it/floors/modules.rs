//! The modules of a crate, and to which of them the paths in their sources lead.

use std::collections::{BTreeMap, BTreeSet};

use super::syntax::{self, Import, Syntax};

/// How many re-exports are followed.
const HOPS: usize = 8;

/// All modules that have a file, by their paths from the root of the crate.
pub struct Modules(BTreeMap<Vec<String>, Module>);

struct Module {
    file: String,
    syntax: Syntax,
    /// Whether it has modules in files below it. A `pub use` of one of these shows it to others, and is no use.
    is_facade: bool,
    /// What each imported name stands for.
    names: BTreeMap<String, Vec<String>>,
    /// The modules of which everything is imported.
    globs: Vec<Vec<String>>,
    links: Vec<Link>,
}

/// A path that leads out of a module.
struct Link {
    target: Vec<String>,
    written: String,
}

/// One module uses another.
pub struct Arrow<'a> {
    pub from: &'a [String],
    pub to: &'a [String],
    pub file: &'a str,
    /// The path as the file has it.
    pub written: &'a str,
}

impl Modules {
    /// The modules of these files: paths below `src`, and texts.
    pub fn of(files: &[(String, String)]) -> Self {
        let read = |(file, text): &(String, String)| (module_of(file), Module::new(file, text));
        let mut all: BTreeMap<_, _> = files.iter().map(read).collect();
        let known: BTreeSet<_> = all.keys().cloned().collect();
        for (own, module) in &mut all {
            module.link(own, &known);
        }
        Self(all)
    }

    /// All folders with modules.
    pub fn folders(&self) -> BTreeSet<&[String]> {
        self.0.keys().filter_map(|path| path.split_last()).map(|(_, folder)| folder).collect()
    }

    /// What uses what. Tests may use everything.
    pub fn arrows(&self) -> Vec<Arrow<'_>> {
        let sources = self.0.iter().filter(|(path, _)| !is_test(path));
        sources.flat_map(|(from, module)| self.arrows_of(from, module)).collect()
    }

    fn arrows_of<'a>(
        &'a self,
        from: &'a [String],
        module: &'a Module,
    ) -> impl Iterator<Item = Arrow<'a>> {
        module.links.iter().filter_map(move |link| {
            let to = self.resolve(&link.target, 0).filter(|to| to.as_slice() != from)?;
            Some(Arrow { from, to, file: &module.file, written: &link.written })
        })
    }

    /// The module that declares what a path leads to, through all re-exports.
    fn resolve(&self, path: &[String], hops: usize) -> Option<&Vec<String>> {
        if hops > HOPS {
            return None;
        }
        let is_module = |length: &usize| self.0.contains_key(&path[..*length]);
        let length = (0..=path.len()).rev().find(is_module)?;
        let (own, module) = self.0.get_key_value(&path[..length])?;
        let Some((name, rest)) = path[length..].split_first() else { return Some(own) };
        let named = module.names.get(name).map(|target| [target.as_slice(), rest].concat());
        named
            .and_then(|target| self.resolve(&target, hops + 1))
            .or_else(|| self.resolve_glob(module, name, hops))
            .or(Some(own))
    }

    fn resolve_glob(&self, module: &Module, name: &str, hops: usize) -> Option<&Vec<String>> {
        let mut candidates = module.globs.iter().filter_map(|glob| self.resolve(glob, hops + 1));
        candidates.find(|found| self.0[*found].syntax.declared.contains(name))
    }
}

impl Module {
    fn new(file: &str, text: &str) -> Self {
        Self {
            file: file.to_owned(),
            syntax: syntax::read(text),
            is_facade: false,
            names: BTreeMap::new(),
            globs: Vec::new(),
            links: Vec::new(),
        }
    }

    /// Finds out where the paths of the module lead, one by one: each may begin with a name that an earlier one brought.
    fn link(&mut self, own: &[String], known: &BTreeSet<Vec<String>>) {
        self.is_facade =
            known.iter().any(|other| other.len() > own.len() && other.starts_with(own));
        for import in &self.syntax.imports {
            let Some(target) = absolute(import, own, &self.names, known) else { continue };
            if import.path.last().is_some_and(|last| last == "*") {
                self.globs.push(target.clone());
            } else if let Some(name) = &import.name {
                self.names.entry(name.clone()).or_insert_with(|| target.clone());
            }
            let shows_its_own = import.public && self.is_facade && target.starts_with(own);
            if !shows_its_own {
                self.links.push(Link { target, written: import.path.join("::") });
            }
        }
    }
}

/// The path from the root of the crate. None for a path that leads to another crate.
fn absolute(
    import: &Import,
    own: &[String],
    names: &BTreeMap<String, Vec<String>>,
    known: &BTreeSet<Vec<String>>,
) -> Option<Vec<String>> {
    let path = match import.path.split_last()? {
        (last, before) if last == "self" || last == "*" => before,
        _ => import.path.as_slice(),
    };
    let (first, rest) = path.split_first()?;
    match first.as_str() {
        "crate" => Some(rest.to_vec()),
        "self" => (import.nesting == 0).then(|| [own, rest].concat()),
        "super" => {
            let steps = path.iter().take_while(|segment| *segment == "super").count();
            let base = own.len().checked_sub(steps.checked_sub(import.nesting)?)?;
            Some([&own[..base], &path[steps..]].concat())
        }
        _ => {
            let child = [own, path].concat();
            if known.contains(&child[..=own.len()]) {
                return Some(child);
            }
            // In a `use` and in code, an imported name leads where the `use` led that brought it.
            let target = names.get(first).filter(|_| !rest.is_empty())?;
            Some([target.as_slice(), rest].concat())
        }
    }
}

/// The module of a file below `src`.
fn module_of(file: &str) -> Vec<String> {
    let path = file.trim_end_matches(".rs").split('/').map(str::to_owned);
    let mut path: Vec<_> = path.collect();
    path.pop_if(|last| *last == "mod" || *last == "lib");
    path
}

/// Whether a module is a test's.
pub fn is_test(path: &[String]) -> bool {
    path.iter().any(|name| name.starts_with("tests") || name == "testing")
}
