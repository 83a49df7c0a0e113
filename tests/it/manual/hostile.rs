//! The scripts of the manual and of the examples that read names of clients are run with hostile names.

use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use tempfile::TempDir;

use super::{read, root};

/// What a name must not do: be a command, a part of a configuration, an option, a pattern, or lead elsewhere.
const HOSTILE: [&str; 20] = [
    "web/1; server evil.example:80; #",
    "web\nserver evil.example:80;",
    "web; server evil.example:80;",
    "$(touch pwned)",
    "`touch pwned`",
    "a[$(touch pwned)]",
    "'; touch pwned; '",
    "\"; touch pwned; \"",
    "../../pwned",
    "/etc/pwned",
    "..",
    ".",
    "-rf",
    "--help",
    "*",
    "a b",
    "wéb",
    "web\u{202e}",
    "web\\n",
    "",
];

/// A directory in which a script runs, with programs that do nothing before all others.
struct Place(TempDir);

impl Place {
    fn new(programs: &[&str]) -> Self {
        let place = Self(tempfile::tempdir().expect("a directory"));
        for dir in ["bin", "out", "work"] {
            fs::create_dir(place.path(dir)).expect("a directory");
        }
        for program in programs {
            let path = place.path("bin").join(program);
            fs::write(&path, "#!/bin/sh\nexit 0\n").expect("a program");
            fs::set_permissions(&path, Permissions::from_mode(0o755)).expect("a mode");
        }
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn run(&self, command: &mut Command, variables: &[(&str, &str)]) -> Output {
        let path =
            format!("{}:{}", self.path("bin").display(), std::env::var("PATH").expect("PATH"));
        command.env_clear().env("PATH", path).envs(variables.iter().copied());
        command.current_dir(self.path("work")).output().expect("it runs")
    }

    /// The files of a directory, with their content.
    fn files(&self, dir: &str) -> Vec<(String, String)> {
        let entries = fs::read_dir(self.path(dir)).expect("a directory");
        let read = |path: &Path| fs::read_to_string(path).expect("a text");
        let mut files: Vec<_> = entries
            .map(|entry| entry.expect("an entry"))
            .map(|entry| (entry.file_name().into_string().expect("a name"), read(&entry.path())))
            .collect();
        files.sort();
        files
    }

    /// Nothing was written but what was expected, and no name ran a command.
    fn assert_untouched(&self, name: &str) {
        assert_eq!(self.files("work"), [], "{name:?} wrote a file");
        let mut entries: Vec<_> = fs::read_dir(self.0.path())
            .expect("a directory")
            .map(|entry| entry.expect("an entry").file_name())
            .collect();
        entries.sort();
        assert_eq!(entries, ["bin", "out", "work"], "{name:?} led elsewhere");
    }
}

/// The script of docs/notifications.md, for this directory.
fn route(place: &Place) -> String {
    let page = read("docs/notifications.md");
    let (_, rest) = page.split_once("```sh\n#!/bin/sh\n").expect("a script");
    let (script, _) = rest.split_once("```").expect("its end");
    let out = place.path("out");
    let script = script.replace("/etc/nginx/shards", out.to_str().expect("UTF-8"));
    assert!(script.contains("$TENURE_OWNER") && script.contains("$TENURE_KEY"));
    script
}

fn routed(place: &Place, event: &str, key: &str, owner: &str) -> Output {
    let variables = [("TENURE_EVENT", event), ("TENURE_KEY", key), ("TENURE_OWNER", owner)];
    place.run(Command::new("sh").args(["-c", &route(place)]), &variables)
}

#[test]
fn no_owner_gets_into_the_configuration_of_nginx_but_as_one_host() {
    let place = Place::new(&["nginx", "logger"]);
    for hostile in HOSTILE {
        assert!(routed(&place, "granted", "shards/7", "web-1").status.success());
        let served = ("7".to_owned(), "server web-1.internal:8080;\n".to_owned());
        assert_eq!(place.files("out"), [served], "before {hostile:?}");
        let refused = routed(&place, "granted", "shards/7", hostile);
        assert!(refused.status.success(), "{hostile:?} would delay everything after it");
        assert!(!refused.stderr.is_empty(), "{hostile:?} is refused with a message");
        assert_eq!(place.files("out"), [], "the owner before {hostile:?} has no traffic either");
        place.assert_untouched(hostile);
    }
}

#[test]
fn no_key_leads_out_of_the_directory_of_routes_and_no_two_keys_are_one_file() {
    let place = Place::new(&["nginx", "logger"]);
    for hostile in HOSTILE {
        for key in [hostile.to_owned(), format!("shards/{hostile}")] {
            for event in ["granted", "released"] {
                let refused = routed(&place, event, &key, "web-1");
                assert!(refused.status.success() && !refused.stderr.is_empty(), "{key:?}");
                assert_eq!(place.files("out"), [], "{key:?}");
                place.assert_untouched(&key);
            }
        }
    }
    let keys = [
        "shards/1",
        "shards/_1",
        "shards-1",
        "shards_1",
        "shards/shards-1",
        "shards/1/",
        "shards//1",
    ];
    for key in keys {
        routed(&place, "granted", key, &format!("web-{}", key.len()));
    }
    let names: Vec<String> = place.files("out").into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["1", "shards-1"]);
}

