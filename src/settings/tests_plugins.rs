use std::{collections::BTreeMap, path::Path, time::Duration};

use super::{
    tests::{faults, file, sources},
    *,
};

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

fn plugins(content: &str) -> Vec<Plugin> {
    sources(Some(file(content).path())).load().unwrap().settings.plugins
}

#[test]
fn the_plugins_that_the_shipped_file_shows_are_valid() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("config/tenure.toml");
    let content = std::fs::read_to_string(path).unwrap();
    let (_, shown) = content.split_once("Common to all kinds:\n#\n").unwrap();
    let uncommented: Vec<&str> =
        shown.lines().map(|line| line.trim_start_matches('#').trim()).collect();
    let toml: Vec<&str> = uncommented
        .into_iter()
        .filter(|line| line.starts_with("[[") || line.contains(" = "))
        .collect();
    let found = plugins(&toml.join("\n"));
    let kinds: Vec<&str> = found.iter().map(|plugin| plugin.kind.as_str()).collect();
    assert_eq!(kinds, ["exec", "webhook", "nats", "postgres", "log"]);
    let PluginKind::Exec(ExecPlugin { command, environment }) = &found[0].kind else {
        panic!("{found:?}")
    };
    assert_eq!(command, &["/usr/local/bin/fence", "--off"]);
    assert_eq!(environment, &BTreeMap::from([("SITE".into(), Secret::new("north".into()))]));
    let PluginKind::Nats(NatsPlugin { servers: Some(servers), .. }) = &found[2].kind else {
        panic!()
    };
    assert_eq!(servers.url, "nats://10.0.0.7:4222");
    // The file shows the first four keys with their defaults.
    let bare = plugins("[[plugin]]\nname = \"power\"\nkind = \"log\"\n");
    let common = |plugin: &Plugin| (plugin.timeout, plugin.retries, plugin.concurrency);
    assert_eq!(common(&bare[0]), (Duration::from_secs(10), 3, 32));
    assert_eq!(common(&bare[0]), common(&found[0]));
    assert!(found.iter().all(|plugin| plugin.on.is_empty() && plugin.prefix.is_empty()));
}

