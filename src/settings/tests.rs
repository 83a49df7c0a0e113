use std::{io::Write, path::Path, time::Duration};

use super::{tree::TABLE, *};

pub(super) fn file(content: &str) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(content.as_bytes()).unwrap();
    file
}

pub(super) fn sources(file: Option<&Path>) -> Sources {
    Sources::new().environment([("PATH", "/bin")]).file(file)
}

pub(super) fn faults(sources: &Sources) -> Vec<String> {
    sources.load().unwrap_err().0.iter().map(|fault| fault.to_string()).collect()
}

#[test]
fn the_shipped_file_lists_every_key_once_with_its_default_and_nothing_else() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("config/tenure.toml");
    let loaded = sources(Some(&path)).load().unwrap();
    assert_eq!(loaded.settings, Settings::default());
    the_commented_policy_has_the_defaults(&path);
    for key in TABLE.iter().map(|setting| &setting.path) {
        assert!(matches!(loaded.origin(key), Origin::File { .. }), "{key} is not in the file");
    }
    let content = std::fs::read_to_string(&path).unwrap();
    let mut above = "";
    for line in content.lines() {
        let explained = above.starts_with('#');
        assert!(explained || !line.contains(" = ") || line.starts_with('#'), "unexplained: {line}");
        above = line;
    }
}

