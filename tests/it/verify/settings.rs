//! Settings and the access file.

use std::{fs, os::unix::fs::PermissionsExt as _, process::Command};

use crate::{
    backup::node::Place,
    verify::{verify, verify_with},
};

#[test]
fn a_fault_of_the_settings_is_a_failed_check_and_no_store_is_asked() {
    let found = verify_with(&Place::embedded(), &["--set", "limits.keys=many"]);
    found.failed("settings", &["limits.keys"]);
    assert_eq!(found.checks.len(), 1, "{}", found.whole);
    assert!(found.whole.get("store").is_none(), "{}", found.whole);
}

#[test]
fn a_file_that_is_missing_fails_and_the_rest_is_still_checked() {
    let place = Place::embedded();
    let found = verify_with(&place, &["--set", "server.tls_cert=absent.pem"]);
    found.failed("settings", &["server.tls_"]);
    let found = verify_with(&place, &["--set", "auth.file=absent.toml"]);
    found.failed("access", &["absent.toml"]);
    found.has("directory", "warning", &["is missing"]);
}

#[test]
fn principals_are_read_and_an_open_door_is_told() {
    let place = Place::embedded();
    let file = place.file("access.toml");
    let mut init = Command::new(env!("CARGO_BIN_EXE_tenure"));
    let init = init.args(["access", "init", &file]).output().expect("it runs");
    assert!(init.status.success(), "{init:?}");
    let auth = format!("auth.file={file}");
    verify_with(&place, &["--set", &auth]).has("access", "ok", &["principals"]);
    fs::set_permissions(&file, fs::Permissions::from_mode(0o666)).expect("a mode");
    verify_with(&place, &["--set", &auth]).failed("access", &["access.toml"]);
    verify(&place).has("access", "ok", &["whoever reaches"]);
    let open = ["--set", "server.listen=0.0.0.0:0", "--set", "server.accept_no_auth=true"];
    verify_with(&place, &open).has("access", "warning", &["docs/access.md"]);
}

#[test]
fn people_read_one_line_for_each_check() {
    let place = Place::embedded();
    let said = place.tenure(&["store", "verify"]);
    assert_eq!((said.code, &*said.err), (Some(0), ""), "{said:?}");
    let lines: Vec<&str> = said.out.lines().collect();
    assert!(lines[0].starts_with("CHECK") && lines[0].contains("DETAIL"), "{said:?}");
    let found = verify(&place);
    assert_eq!(lines.len(), 1 + found.checks.len(), "{said:?}");
    assert_eq!(found.whole["store"]["kind"], "embedded");
}
