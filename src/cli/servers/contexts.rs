//! The file with the contexts of a user: one cluster each, under a name.
//!
//! Guarantees: the file names files with secrets, and has no place for a secret. It is read only if nobody else can
//! change or replace it: whoever can would lead the user's calls, and his token, to a server of his own.

use std::{
    collections::BTreeMap,
    env, fs,
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use crate::cli::{exit::Failure, private_file};

/// The largest file, in bytes.
const MAX_BYTES: u64 = 1 << 20;

/// How the servers of one cluster are reached.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(in crate::cli) struct Entry {
    /// The servers, as `--server` takes them.
    pub(in crate::cli) server: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::cli) ca: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::cli) token_file: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::cli) tls_cert: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::cli) tls_key: Option<PathBuf>,
    /// Whether the token may be sent in plain text to other machines.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(in crate::cli) plaintext_token: bool,
}

impl Entry {
    /// With paths that do not depend on the directory that a command is run in.
    fn below(mut self, dir: &Path) -> Self {
        for path in [&mut self.ca, &mut self.token_file, &mut self.tls_cert, &mut self.tls_key] {
            *path = path.take().map(|path| dir.join(path));
        }
        self
    }
}

/// The directory with the file of contexts, and with the name of the current one.
#[derive(Clone, Debug)]
pub(in crate::cli) struct Contexts {
    dir: PathBuf,
}

impl Contexts {
    /// Those in this directory.
    #[cfg(test)]
    pub(in crate::cli) fn at(dir: &Path) -> Self {
        Self { dir: dir.to_owned() }
    }

    /// The user's own; `None` for a user without a home directory.
    pub(in crate::cli) fn of_user() -> Option<Self> {
        let absolute =
            |name: &str| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let config = absolute("XDG_CONFIG_HOME")
            .or_else(|| absolute("HOME").map(|home| home.join(".config")))?;
        Some(Self { dir: config.join("tenure") })
    }

    /// The file with all contexts.
    pub(in crate::cli) fn file(&self) -> PathBuf {
        self.dir.join("contexts.toml")
    }

    /// The file whose first line is the name of the current context.
    fn current_file(&self) -> PathBuf {
        self.dir.join("context")
    }

    /// All contexts by their names; none if there is no file.
    pub(in crate::cli) fn all(&self) -> Result<BTreeMap<String, Entry>, Failure> {
        let file = self.file();
        let text = match private_file::read_own(&file, MAX_BYTES) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
            Err(error) => return Err(Failure::Usage(format!("{}: {error}", file.display()))),
        };
        let all = parse(&text, &self.dir);
        all.map_err(|problem| Failure::Usage(format!("{}: {problem}", file.display())))
    }

    /// The context of this name.
    pub(in crate::cli) fn named(&self, name: &str) -> Result<Entry, Failure> {
        let mut all = self.all()?;
        all.remove(name).ok_or_else(|| {
            let known: Vec<&str> = all.keys().map(String::as_str).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            let file = self.file();
            Failure::Usage(format!("{} has no context {name:?}; it has {known}", file.display()))
        })
    }

    /// The name of the current context, if one was chosen.
    pub(in crate::cli) fn current(&self) -> Result<Option<String>, Failure> {
        let file = self.current_file();
        match private_file::read_own(&file, MAX_BYTES) {
            Ok(text) => Ok(text
                .lines()
                .next()
                .map(str::trim)
                .filter(|name| !name.is_empty())
                .map(str::to_owned)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Failure::Usage(format!("{}: {error}", file.display()))),
        }
    }

    /// Makes a context the current one; `None` leaves none current.
    pub(in crate::cli) fn choose(&self, name: Option<&str>) -> Result<(), Failure> {
        let file = self.current_file();
        let Some(name) = name else {
            return match fs::remove_file(&file) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    Err(unwritten(&file, &error))
                }
                _ => Ok(()),
            };
        };
        self.named(name)?;
        self.make_dir()?;
        // A reader finds the old name or the new one.
        let part = self.dir.join(format!(".context-{}", std::process::id()));
        let written = own_file().create(true).truncate(true).open(&part);
        let written = written.and_then(|mut file| writeln!(file, "{name}"));
        written.and_then(|()| fs::rename(&part, &file)).map_err(|error| unwritten(&file, &error))
    }

    /// Adds a context at the end of the file, which is left as it is otherwise.
    pub(in crate::cli) fn add(&self, name: &str, entry: &Entry) -> Result<(), Failure> {
        if self.all()?.contains_key(name) {
            let file = self.file();
            let why =
                format!("{} has the context {name:?} already: change it there", file.display());
            return Err(Failure::Usage(why));
        }
        let text = section(name, entry).map_err(Failure::Usage)?;
        self.make_dir()?;
        let file = self.file();
        let opened = own_file().create(true).append(true).open(&file);
        let written = opened.and_then(|mut opened| opened.write_all(text.as_bytes()));
        written.map_err(|error| unwritten(&file, &error))
    }

    fn make_dir(&self) -> Result<(), Failure> {
        let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.dir);
        made.map_err(|error| unwritten(&self.dir, &error))
    }
}

fn own_file() -> fs::OpenOptions {
    let mut options = fs::OpenOptions::new();
    options.write(true).mode(0o600);
    options
}