#[test]
fn every_fault_of_a_plugin_is_told_with_its_line() {
    let file = file(&format!(
        concat!(
            "[[plugin]]\n",                             // 1
            "name = \"a b\"\n",                         // 2
            "kind = \"exec\"\n",                        // 3
            "command = []\n",                           // 4
            "timeout = 10\n",                           // 5
            "retries = -1\n",                           // 6
            "concurrency = 0\n",                        // 7
            "environment = {{ TENURE_KEY = \"x\" }}\n", // 8
            "[[plugin]]\n",                             // 9
            "name = \"hook\"\n",                        // 10
            "kind = \"webhook\"\n",                     // 11
            "url = \"https://u:hunter2@a/\"\n",         // 12
            "secrets = [\"{}\", \"whsec_hunter2\"]\n",  // 13
            "[[plugin]]\n",                             // 14
            "name = \"bus\"\n",                         // 15
            "kind = \"nats\"\n",                        // 16
            "subject = \"fence.*\"\n",                  // 17
            "mode = \"both\"\n",                        // 18
            "user = \"u\"\n",                           // 19
            "[[plugin]]\n",                             // 20
            "name = \"bus\"\n",                         // 21
            "kind = \"nats\"\n",                        // 22
            "subject = \"f\"\n",                        // 23
            "url = \"http://a\"\n",                     // 24
            "user = \"u\"\n",                           // 25
            "[[plugin]]\n",                             // 26
            "name = \"bus\"\n",                         // 27
            "kind = \"postgres\"\n",                    // 28
            "table = \"a;b\"\n",                        // 29
            "colour = \"red\"\n",                       // 30
            "[[plugin]]\n",                             // 31
            "kind = \"carrier-pigeon\"\n",              // 32
            "[[plugin]]\n",                             // 33
            "name = \"p\"\n",                           // 34
            "kind = \"postgres\"\n",                    // 35
            "url = \"mysql://u:hunter2@a\"\n",          // 36
            "[[plugin]]\n",                             // 37
            "name = \"q\"\n",                           // 38
            "kind = \"log\"\n",                         // 39
            "on = [\"granted\", \"gone\"]\n",           // 40
            "[[plugin]]\n",                             // 41
            "name = \"r\"\n",                           // 42
            "kind = \"log\"\n",                         // 43
            "on = [\"granted\", \"granted\"]\n",        // 44
            "prefix = 7\n",                             // 45
            "[[plugin]]\n",                             // 46
            "name = \"s\"\n",                           // 47
            "kind = \"log\"\n",                         // 48
            "prefix = \"a/\"\n",                        // 49
        ),
        SECRET
    ));
    let found = faults(&sources(Some(file.path())).set("plugin.name=x"));
    let expected = [
        (2, "plugin.name: must be 1 to 64 letters"),
        (4, "plugin.command: must be a list of texts"),
        (5, "plugin.timeout: must be a duration in quotes such as \"10s\", from 10ms to 1h"),
        (6, "plugin.retries: must be a whole number from 0 to 100"),
        (7, "plugin.concurrency: must be a whole number from 1 to 1024"),
        (8, "plugin.environment: must be a table of texts"),
        (12, "plugin.url: must be a URL such as https://"),
        (13, "plugin.secrets: must be a list of at least one secret, each whsec_"),
        (17, "plugin.subject: must be a subject without wildcards"),
        (18, "plugin.mode: must be \"request\" or \"publish\""),
        (19, "plugin.user: needs url"),
        (24, "plugin.url: must be URLs such as nats://"),
        (25, "plugin.user: and password (or password_file) go together"),
        (26, "plugin.url: either url or url_file must be given"),
        (27, "plugin.name: another plugin has this name"),
        (29, "plugin.table: must be the name of a table"),
        (
            30,
            "plugin.colour: no such key; a plugin of kind postgres has accept_plaintext, concurrency, event_table, kind, log_detail, name",
        ),
        (31, "plugin.name: is missing"),
        (32, "plugin.kind: must be \"exec\", \"webhook\""),
        (36, "plugin.url: must be a URL such as postgres://"),
        (40, "plugin.on: must be a list of kinds of changes: granted, released"),
        (44, "plugin.on: names \"granted\" twice"),
        (45, "plugin.prefix: must be text in quotes"),
        (49, "plugin.prefix: needs on"),
    ];
    for (line, problem) in &expected {
        let wanted = format!("{}:{line}: {problem}", file.path().display());
        assert!(found.iter().any(|f| f.starts_with(&wanted)), "{wanted}\nin {found:#?}");
    }
    let flag = "plugin.name: is a list of tables, written [[plugin]], and only a file can set it";
    assert!(found.iter().any(|f| f.ends_with(flag)), "{found:#?}");
    assert_eq!(found.len(), expected.len() + 1, "{found:#?}");
    assert!(!format!("{found:?}").contains("hunter2"), "{found:#?}");
    let table = self::tests::file("[plugin]\nname = \"x\"\n");
    assert!(faults(&sources(Some(table.path())))[0].contains("written [[plugin]]"));
}

#[test]
fn plugins_are_shown_so_that_they_read_back_but_for_their_secrets() {
    let content = "[[plugin]]\nname = \"e\"\nkind = \"exec\"\ncommand = [\"a \\\"b\\\"\"]\n\
                   timeout = \"1s 500ms\"\n[[plugin]]\nname = \"n\"\nkind = \"nats\"\n\
                   subject = \"f\"\nurl = \"nats://a\"\ntls_ca = \"ca.pem\"\n\
                   on = [\"granted\", \"session-ended\"]\nprefix = \"a/\"\n";
    let loaded = sources(Some(file(content).path())).load().unwrap();
    for with_origin in [false, true] {
        let shown = file(&loaded.to_toml(with_origin));
        assert_eq!(sources(Some(shown.path())).load().unwrap().settings, loaded.settings);
    }
    let content = format!(
        "[[plugin]]\nname = \"h\"\nkind = \"webhook\"\nurl = \"https://a/T0/swordfish\"\n\
         secrets = [\"{SECRET}\"]\n[[plugin]]\nname = \"p\"\nkind = \"postgres\"\n\
         url = \"postgres://u:hunter2@a/?sslmode=require\"\n[[plugin]]\nname = \"e\"\nkind = \"exec\"\n\
         command = [\"x\", \"--password=swordfish\"]\nenvironment = {{ A = \"hunter2\" }}\n[[plugin]]\nname = \"n\"\n\
         kind = \"nats\"\nsubject = \"f\"\nurl = \"tls://a\"\ntoken = \"hunter2\"\n"
    );
    let loaded = sources(Some(file(&content).path())).load().unwrap();
    let shown = loaded.to_toml(true);
    assert_eq!(shown.matches(" is set, and not shown").count(), 6, "{shown}");
    assert!(shown.contains("beyond \"https://a\"") && shown.contains("beyond \"x\""), "{shown}");
    assert!(!shown.contains("swordfish"), "{shown}");
    let everything = format!("{shown}{loaded:?}");
    assert!(!everything.contains(SECRET) && !everything.contains("hunter2"), "{everything}");
}
