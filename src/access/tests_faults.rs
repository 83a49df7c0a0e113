use super::tests::parse;

/// A principal without faults, on one line.
const GOOD: &str = r#"{ name = "w", uid = 1, may = [{ verb = "observe" }] }"#;
const DIGEST: &str = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
const TOKEN: &str = "tnr_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA000000";

fn faults(content: &str) -> Vec<String> {
    parse(content).expect_err(content)
}

/// A principal with a name, a credential and a right, and these lines after line 4.
fn with(lines: &str) -> String {
    format!("[[principal]]\nname = \"w\"\nuid = 1\nmay = [{{ verb = \"observe\" }}]\n{lines}\n")
}

/// A principal with these lines after its name, which is on line 2.
fn named(lines: &str) -> String {
    format!("[[principal]]\nname = \"w\"\n{lines}\n")
}

/// Each fault is `a.toml:` and then begins with what is expected.
fn assert_faults(content: &str, expected: &[&str]) {
    let found = faults(content);
    let told: Vec<&str> =
        found.iter().map(|fault| fault.strip_prefix("a.toml:").unwrap_or(fault)).collect();
    assert_eq!(told.len(), expected.len(), "{content}\n{found:#?}");
    for (told, expected) in told.iter().zip(expected) {
        assert!(told.starts_with(expected), "{content}\n{told}\n{expected}");
    }
}

