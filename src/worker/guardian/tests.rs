//! Tests of the messages. Tests with real processes are in `tests/it/work`.

use super::wire::*;

#[test]
fn what_is_no_utf8_arrives_as_it_was() {
    use std::os::unix::ffi::OsStringExt as _;
    let odd = std::ffi::OsString::from_vec(vec![b'a', 0xff, b'\n', b'"']);
    let task = Task { argv: vec![odd.clone()], env: vec![("V".into(), odd)], ..Task::default() };
    let line = serde_json::to_vec(&GuardianOrder::Run { id: 7, task }).unwrap();
    assert!(!line.contains(&b'\n'));
    let GuardianOrder::Run { id: 7, task } = serde_json::from_slice(&line).unwrap() else {
        panic!()
    };
    assert_eq!(task.argv[0].as_encoded_bytes(), [b'a', 0xff, b'\n', b'"']);
}

#[test]
fn an_exit_has_the_number_that_shells_give_it() {
    let ended = |code, signal| Exit { code, signal, why: None }.number();
    assert_eq!([ended(Some(0), None), ended(Some(42), None)], [0, 42]);
    assert_eq!([ended(None, Some(15)), ended(None, None)], [143, 255]);
}
