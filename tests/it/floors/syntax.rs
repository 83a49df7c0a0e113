//! Reads which paths a source names and what it declares. It knows as much of Rust's grammar as that needs.

use std::collections::BTreeSet;

/// What a declaration begins with.
const DECLARATIONS: [&str; 8] = ["const", "enum", "fn", "mod", "static", "struct", "trait", "type"];

/// What one source names and declares.
pub struct Syntax {
    pub imports: Vec<Import>,
    pub declared: BTreeSet<String>,
}

/// A path that a source names, in a `use` or in its code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Import {
    /// The segments as they are written. The last one of a `use` may be `self` or `*`.
    pub path: Vec<String>,
    /// The name that a `use` gives to what the path leads to.
    pub name: Option<String>,
    /// Whether it is a `pub use`, for whomever.
    pub public: bool,
    /// The number of inline modules around it.
    pub nesting: usize,
}

/// Reads a source.
pub fn read(text: &str) -> Syntax {
    let tokens = tokens(text);
    Syntax { imports: imports(&tokens), declared: declared(&tokens) }
}

/// The words and signs of a source, without comments and literals.
fn tokens(text: &str) -> Vec<&str> {
    let (mut rest, mut found) = (text, Vec::new());
    while !rest.is_empty() {
        let (length, matters) = lexeme(rest);
        let (token, after) = rest.split_at(length);
        if matters {
            found.push(token);
        }
        rest = after;
    }
    found
}

/// The length of the first lexeme of a text, and whether it is a word or a sign.
fn lexeme(text: &str) -> (usize, bool) {
    let word = |text: &str| text.find(|c: char| !is_letter(c)).unwrap_or(text.len());
    let first = text.chars().next().unwrap_or(' ');
    if text.starts_with("//") {
        (text.find('\n').unwrap_or(text.len()), false)
    } else if text.starts_with("/*") {
        (text.find("*/").map_or(text.len(), |at| at + 2), false)
    } else if let Some(length) = string(text).or_else(|| character(text)) {
        (length, false)
    } else if first == '\'' {
        (1 + word(&text[1..]), false)
    } else if is_letter(first) {
        (word(text), true)
    } else if text.starts_with("::") {
        (2, true)
    } else {
        (first.len_utf8(), !first.is_whitespace())
    }
}

fn is_letter(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The length of the string literal at the beginning of a text.
fn string(text: &str) -> Option<usize> {
    let start = text.find(|c: char| !matches!(c, 'b' | 'c' | 'r'))?;
    let (prefix, rest) = text.split_at(start);
    let raw = prefix.ends_with('r');
    let hashes = if raw { rest.bytes().take_while(|byte| *byte == b'#').count() } else { 0 };
    let body = rest[hashes..].strip_prefix('"')?;
    let end = format!("\"{}", "#".repeat(hashes));
    let length = if raw { body.find(&end)? + end.len() } else { unescaped(body, '"')? };
    Some(start + hashes + 1 + length)
}

/// The length of the character literal at the beginning of a text. A lifetime is none.
fn character(text: &str) -> Option<usize> {
    let start = usize::from(text.starts_with('b'));
    let body = text[start..].strip_prefix('\'')?;
    let first = body.chars().next()?;
    let closes = first == '\\' || body[first.len_utf8()..].starts_with('\'');
    closes.then(|| unescaped(body, '\'')).flatten().map(|length| start + 1 + length)
}

/// How much of a text there is up to and with a sign that no backslash stands before.
fn unescaped(text: &str, sign: char) -> Option<usize> {
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        if c == sign && !escaped {
            return Some(at + c.len_utf8());
        }
        escaped = c == '\\' && !escaped;
    }
    None
}

/// All paths that lead out of a source, as far as that can be told without the compiler.
fn imports(tokens: &[&str]) -> Vec<Import> {
    let (mut found, mut inline, mut depth, mut at) = (Vec::new(), Vec::new(), 0_usize, 0);
    while let Some(token) = tokens.get(at) {
        let nesting = inline.len();
        let mut end = at + 1;
        match *token {
            "mod" if tokens.get(at + 2) == Some(&"{") => inline.push(depth),
            "{" => depth += 1,
            "}" => {
                depth = depth.saturating_sub(1);
                inline.pop_if(|opened| *opened == depth);
            }
            "pub" => {
                end = after_visibility(tokens, at);
                if tokens.get(end) == Some(&"use") {
                    end = read_use(tokens, end + 1, true, nesting, &mut found);
                }
            }
            // `use<>` in a type is something else.
            "use" if tokens.get(end) != Some(&"<") => {
                end = read_use(tokens, end, false, nesting, &mut found);
            }
            _ => {
                end = end_of_path(tokens, at);
                if end > at + 1 {
                    let path = tokens[at..end].iter().step_by(2).map(|name| (*name).to_owned());
                    let path = path.collect();
                    found.push(Import { path, name: None, public: false, nesting });
                }
            }
        }
        at = end;
    }
    found
}

