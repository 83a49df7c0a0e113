//! The commands for the file of principals. None of them asks a server.

use std::{
    os::unix::fs::PermissionsExt as _,
    path::Path,
    process::{Command, Output, Stdio},
};

use serde_json::Value;
use tempfile::TempDir;

use super::signer::{Signer, jwks};

fn tenure(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tenure"));
    command.args(arguments).env_remove("TENURE_CONFIG").output().expect("the program runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("text")
}

fn json(output: &Output) -> Value {
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).expect("a file").permissions().mode() & 0o777
}

/// A file that `access init` wrote, and the administrator's token.
fn written() -> (TempDir, String, String) {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("etc/access.toml").display().to_string();
    let output = tenure(&["access", "init", &file]);
    assert!(output.status.success(), "{output:?}");
    assert!(text(&output.stderr).contains("auth.file"), "{output:?}");
    let token = text(&output.stdout).trim().to_owned();
    (dir, file, token)
}

#[test]
fn the_file_that_init_writes_is_valid_private_and_never_overwritten() {
    let (_dir, file, token) = written();
    assert_eq!(mode(Path::new(&file)), 0o600);
    let content = std::fs::read_to_string(&file).expect("readable");
    assert!(token.starts_with("tnr_") && !content.contains(&token), "{content}");
    let again = tenure(&["access", "init", &file]);
    assert_eq!(again.status.code(), Some(1));
    assert!(text(&again.stderr).contains("is not overwritten"), "{again:?}");
    assert_eq!(std::fs::read_to_string(&file).expect("readable"), content);
    let checked = json(&tenure(&["access", "check", &file, "--output", "json"]));
    assert_eq!(checked["warnings"], serde_json::json!([]));
    let admin = &checked["principals"][0];
    assert_eq!((&admin["name"], &admin["tokens"]), (&"admin".into(), &1.into()));
    let table = text(&tenure(&["access", "check", &file]).stdout);
    assert!(table.contains("PRINCIPAL") && table.contains("admin *"), "{table}");
}

#[test]
fn a_token_is_printed_with_its_digest_or_written_into_a_private_file() {
    let both = json(&tenure(&["token", "new", "--json"]));
    let (token, digest) = (both["token"].as_str().expect("text"), both["digest"].as_str());
    assert!(token.starts_with("tnr_") && token.len() == 53, "{both}");
    assert!(
        digest.is_some_and(|digest| digest.starts_with("sha256:") && digest.len() == 71),
        "{both}"
    );
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("token");
    let line = tenure(&["token", "new", "--file", &file.display().to_string()]);
    let line = text(&line.stdout);
    assert!(line.starts_with("token = [\"sha256:") && !line.contains("tnr_"), "{line}");
    let token = std::fs::read_to_string(&file).expect("readable");
    assert_eq!((mode(&file), token.trim().len()), (0o600, 53));
    // A file that others may read gets no token.
    let open = dir.path().join("open");
    let stdout = std::fs::File::create(&open).expect("created");
    std::fs::set_permissions(&open, std::fs::Permissions::from_mode(0o644)).expect("set");
    let mut command = Command::new(env!("CARGO_BIN_EXE_tenure"));
    command.args(["token", "new"]).stdout(Stdio::from(stdout));
    let refused = command.output().expect("it runs");
    assert_eq!(refused.status.code(), Some(1));
    assert!(text(&refused.stderr).contains("umask 077"), "{refused:?}");
    assert_eq!(std::fs::read_to_string(&open).expect("readable"), "");
}

#[test]
fn every_fault_is_told_with_its_line_and_a_right_is_explained() {
    let (_dir, file, token) = written();
    let content = std::fs::read_to_string(&file).expect("readable");
    let more = "[[principal]]\nname = \"w\"\nuid = 1000\nowner = \"w-*\"\n\
                may = [{ verb = [\"hold\", \"read\"], prefix = \"jobs/\" }]\n";
    std::fs::write(&file, format!("{content}\n{more}")).expect("written");
    let can =
        |arguments: &[&str]| tenure(&[&["access", "can", "--file", &file], arguments].concat());
    let yes = can(&["w", "hold", "jobs/1", "--owner", "w-1"]);
    assert!(
        yes.status.success() && text(&yes.stdout).starts_with(&format!("yes: {file}:")),
        "{yes:?}"
    );
    for (arguments, told) in [
        (&["w", "hold", "shards/1"][..], "only keys that begin with jobs/"),
        (&["w", "hold", "jobs/1", "--owner", "v"], "only as these owners: w-*"),
        (&["w", "observe"], "no right with the verb observe"),
        (&["x", "observe"], "there are admin, w"),
    ] {
        let no = can(arguments);
        assert_eq!(no.status.code(), Some(1), "{no:?}");
        assert!(text(&no.stdout).starts_with("no: ") && text(&no.stdout).contains(told), "{no:?}");
    }
    assert_eq!(can(&["w", "hold"]).status.code(), Some(64));

    std::fs::write(&file, format!("[[principal]]\ntoken = \"{token}\"\n[[prinzipal]]\n"))
        .expect("written");
    for arguments in [
        &["access", "check", &file][..],
        &["config", "check", "--set", &format!("auth.file={file}")],
    ] {
        let faults = tenure(arguments);
        assert_eq!(faults.status.code(), Some(78), "{faults:?}");
        let told = text(&faults.stderr);
        for line in [
            ":1: principal.name",
            ":1: principal.may",
            ":2: principal.token: is a token",
            ":3: prinzipal",
        ] {
            assert!(told.contains(&format!("{file}{line}")), "{line}: {told}");
        }
        assert!(!told.contains(&token), "{told}");
    }
}

#[test]
fn a_subject_of_jwts_is_listed_with_its_issuer() {
    let (_dir, file, _) = written();
    let content = std::fs::read_to_string(&file).expect("readable");
    let more = "[[jwt]]\nissuer = \"https://k8s.example\"\nkeys = \"jwks.json\"\naudience = \"tenure\"\n\
                [[principal]]\nname = \"w\"\n\
                jwt = { issuer = \"https://k8s.example\", sub = \"system:serviceaccount:prod:*\" }\n\
                may = [{ verb = \"observe\" }]\n";
    std::fs::write(&file, format!("{content}\n{more}")).expect("written");
    let faulty = tenure(&["access", "check", &file]);
    assert_eq!(faulty.status.code(), Some(78), "{faulty:?}");
    assert!(text(&faulty.stderr).contains("jwt.keys: \"jwks.json\": cannot be read"), "{faulty:?}");
    let keys = Path::new(&file).with_file_name("jwks.json");
    std::fs::write(&keys, jwks(&[Signer::ed25519().jwk("k")])).expect("written");
    std::fs::set_permissions(&keys, std::fs::Permissions::from_mode(0o644)).expect("set");
    let checked = json(&tenure(&["access", "check", &file, "--output", "json"]));
    let subject = &checked["principals"][1]["jwt"][0];
    assert_eq!(subject["sub"], "system:serviceaccount:prod:*", "{checked}");
    assert_eq!(subject["issuer"], "https://k8s.example", "{checked}");
    let table = text(&tenure(&["access", "check", &file]).stdout);
    assert!(table.contains("jwt system:serviceaccount:prod:* of https://k8s.example"), "{table}");
}