fn unwritten(path: &Path, error: &io::Error) -> Failure {
    Failure::Usage(format!("cannot write {}: {error}", path.display()))
}

/// Reads the contexts of a file in this directory.
fn parse(text: &str, dir: &Path) -> Result<BTreeMap<String, Entry>, String> {
    let all: BTreeMap<String, Entry> = toml::from_str(text).map_err(|error| {
        // The line itself may have a secret that does not belong there.
        let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
        format!("line {}: {}", before.matches('\n').count() + 1, error.message())
    })?;
    Ok(all.into_iter().map(|(name, entry)| (name, entry.below(dir))).collect())
}

/// A context as a part of the file.
fn section(name: &str, entry: &Entry) -> Result<String, String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    if name.is_empty() || !name.chars().all(is_plain) {
        return Err(format!("{name:?} is no name: it has letters, digits, - and _"));
    }
    let mut text = format!("\n[{name}]\nserver = {}\n", quoted(&entry.server)?);
    let paths = [
        ("ca", &entry.ca),
        ("token_file", &entry.token_file),
        ("tls_cert", &entry.tls_cert),
        ("tls_key", &entry.tls_key),
    ];
    for (field, path) in paths {
        if let Some(path) = path {
            let path = std::path::absolute(path).unwrap_or_else(|_| path.clone());
            let path = path.to_str().ok_or_else(|| format!("{} is not UTF-8", path.display()))?;
            text.push_str(&format!("{field} = {}\n", quoted(path)?));
        }
    }
    if entry.plaintext_token {
        text.push_str("plaintext_token = true\n");
    }
    Ok(text)
}

/// A text as a string of TOML. A string of JSON without control characters is one.
fn quoted(text: &str) -> Result<String, String> {
    if text.chars().any(char::is_control) {
        return Err(format!("{text:?} has control characters"));
    }
    serde_json::to_string(text).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn entry() -> Entry {
        Entry {
            server: "https://a:7373,https://\"b\"".into(),
            ca: Some("/etc/ca.pem".into()),
            token_file: Some("/home/w/token".into()),
            plaintext_token: true,
            ..Entry::default()
        }
    }

    #[test]
    fn what_is_added_is_found_and_what_a_person_wrote_stays() {
        let dir = tempfile::tempdir().unwrap();
        let contexts = Contexts { dir: dir.path().join("tenure") };
        assert_eq!((contexts.all().unwrap().len(), contexts.current().unwrap()), (0, None));
        contexts.add("prod", &entry()).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&contexts.dir), mode(&contexts.file())), (0o700, 0o600));
        let mut text = fs::read_to_string(contexts.file()).unwrap();
        text.push_str("# mine\n");
        fs::write(contexts.file(), &text).unwrap();
        contexts.add("test", &Entry { server: "a:1".into(), ..Entry::default() }).unwrap();
        assert!(fs::read_to_string(contexts.file()).unwrap().contains("# mine\n"));
        assert_eq!(contexts.named("prod").unwrap(), entry());
        assert_eq!(contexts.named("test").unwrap().server, "a:1");
        let twice = contexts.add("test", &entry()).unwrap_err().to_string();
        assert!(twice.contains("already"), "{twice}");
        let unknown = contexts.named("x").unwrap_err().to_string();
        assert!(unknown.contains("it has prod, test"), "{unknown}");
    }

    #[test]
    fn one_of_them_is_current() {
        let dir = tempfile::tempdir().unwrap();
        let contexts = Contexts { dir: dir.path().to_owned() };
        contexts.add("prod", &entry()).unwrap();
        assert!(contexts.choose(Some("x")).is_err());
        contexts.choose(Some("prod")).unwrap();
        assert_eq!(contexts.current().unwrap().as_deref(), Some("prod"));
        contexts.choose(None).unwrap();
        contexts.choose(None).unwrap();
        assert_eq!(contexts.current().unwrap(), None);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "a part is left");
    }

    #[test]
    fn a_file_that_others_could_change_is_not_read() {
        let dir = tempfile::tempdir().unwrap();
        let contexts = Contexts { dir: dir.path().to_owned() };
        contexts.add("prod", &entry()).unwrap();
        fs::set_permissions(contexts.file(), fs::Permissions::from_mode(0o620)).unwrap();
        let refused = contexts.all().unwrap_err().to_string();
        assert!(refused.contains("chmod") && refused.contains("contexts.toml"), "{refused}");
    }

    #[test]
    fn paths_are_below_the_file_and_secrets_have_no_place() {
        let all = parse("[a]\nserver = \"h:1\"\ntoken_file = \"t\"\n", Path::new("/c")).unwrap();
        assert_eq!(all["a"].token_file.as_deref(), Some(Path::new("/c/t")));
        for text in ["[a]\nserver = \"h:1\"\ntoken = \"tnr_x\"\n", "[a]\nca = \"x\"\n", "a = 1\n"] {
            let problem = parse(text, Path::new("/c")).unwrap_err();
            assert!(problem.starts_with("line ") && !problem.contains("tnr_x"), "{problem}");
        }
        for name in ["", "a.b", "a b", "ü", "]"] {
            assert!(section(name, &entry()).is_err(), "{name}");
        }
        assert!(quoted("a\nb").is_err() && quoted("a\u{7f}").is_err());
    }
}
