use std::{collections::BTreeMap, io::Write, path::Path, time::Duration};

use super::{show::values, *};

fn file(content: &str) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(content.as_bytes()).unwrap();
    file
}

fn sources(file: Option<&Path>) -> Sources {
    Sources::new().environment([("PATH", "/bin")]).file(file)
}

fn faults(sources: &Sources) -> Vec<String> {
    sources.load().unwrap_err().0.iter().map(|fault| fault.to_string()).collect()
}

#[test]
fn the_shipped_file_lists_every_key_once_with_its_default_and_nothing_else() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("config/tenure.toml");
    let loaded = sources(Some(&path)).load().unwrap();
    assert_eq!(loaded.settings, Settings::default());
    for (key, _) in values(&Settings::default()) {
        assert!(matches!(loaded.origin(&key), Origin::File { .. }), "{key} is not in the file");
    }
    let content = std::fs::read_to_string(&path).unwrap();
    let mut above = "";
    for line in content.lines() {
        let explained = above.starts_with('#') || line.starts_with("ttl_max");
        assert!(explained || !line.contains(" = ") || line.starts_with('#'), "unexplained: {line}");
        above = line;
    }
}

#[test]
fn a_stronger_layer_wins_and_says_so() {
    let file =
        file("[server]\nlisten = \"127.0.0.1:1\"\nworkers = 3\n\n[limits]\nttl_max = \"1h\"\n");
    let loaded = sources(Some(file.path()))
        .environment([
            ("TENURE__SERVER__LISTEN", "127.0.0.1:2"),
            ("TENURE__LIMITS__KEYS", "77"),
            ("TENURE_SERVER", "http://elsewhere"),
        ])
        .flag("--listen", "server.listen", Some("127.0.0.1:3"))
        .flag("--data-dir", "store.embedded.data_dir", None)
        .set("server.workers = 4")
        .load()
        .unwrap();
    let settings = &loaded.settings;
    assert_eq!(settings.server.listen.port(), 3);
    assert_eq!(settings.server.workers, Workers::Count(4));
    assert_eq!(settings.limits.ttl_max, Duration::from_secs(3600));
    assert_eq!(settings.limits.keys, 77);

    let shown = |key: &str| loaded.origin(key).to_string();
    assert_eq!(shown("server.listen"), "flag --listen 127.0.0.1:3");
    assert_eq!(shown("server.workers"), "flag --set server.workers = 4");
    assert_eq!(shown("limits.keys"), "environment TENURE__LIMITS__KEYS");
    assert_eq!(shown("limits.ttl_max"), format!("{}:6", file.path().display()));
    assert_eq!(shown("limits.ttl_min"), "default");
}