#[test]
fn a_fault_of_one_field_names_its_line_and_what_to_do() {
    let long = "x".repeat(129);
    let prefix = "k".repeat(513);
    for (content, expected) in [
        (
            with("owners = \"x\""),
            "5: principal.owners: is unknown: a principal has name, token, cert",
        ),
        (
            with("expires = \"2027-01-31\""),
            "5: principal.expires: is text, and must be a day without quotes",
        ),
        (
            with("expires = 2027-01-31T10:00:00Z"),
            "5: principal.expires: has a time: write the last day alone",
        ),
        (with("expires = 10:00:00"), "5: principal.expires: has a time"),
        (with("expires = 1969-12-31"), "5: principal.expires: is no day of the calendar"),
        (with("limit = 5"), "5: principal.limit: is a number, and must be a table"),
        (
            with("limit = { waits = 0 }"),
            "5: principal.limit.waits: is 0, and must be from 1 to 4294967295",
        ),
        (with("limit = { streams = -1 }"), "5: principal.limit.streams: is -1, and must be from 1"),
        (
            with("limit = { streams = 4294967296 }"),
            "5: principal.limit.streams: is 4294967296, and must be",
        ),
        (
            with("limit = { waits = \"5\" }"),
            "5: principal.limit.waits: is text, and must be a whole number",
        ),
        (
            with("limit = { bytes = 5 }"),
            "5: principal.limit.bytes: is unknown: a limit has rate, held, sessions, waits,",
        ),
        (
            with("\n[principal.limit]\nwaits = 1.5"),
            "7: principal.limit.waits: is a number, and must be a whole",
        ),
        (with("owner = \"a*b\""), "5: principal.owner: \"a*b\" has a * that is not at its end"),
        (
            with("owner = [\n\"ok\",\n\"{sub}\",\n]"),
            "7: principal.owner: \"{sub}\" has braces, and only {name}",
        ),
        (with("owner = []"), "5: principal.owner: is an empty list"),
        (with("owner = 7"), "5: principal.owner: is a number, and must be text in quotes"),
        (
            with("cert = \"worker-*.example.com\""),
            "5: principal.cert: \"worker-*.example.com\" has a * that is not the whole first label",
        ),
        (
            with("cert = \"*\""),
            "5: principal.cert: \"*\" has a * that is not the whole first label",
        ),
        (
            with("cert = [\"spiffe://prod*\"]"),
            "5: principal.cert: \"spiffe://prod*\" has a * before its third /",
        ),
        (with("cert = \"\""), "5: principal.cert: must not be empty"),
        (with("cert = \"a\\nb\""), "5: principal.cert: holds a control character at byte 1"),
        (
            with("token = \"abc\""),
            "5: principal.token: is not the digest of a token: write \"sha256:\"",
        ),
        (
            with(&format!("token = [\n\"{DIGEST}\",\n\"{TOKEN}\"]")),
            "7: principal.token: is a token: only its digest",
        ),
        (
            with("token = [true]"),
            "5: principal.token: is true or false, and must be text in quotes",
        ),
        (
            named("uid = -1\nmay = [{ verb = \"observe\" }]"),
            "3: principal.uid: is -1, and must be from 0",
        ),
        (
            named("uid = [1,\n\"root\"]\nmay = [{ verb = \"observe\" }]"),
            "4: principal.uid: is text, and must be a whole",
        ),
        (named("may = [{ verb = \"observe\" }]"), "1: principal: has no credential"),
        (named("uid = 1"), "1: principal.may: is missing, so it may do nothing"),
        (named("uid = 1\nmay = []"), "4: principal.may: is empty, so it may do nothing"),
        (
            named("uid = 1\nmay = { verb = \"observe\" }"),
            "4: principal.may: is a table, and must be a list",
        ),
        (
            named("uid = 1\nmay = [\"read\"]"),
            "4: principal.may: has text, and must have tables alone",
        ),
        (
            named("uid = 1\nmay = [\n{ verb = \"write\", prefix = \"\" }]"),
            "5: principal.may.verb: \"write\" is no verb: use one of hold, read",
        ),
        (
            named("uid = 1\nmay = [{ verb = [], prefix = \"\" }]"),
            "4: principal.may.verb: is an empty list",
        ),
        (
            named("uid = 1\nmay = [{ prefix = \"\" }]"),
            "4: principal.may.verb: is missing: name one or several",
        ),
        (
            named("uid = 1\nmay = [{ verb = \"read\" }]"),
            "4: principal.may.prefix: is missing: read needs one",
        ),
        (
            named("uid = 1\nmay = [{ verb = \"read\", prefix = 7 }]"),
            "4: principal.may.prefix: is a number",
        ),
        (
            named("uid = 1\nmay = [{ verb = \"read\", prefix = \"a*\" }]"),
            "4: principal.may.prefix: ends in a *",
        ),
        (
            named("uid = 1\nmay = [{ verb = \"read\", prefix = \"a\\t\" }]"),
            "4: principal.may.prefix: holds a control",
        ),
        (
            named(&format!("uid = 1\nmay = [{{ verb = \"read\", prefix = \"{prefix}\" }}]")),
            "4: principal.may.prefix: is 513",
        ),
        (
            named("uid = 1\nmay = [{ verb = \"observe\", prefix = \"\" }]"),
            "4: principal.may.prefix: is not for observe",
        ),
        (
            named("uid = 1\nmay = [{ verb = [\"read\", \"probe\"], prefix = \"\" }]"),
            "4: principal.may.prefix: is not for probe",
        ),
        (
            named("uid = 1\nmay = [{ verb = \"observe\", keys = \"\" }]"),
            "4: principal.may.keys: is unknown: a right has verb, and prefix or key",
        ),
        (
            named("uid = 1\nmay = [{ verb = \"observe\", key = \"a\" }]"),
            "4: principal.may.key: is not for observe",
        ),
        (
            named("uid = 1\nmay = [{ verb = \"read\", key = \"\" }]"),
            "4: principal.may.key: must not be empty",
        ),
        (
            named("uid = 1\nmay = [{ verb = \"read\", key = \"a/*\" }]"),
            "4: principal.may.key: ends in a *",
        ),
        (
            named("uid = 1\nmay = [{ verb = \"read\", prefix = \"a\", key = \"b\" }]"),
            "4: principal.may.key: stands beside prefix",
        ),
        (
            "[[principal]]\nname = \"\"\nuid = 1\nmay = [{ verb = \"observe\" }]".into(),
            "2: principal.name: must not be empty",
        ),
        (
            "[[principal]]\nname = \"a\\u001b\"\nuid = 1\nmay = [{ verb = \"observe\" }]".into(),
            "2: principal.name: holds a control",
        ),
        (
            format!("[[principal]]\nname = \"{long}\"\nuid = 1\nmay = [{{ verb = \"observe\" }}]"),
            "2: principal.name: is 129 bytes long; at most 128",
        ),
        (
            "[[principal]]\nname = 7\nuid = 1\nmay = [{ verb = \"observe\" }]".into(),
            "2: principal.name: is a number",
        ),
        (
            "\n[[principal]]\nuid = 1\nmay = [{ verb = \"observe\" }]".into(),
            "2: principal.name: is missing",
        ),
        (
            "[principal]\nname = \"w\"".into(),
            "1: principal: must be a list of tables: write [[principal]]",
        ),
        ("principal = [\n7]".into(), "2: principal: must be a table: write [[principal]]"),
        (
            format!("principal = [{GOOD}]\n[[principals]]\nname = \"x\""),
            "2: principals: is unknown: the file has tables",
        ),
        (format!("principal = [{GOOD}]\nversion = 1"), "2: version: is unknown"),
        (String::new(), " has no [[principal]], so nobody could call"),
        ("# nothing\n".into(), " has no [[principal]]"),
        ("principal = []".into(), "1: principal: is an empty list"),
    ] {
        assert_faults(&content, &[expected]);
    }
}