#[test]
fn the_example_of_shard_workers_takes_no_hostile_key_and_no_hostile_checkpoint() {
    let place = Place::new(&[]);
    let script = root().join("examples/shard_workers/shard-worker.sh");
    let (out, file) = (place.path("out"), place.path("out/value"));
    let file = file.to_str().expect("UTF-8");
    let run = |shell: &str, key: &str, value: &str| {
        // Without a lease file the worker ends before its first step.
        let variables = [
            ("TENURE_KEY", key),
            ("TENURE_VALUE", value),
            ("TENURE_TOKEN", "1"),
            ("TENURE_LEASE_FILE", "/nonexistent"),
            ("TENURE_VALUE_FILE", file),
        ];
        place.run(Command::new(shell).arg(&script).arg(&out), &variables)
    };
    for shell in ["sh", "bash"] {
        for hostile in HOSTILE.into_iter().filter(|name| !name.starts_with('/')) {
            let ended = run(shell, hostile, "1");
            let is_path = hostile == "../../pwned";
            assert!(is_path || !ended.stderr.is_empty(), "{hostile:?} as a key");
            assert_eq!(place.files("out"), [], "{hostile:?} as a key");
            place.assert_untouched(hostile);
            if !hostile.is_empty() {
                let ended = run(shell, "s/1", hostile);
                assert!(!ended.stderr.is_empty(), "{hostile:?} as a checkpoint");
                place.assert_untouched(hostile);
            }
        }
        assert!(run(shell, "s/1", "17").stderr.is_empty());
    }
}

#[test]
fn the_example_of_a_singleton_takes_no_owner_that_leads_elsewhere() {
    let place = Place::new(&[]);
    let out = place.path("out");
    for hostile in HOSTILE.into_iter().filter(|name| ![".", ".."].contains(name)) {
        for (script, argument) in [("activate", ""), ("deactivate", ""), ("healthcheck", "active")]
        {
            let script = root().join(format!("examples/singleton/{script}.sh"));
            let variables = [
                ("TENURE_OWNER", hostile),
                ("TENURE_TOKEN", "1"),
                ("SINGLETON_DIR", out.to_str().expect("UTF-8")),
            ];
            let refused = place.run(Command::new("sh").arg(&script).arg(argument), &variables);
            assert!(!refused.status.success() && !refused.stderr.is_empty(), "{hostile:?}");
            assert_eq!(place.files("out"), [], "{hostile:?}");
            place.assert_untouched(hostile);
        }
    }
}

/// The texts of clients that programs get.
const TEXTS: [&str; 6] = [
    "TENURE_OWNER",
    "TENURE_PREVIOUS_OWNER",
    "TENURE_KEY",
    "TENURE_VALUE",
    "TENURE_REASON",
    "TENURE_LAST_RUN",
];

fn files_under(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            files_under(&path, found);
        } else {
            found.push(path);
        }
    }
}

/// `echo` takes some texts for options, and in some shells changes backslashes.
#[test]
fn no_page_and_no_script_echoes_a_text_of_a_client_or_leaves_it_unquoted() {
    let mut files = Vec::new();
    for dir in ["docs", "examples", "deploy", "packaging"] {
        files_under(&root().join(dir), &mut files);
    }
    let mut looked_at = 0;
    for path in files {
        let Ok(text) = fs::read_to_string(&path) else { continue };
        let text = text.replace("TENURE_VALUE_FILE", "OWN_FILE");
        for line in text.lines() {
            for name in TEXTS {
                let uses = [format!("${name}"), format!("${{{name}")];
                let Some(at) = uses.iter().find_map(|used| line.find(used.as_str())) else {
                    continue;
                };
                looked_at += 1;
                let (before, place) = (&line[..at], path.display());
                assert!(!before.contains("echo "), "{place}: echo prints it: {line}");
                // A command within quotes has quotes of its own.
                let inner = before.rsplit("$(").next().unwrap_or(before);
                let is_quoted = inner.matches('"').count() % 2 == 1;
                let is_word = before.ends_with("case ") || before.ends_with('=');
                assert!(is_quoted || is_word, "{place}: it is not in quotes: {line}");
            }
        }
    }
    assert!(looked_at > 10, "{looked_at}");
}