#[test]
fn every_fault_of_every_layer_is_named_with_its_place() {
    let file = file(concat!(
        "server = 1\n",                            // 1
        "[limits]\n",                              // 2
        "ttl_min = \"2h\"\n",                      // 3
        "ttl_max = \"1h\"\n",                      // 4
        "ttl_mni = \"1s\"\n",                      // 5
        "keys = 2.5\n",                            // 6
        "waiters_per_key = -1\n",                  // 7
        "inflight_per_key = true\n",               // 8
        "wait_max = 600\n",                        // 9
        "[store]\n",                               // 10
        "kind = \"nats\"\n",                       // 11
        "[store.embedded]\n",                      // 12
        "segment_size = \"8MB\"\n",                // 13
        "[evnts]\n",                               // 14
        "[telemetry]\n",                           // 15
        "log = [\"info\"]\n",                      // 16
        "[[plugin]]\nname = \"x\"\n",              // 17
        "[events]\nheartbeat_interval = \"6s\"\n", // 19
        "[\"node.name\"]\nx = 1\n",                // 21
    ));
    let found = faults(
        &sources(Some(file.path()))
            .environment([("TENURE__EVENTS__BUFFER", "many"), ("TENURE__NOPE", "1")])
            .flag("--listen", "server.listen", Some("localhost"))
            .set("actors.restart_window=fast")
            .set("oops"),
    );
    let at = |line: usize| format!("{}:{line}: ", file.path().display());
    let expected = [
        (at(1), "server: is a section"),
        (at(3), "limits.ttl_min: is 2h, more than limits.ttl_max, which is 1h"),
        (at(5), "limits.ttl_mni: no such key; [limits] has inflight_per_key, keys, subscribers"),
        (at(6), "limits.keys: invalid type: floating point `2.5`, expected a whole number"),
        (at(7), "limits.waiters_per_key: invalid value: integer `-1`, expected a whole number"),
        (at(8), "limits.inflight_per_key: invalid type: boolean `true`"),
        (at(9), "limits.wait_max: invalid value: integer `600`, expected a duration"),
        (at(11), "store.kind: the store \"nats\" is not available in this build"),
        (at(13), "store.embedded.segment_size: invalid value: string \"8MB\""),
        (at(14), "evnts: no such key; the sections are actors, events"),
        (at(16), "telemetry.log: invalid type: sequence, expected text"),
        (at(17), "plugin: no such key"),
        (at(20), "events.heartbeat_interval: is 6s; must be from 10ms to 5s"),
        (at(22), "\"node.name\".x: no such key"),
        ("environment TENURE__EVENTS__BUFFER: ".into(), "events.buffer: invalid value"),
        ("environment TENURE__NOPE: ".into(), "nope: no such key"),
        ("flag --listen localhost: ".into(), "server.listen: invalid value: string \"localhost\""),
        ("flag --set actors.restart_window=fast: ".into(), "actors.restart_window: invalid value"),
        ("flag --set oops: ".into(), "must be written section.key=value"),
    ];
    for (place, problem) in &expected {
        let wanted = format!("{place}{problem}");
        assert!(found.iter().any(|f| f.starts_with(&wanted)), "{wanted}\nin {found:#?}");
    }
    assert_eq!(found.len(), expected.len(), "{found:#?}");
}

#[test]
fn what_is_no_toml_or_no_file_is_a_fault_with_its_line() {
    let file = file("[server]\nlisten = \n[limits]\nkeys = 0\nkeys = 1\n");
    let found = faults(&sources(Some(file.path())));
    let at = |line: usize| format!("{}:{line}: ", file.path().display());
    assert!(found.iter().any(|f| f.starts_with(&at(2))), "{found:#?}");
    assert!(found.iter().any(|f| f.starts_with(&at(5)) && f.contains("duplicate")), "{found:#?}");

    let found = faults(&sources(Some(Path::new("/nowhere/tenure.toml"))));
    assert!(found[0].starts_with("/nowhere/tenure.toml: cannot be read: "), "{found:#?}");
}

#[test]
fn what_is_shown_reads_back_as_the_same_settings() {
    let loaded = sources(None)
        .set("node.name=a \"quoted\" \\ name = b")
        .set("limits.ttl_max=36h")
        .set("store.embedded.segment_size=65537")
        .load()
        .unwrap();
    for with_origin in [false, true] {
        let file = file(&loaded.to_toml(with_origin));
        assert_eq!(sources(Some(file.path())).load().unwrap().settings, loaded.settings);
    }
    assert!(loaded.to_toml(true).contains("ttl_max = \"36h\"  # flag --set limits.ttl_max=36h"));
    assert!(loaded.to_toml(true).contains("[store.embedded]\n"));
}

#[test]
fn no_key_has_a_default_that_only_one_layer_can_express() {
    // Each default, given as text by a flag, is accepted: the environment has nothing but text.
    let defaults: BTreeMap<_, _> = values(&Settings::default()).into_iter().collect();
    for (key, value) in defaults {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let loaded = sources(None).set(&format!("{key}={text}")).load();
        assert_eq!(loaded.unwrap().settings, Settings::default(), "{key}");
    }
}

#[test]
fn the_workers_leave_a_core_for_the_store() {
    assert_eq!([0, 1, 2, 8].map(|cores| Workers::Auto.resolve(cores)), [1, 1, 1, 7]);
    assert_eq!(Workers::Count(3).resolve(1), 3);
}