#[test]
fn what_two_principals_share_is_a_fault_of_the_later_one() {
    let content = format!(
        r#"[[principal]]
name = "a"
token = "{DIGEST}"
cert = ["A.example", "spiffe://x/*"]
uid = [1, 2]
may = [{{ verb = "observe" }}]
[[principal]]
name = "a"
token = [
  "{}",
]
cert = "a.EXAMPLE"
uid = 2
may = [{{ verb = "observe" }}]
[[principal]]
name = "c"
cert = ["spiffe://x/*", "spiffe://x/y"]
may = [{{ verb = "observe" }}]
"#,
        DIGEST.to_uppercase().replace("SHA", "sha")
    );
    assert_faults(
        &content,
        &[
            "8: principal.name: is the name of another principal too (the first is at line 2)",
            "10: principal.token: is in the file twice: a token names one principal (the first is at line 3)",
            "12: principal.cert: is in the file twice: a certificate names one principal (the first is at line 4)",
            "13: principal.uid: is in the file twice: a user is one principal (the first is at line 5)",
            "17: principal.cert: is in the file twice: a certificate names one principal (the first is at line 4)",
        ],
    );
}

#[test]
fn all_faults_are_told_at_once_in_the_order_of_their_lines() {
    let content = "[[principal]]\nname = \"\"\ntoken = \"x\"\nmay = [{ verb = \"fly\" }]\nexpires = 2027-02-30\nfoo = 1\n\
                   [[principal]]\nmay = 1\n";
    let found = faults(content);
    let lines: Vec<_> = found.iter().map(|fault| fault.split(':').nth(1).unwrap()).collect();
    assert_eq!(lines, ["2", "3", "4", "5", "6", "7", "7", "8"], "{found:#?}");
    assert!(found.iter().all(|fault| !fault.contains("\"x\"")), "{found:#?}");
}

#[test]
fn a_plain_token_in_the_file_is_not_repeated_in_the_fault() {
    for text in [TOKEN, "my secret password"] {
        let found = faults(&with(&format!("token = \"{text}\""))).join("\n");
        assert!(!found.contains(text), "{found}");
    }
}

#[cfg(not(feature = "jwt"))]
#[test]
fn a_file_that_names_an_issuer_is_refused_with_the_feature_that_is_missing() {
    let content =
        "[[jwt]]\nissuer = \"https://k8s.example\"\nkeys = \"jwks.json\"\naudience = \"t\"\n";
    let found = faults(content);
    let named = |fault: &String| fault.contains(":3: jwt.keys: ") && fault.contains("`jwt`");
    assert!(found.iter().any(named), "{found:?}");
}