/// Checks that the commented-out `[[policy]]` has every key, each with its default.
fn the_commented_policy_has_the_defaults(path: &Path) {
    let content = std::fs::read_to_string(path).unwrap();
    let (_, example) = content.split_once("# [[policy]]\n").unwrap();
    let lines = example.lines().map_while(|line| line.strip_prefix("# "));
    let keys: Vec<_> = lines.filter(|line| line.contains(" = ")).collect();
    let example = file(&format!("[[policy]]\n{}\n", keys.join("\n")));
    let loaded = sources(Some(example.path())).load().unwrap();
    let Policy { ttl_min, ttl_max, keys: most, .. } = loaded.settings.policies[0].clone();
    let limits = Limits::default();
    assert_eq!((ttl_min, ttl_max), (Some(limits.ttl_min), Some(limits.ttl_max)));
    assert_eq!(most, Some(limits.keys));
    let expected = Policy { ttl_min, ttl_max, keys: most, ..Policy::default() };
    assert_eq!(loaded.settings.policies, [expected]);
    assert_eq!(keys.len(), 25);
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
        "kind = \"etcd\"\n",                       // 11
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
        (
            at(5),
            "limits.ttl_mni: no such key; [limits] has body_bytes, connections_per_address, exec_checks, inflight_per_key, keys",
        ),
        (at(6), "limits.keys: invalid type: floating point `2.5`, expected a whole number"),
        (at(7), "limits.waiters_per_key: invalid value: integer `-1`, expected a whole number"),
        (at(8), "limits.inflight_per_key: invalid type: boolean `true`"),
        (at(9), "limits.wait_max: invalid value: integer `600`, expected a duration"),
        (at(11), "store.kind: invalid value: string \"etcd\", expected \"embedded\", \"nats\" or"),
        (at(13), "store.embedded.segment_size: invalid value: string \"8MB\""),
        (at(14), "evnts: no such key; the sections are actors, audit, auth, checks, events"),
        (at(16), "telemetry.log: invalid type: sequence, expected text"),
        (at(17), "plugin.kind: is missing"),
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
fn every_rule_about_nodes_and_shared_stores_is_told_with_its_line() {
    let file = file(concat!(
        "[node]\n",                                     // 1
        "ttl = \"499ms\"\n",                            // 2
        "[store.nats]\n",                               // 3
        "url = \"nats://a:4222, nats://u:p@b:4222\"\n", // 4
        "bucket = \"a.b\"\n",                           // 5
        "replicas = 6\n",                               // 6
        "history = 65\n",                               // 7
        "accept_data_loss = \"yes\"\n",                 // 8
        "user = \"u\"\n",                               // 9
        "token = \"t\"\n",                              // 10
        "token_file = \"f\"\n",                         // 11
        "credentials = \"c\"\n",                        // 12
        "tls_cert = \"x.pem\"\n",                       // 13
        "request_timeout = \"99ms\"\n",                 // 14
        "[store.dynamodb]\n",                           // 15
        "table = \"ab\"\n",                             // 16
        "endpoint = \"localhost:8000\"\n",              // 17
        "create_table = 1\n",                           // 18
        "request_timeout = \"31s\"\n",                  // 19
        "poll_interval = \"9ms\"\n",                    // 20
        "flush_interval = \"1001ms\"\n",                // 21
        "history = \"59s\"\n",                          // 22
        "colour = \"red\"\n",                           // 23
    ));
    let found = faults(&sources(Some(file.path())));
    let expected = [
        (2, "node.ttl: is 499ms; must be from 500ms to 1m"),
        (4, "store.nats.url: must not name a user"),
        (5, "store.nats.bucket: must be letters"),
        (6, "store.nats.replicas: is 6; must be from 1 to 5"),
        (7, "store.nats.history: is 65; must be from 1 to 64"),
        (8, "store.nats.accept_data_loss: invalid value: string \"yes\", expected true or false"),
        (9, "store.nats.user: and store.nats.password (or password_file) go together"),
        (11, "store.nats.token_file: is given, and store.nats.token too"),
        (12, "store.nats.credentials: at most one of"),
        (13, "store.nats.tls_cert: and store.nats.tls_key go together"),
        (14, "store.nats.request_timeout: is 99ms; must be from 100ms to 30s"),
        (16, "store.dynamodb.table: must be 3 to 255"),
        (17, "store.dynamodb.endpoint: must be empty or a URL"),
        (18, "store.dynamodb.create_table: invalid type: integer `1`, expected true or false"),
        (19, "store.dynamodb.request_timeout: is 31s"),
        (20, "store.dynamodb.poll_interval: is 9ms"),
        (21, "store.dynamodb.flush_interval: is 1001ms"),
        (22, "store.dynamodb.history: is 59s"),
        (23, "store.dynamodb.colour: no such key; [store.dynamodb] has create_table, endpoint"),
    ];
    for (line, problem) in &expected {
        let wanted = format!("{}:{line}: {problem}", file.path().display());
        assert!(found.iter().any(|f| f.starts_with(&wanted)), "{wanted}\nin {found:#?}");
    }
    assert_eq!(found.len(), expected.len(), "{found:#?}");
    let set = |key| sources(None).set("server.listen=0.0.0.0:7373").set(key);
    let told = faults(&set("store.kind=embedded"));
    assert!(told.len() == 1 && told[0].contains("owns every lease"), "{told:?}");
    let anywhere = || set("server.accept_no_auth=true").set("store.kind=nats");
    assert!(faults(&anywhere())[0].contains("node.advertise_url: must be set"));
    anywhere().set("node.advertise_url=http://10.0.0.7:7373").load().unwrap();
    let urls = ["", "127.0.0.1:4222", "http://a", "nats://a,", "nats://"];
    for url in urls {
        let found = faults(&sources(None).set(&format!("store.nats.url={url}")));
        assert!(found[0].contains("must be URLs such as nats://"), "{url}: {found:?}");
    }
}

#[test]
fn no_secret_is_shown_wherever_it_was_set() {
    let secret = "hunter2";
    let file = file(&format!("[store.nats]\nuser = \"u\"\npassword = \"{secret}\"\n"));
    let set = [
        sources(Some(file.path())),
        sources(None).environment([("TENURE__STORE__NATS__TOKEN", secret)]),
        sources(None)
            .set("store.nats.user=u")
            .environment([("TENURE__STORE__NATS__PASSWORD", secret)]),
    ];
    for sources in set {
        let loaded = sources.load().unwrap();
        let nats = &loaded.settings.store.nats;
        assert!(nats.password.reveal() == secret || nats.token.reveal() == secret);
        let shown = loaded.to_toml(true);
        assert!(shown.contains(" is set, and not shown"), "{shown}");
        assert!(!format!("{shown}{loaded:?}").contains(secret), "{shown}");
    }
    let wrong = sources(None).environment([("TENURE__STORE__NATS__TOKEN", secret)]);
    let wrong = wrong.set("store.nats.token_file=f").set("store.nats.user=u");
    for key in ["store.nats.password", "store.nats.token"] {
        let told = faults(&sources(None).set(&format!("{key} = {secret}")));
        let says =
            told.len() == 1 && told[0].contains("_file") && told[0].contains("TENURE__STORE");
        assert!(says && !told[0].contains(secret), "{told:?}");
    }
    let numeric = self::file("[store.nats]\ntoken = 4711\n");
    let found = faults(&sources(Some(numeric.path())));
    assert_eq!(found.len(), 1);
    let found = format!("{found:?}{:?}", faults(&wrong));
    assert!(!found.contains(secret) && !found.contains("4711"), "{found}");
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
fn policies_come_from_the_file_and_read_back() {
    let content = concat!(
        "[[policy]]\nprefix = \"jobs/\"\npool = \"jobs\"\nttl_min = \"1s\"\nttl_max = \"48h\"\n",
        "lock_delay = \"2s\"\nbalance = true\nhandover_timeout = \"5s\"\nkeys = 7\n",
        "[limits]\nttl_min = \"50ms\"\n[[policy]]\nprefix = \"\"\nttl_max = \"1m\"\n",
    );
    let file = file(content);
    let loaded = sources(Some(file.path())).load().unwrap();
    let policies = loaded.settings.lease_policies();
    let of = |key: &str| {
        let policy = policies.of(key);
        (policy.pool.to_string(), policy.ttl.min_ms, policy.ttl.max_ms, policy.lock_delay_ms)
    };
    // A policy's bounds may be wider than the limits, which apply where the policy has no bound.
    assert_eq!(of("jobs/1"), ("jobs".into(), 1000, 48 * 3_600_000, 2000));
    assert_eq!(of("else"), ("default".into(), 50, 60_000, 0));
    assert_eq!(loaded.settings.policies[0].balance, crate::lease::Balance::Count);
    assert_eq!([policies.of("jobs/1").keys, policies.of("else").keys], [Some(7), None]);
    let origin = loaded.origin("policy[1].ttl_max").to_string();
    assert_eq!(origin, format!("{}:14", file.path().display()));
    for with_origin in [false, true] {
        let shown = self::file(&loaded.to_toml(with_origin));
        assert_eq!(sources(Some(shown.path())).load().unwrap().settings, loaded.settings);
    }
    let defaults = Settings::default().lease_policies();
    assert_eq!(defaults, crate::lease::Policies::default());
}

#[test]
fn no_key_has_a_default_that_only_one_layer_can_express() {
    // A flag accepts each default as text: the environment has only text.
    let defaults = Settings::default();
    // Flags cannot set secrets.
    for setting in TABLE.iter().filter(|setting| !setting.about.secret) {
        let (key, text) = (&setting.path, (setting.show)(&defaults));
        let loaded = sources(None).set(&format!("{key}={text}")).load();
        assert_eq!(loaded.unwrap().settings, Settings::default(), "{key}");
    }
}

#[test]
fn the_workers_leave_a_core_for_the_store() {
    assert_eq!([0, 1, 2, 8].map(|cores| Workers::Auto.resolve(cores)), [1, 1, 1, 7]);
    assert_eq!(Workers::Count(3).resolve(1), 3);
}

#[test]
fn files_that_the_store_in_use_may_read_are_looked_at() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str, content: &str| {
        let path = dir.path().join(name);
        std::fs::write(&path, content).unwrap();
        path
    };
    let missing = dir.path().join("missing.pem");
    let ca = path("ca.pem", "no certificate\n");
    let cert = path("cert.pem", "-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n");
    let token = path("token", "\n");
    let set = |kind: &str, key: &std::path::Path| {
        Sources::new()
            .set(&format!("store.kind={kind}"))
            .set(&format!("store.nats.tls_ca={}", ca.display()))
            .set(&format!("store.nats.tls_cert={}", cert.display()))
            .set(&format!("store.nats.tls_key={}", key.display()))
            .set(&format!("store.nats.token_file={}", token.display()))
            .load()
            .unwrap()
    };
    let faults = set("nats", &missing).check_files().unwrap_err();
    let told: Vec<String> = faults.0.iter().map(ToString::to_string).collect();
    let expected =
        ["store.nats.token_file: names", "store.nats.tls_ca: names", "store.nats.tls_key: names"];
    assert_eq!(told.len(), expected.len(), "{told:#?}");
    for (told, expected) in told.iter().zip(expected) {
        assert!(told.contains(expected), "{told}");
    }
    assert!(told[2].contains("cannot be read"), "{}", told[2]);
    // The files of a store that is not in use are not checked.
    assert_eq!(set("embedded", &missing).check_files(), Ok(()));
}

#[test]
fn a_password_in_a_url_is_not_repeated() {
    let faults = faults(&Sources::default().set("store.nats.url=nats://user:zzz@host:4222"));
    assert!(!faults.is_empty() && !faults.iter().any(|fault| fault.contains("zzz")), "{faults:?}");
}

#[test]
fn a_date_is_no_setting_and_is_not_taken_for_text() {
    let file = file(concat!(
        "[node]\n",                         // 1
        "name = 2026-11-24\n",              // 2
        "advertise_url = 07:32:00\n",       // 3
        "[server]\n",                       // 4
        "hosts = [2026-11-24T07:32:00Z]\n", // 5
        "[[policy]]\n",                     // 6
        "prefix = \"a/\"\n",                // 7
        "pool = 2026-11-24\n",              // 8
    ));
    let found = faults(&sources(Some(file.path())));
    let expected = [
        (2, "node.name: is a date"),
        (3, "node.advertise_url: is a date"),
        (5, "server.hosts: is a date"),
        (8, "policy.pool: "),
    ];
    for (line, problem) in &expected {
        let wanted = format!("{}:{line}: {problem}", file.path().display());
        assert!(found.iter().any(|f| f.starts_with(&wanted)), "{wanted}\nin {found:#?}");
    }
    assert_eq!(found.len(), expected.len(), "{found:#?}");
}