/// Where what follows `pub` or `pub(…)` begins.
fn after_visibility(tokens: &[&str], at: usize) -> usize {
    if tokens.get(at + 1) != Some(&"(") {
        return at + 1;
    }
    let closing = tokens[at..].iter().position(|token| *token == ")");
    closing.map_or(tokens.len(), |length| at + length + 1)
}

/// Where a path in code ends that begins with a word. What follows a generic argument or a macro's `$` is none.
fn end_of_path(tokens: &[&str], at: usize) -> usize {
    let is_word = |at: usize| tokens.get(at).is_some_and(|token| token.starts_with(is_letter));
    let goes_on = at > 0 && matches!(tokens[at - 1], "::" | "$");
    let mut end = at + 1;
    while is_word(at) && !goes_on && tokens.get(end) == Some(&"::") && is_word(end + 1) {
        end += 2;
    }
    end
}

/// Reads the tree of a `use`, and returns where it ends.
fn read_use(
    tokens: &[&str],
    at: usize,
    public: bool,
    nesting: usize,
    found: &mut Vec<Import>,
) -> usize {
    let mut leaves = Vec::new();
    let end = read_tree(tokens, at, &[], &mut leaves);
    let import = |(path, name)| Import { path, name, public, nesting };
    found.extend(leaves.into_iter().map(import));
    end
}

/// Reads one tree: a path, or a path with a group of trees. Returns where it ends.
fn read_tree(
    tokens: &[&str],
    mut at: usize,
    prefix: &[String],
    leaves: &mut Vec<(Vec<String>, Option<String>)>,
) -> usize {
    let (mut path, mut alias) = (prefix.to_vec(), None);
    while let Some(token) = tokens.get(at) {
        match *token {
            "," | "}" | ";" => break,
            "{" => return read_group(tokens, at + 1, &path, leaves),
            "as" => {
                at += 1;
                alias = tokens.get(at).map(|name| (*name).to_owned());
            }
            "::" => {}
            segment => path.push(segment.to_owned()),
        }
        at += 1;
    }
    let own = path.iter().rev().find(|segment| *segment != "self");
    let name = alias.or_else(|| own.filter(|name| *name != "*").cloned());
    leaves.push((path, name));
    at
}

/// Reads the trees of a group behind its opening brace. Returns what follows its closing brace.
fn read_group(
    tokens: &[&str],
    mut at: usize,
    prefix: &[String],
    leaves: &mut Vec<(Vec<String>, Option<String>)>,
) -> usize {
    while let Some(token) = tokens.get(at) {
        match *token {
            "}" => return at + 1,
            ";" => return at,
            "," => at += 1,
            _ => at = read_tree(tokens, at, prefix, leaves),
        }
    }
    at
}

/// The names that a source declares.
fn declared(tokens: &[&str]) -> BTreeSet<String> {
    let items = tokens.windows(2).filter(|pair| DECLARATIONS.contains(&pair[0]));
    let macros = tokens.windows(3).filter(|three| three[..2] == ["macro_rules", "!"]);
    items.map(|pair| pair[1].to_owned()).chain(macros.map(|three| three[2].to_owned())).collect()
}

#[test]
fn uses_and_paths_are_read_and_literals_and_comments_are_not() {
    let text = r##"
        //! [`x`](super::x)
        pub(crate) use self::{a::{self, B as C}, d::*};
        use super::e; /* use super::no; */
        fn f<'a>(_: &'a str) -> impl Iterator<Item = char> + use<'a> {
            let _ = ["super::no", r#"super::"no"#, "\"super::no"];
            let _ = ['"', '\'', b'{'];
            crate::g::h::<u8>(self.i) + i::j() + Vec::<u8>::k()
        }
        mod tests {
            use super::*;
            pub(in crate::no) fn k() { $crate::no() }
        }
        use last::One;
    "##;
    let found = read(text);
    let shown: Vec<_> = found
        .imports
        .iter()
        .map(|import| {
            let name = import.name.as_deref().unwrap_or("-");
            format!("{} {name} {} {}", import.path.join("::"), import.public, import.nesting)
        })
        .collect();
    let expected = [
        "self::a::self a true 0",
        "self::a::B C true 0",
        "self::d::* - true 0",
        "super::e e false 0",
        "crate::g::h - false 0",
        "i::j - false 0",
        "super::* - false 1",
        "last::One One false 0",
    ];
    assert_eq!(shown, expected);
    assert!(["f", "k", "tests"].iter().all(|name| found.declared.contains(*name)));
}
