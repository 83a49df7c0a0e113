//! The chain over files, crashes and losses.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    sync::Arc,
};

use super::{
    AuditEntry, AuditEvent, AuditLog, ChainFault, Head, Verified,
    chain::{self, Said},
    trail::{AuditError, Trail, older},
    verify,
};
use crate::clock::ManualClock;

fn entry(key: &str) -> AuditEntry {
    AuditEntry {
        event: AuditEvent::Change,
        principal: None,
        peer: Some("127.0.0.1:9".to_owned()),
        method: "POST".to_owned(),
        path: "/v1/admin/pin".to_owned(),
        verb: "pin",
        key: Some(key.to_owned()),
        prefix: None,
        owner: None,
        pool: None,
        action: None,
        reason: None,
        code: None,
        status: Some(200),
        forwarded_by: None,
    }
}

fn write(trail: &mut Trail, from: u64, to: u64) {
    for n in from..=to {
        trail.append(n, &Said::Call(&entry(&format!("k/{n}")))).expect("written");
    }
}

struct Place {
    _dir: tempfile::TempDir,
    path: PathBuf,
}

impl Place {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        Self { path: dir.path().join("audit.log"), _dir: dir }
    }

    fn open(&self) -> Trail {
        Trail::open(&self.path, 1 << 20, 3).expect("opened")
    }

    fn text(&self) -> String {
        fs::read_to_string(&self.path).expect("UTF-8")
    }

    fn put(&self, text: &[u8]) {
        fs::write(&self.path, text).expect("written");
    }

    fn verify(&self) -> Result<Verified, ChainFault> {
        verify(std::slice::from_ref(&self.path), None)
    }

    /// The number of the line that a check finds at fault.
    fn fault(&self) -> u64 {
        match self.verify() {
            Err(ChainFault::Line { line, .. }) => line,
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn strangers_do_not_push_the_lines_of_others_out() {
    let (place, clock) = (Place::new(), Arc::new(ManualClock::new()));
    let log = AuditLog::open(&place.path, 1 << 20, 3, clock.clone()).expect("opened");
    let refused = || AuditEntry { event: AuditEvent::Refused, ..entry("stranger") };
    for _ in 0..1200 {
        log.record(refused());
    }
    log.record(AuditEntry { principal: Some("known".into()), ..refused() });
    log.record(entry("order"));
    clock.advance(std::time::Duration::from_secs(1));
    for _ in 0..30 {
        log.record(refused());
    }
    log.close();
    let text = place.text();
    let count = |part: &str| text.lines().filter(|line| line.contains(part)).count();
    assert_eq!((count("stranger"), count("known"), count("order")), (1021, 1, 1));
    let lost = text.lines().filter_map(|line| {
        serde_json::from_str::<serde_json::Value>(line).expect("JSON")["lost"].as_u64()
    });
    assert_eq!(lost.sum::<u64>(), 210);
    assert!(place.verify().is_ok());
}

fn size(path: &Path) -> u64 {
    fs::metadata(path).expect("a file").len()
}

#[test]
fn a_chain_goes_on_over_restarts_and_is_whole() {
    let place = Place::new();
    for from in [1, 4, 7] {
        let mut trail = place.open();
        write(&mut trail, from, from + 2);
    }
    let found = place.verify().expect("sound");
    assert_eq!((found.lines, found.first, found.lost, found.torn), (9, 1, 0, 0));
    assert!(found.head.starts_with("9:"), "{found:?}");
    let lines: Vec<serde_json::Value> =
        place.text().lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(lines[0]["prev"], "0".repeat(64));
    assert_eq!(lines[4]["time"], "1970-01-01T00:00:00.005Z");
    assert_eq!((&lines[4]["event"], &lines[4]["key"]), (&"change".into(), &"k/5".into()));
    let mode = fs::metadata(&place.path).expect("a file").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn whatever_is_changed_is_found_at_its_line() {
    let place = Place::new();
    write(&mut place.open(), 1, 6);
    let text = place.text();
    let lines: Vec<&str> = text.lines().collect();
    let put = |lines: &[&str]| place.put(format!("{}\n", lines.join("\n")).as_bytes());
    // An edited line shows at the one after it.
    let edited = lines[2].replace("127.0.0.1:9", "127.0.0.1:8");
    put(&[lines[0], lines[1], &edited, lines[3], lines[4], lines[5]]);
    assert_eq!(place.fault(), 4);
    put(&[lines[0], lines[1], lines[3], lines[4], lines[5]]);
    assert_eq!(place.fault(), 3, "removed");
    put(&[lines[0], lines[2], lines[1], lines[3], lines[4], lines[5]]);
    assert_eq!(place.fault(), 2, "swapped");
    put(&[lines[0], lines[1], lines[1], lines[2], lines[3], lines[4], lines[5]]);
    assert_eq!(place.fault(), 3, "inserted");
    put(&[lines[0], "garbage", lines[1], lines[2]]);
    assert_eq!(place.fault(), 2);
    place.put(&text.as_bytes()[..text.len() - 9]);
    assert_eq!(place.fault(), 6, "cut within the last line");
    // An end that was cut off at a line shows only beside a digest from before.
    put(&lines);
    let head: Head = place.verify().expect("sound").head.parse().expect("a head");
    put(&lines[..4]);
    place.verify().expect("sound in itself");
    let cut = verify(std::slice::from_ref(&place.path), Some(head)).expect_err("line 6 was there");
    assert!(cut.to_string().contains("the end was cut off"), "{cut}");
    put(&lines);
    verify(std::slice::from_ref(&place.path), Some(head)).expect("it is there");
    let other = Head { seq: 3, ..head };
    assert!(matches!(
        verify(std::slice::from_ref(&place.path), Some(other)),
        Err(ChainFault::Line { line: 3, .. })
    ));
    // Whoever computes the whole chain anew is found by the digest too.
    let again = Place::new();
    write(&mut again.open(), 2, 7);
    again.verify().expect("sound in itself");
    assert!(verify(std::slice::from_ref(&again.path), Some(head)).is_err());
}

#[test]
fn what_a_crash_tore_stays_and_is_explained() {
    let place = Place::new();
    write(&mut place.open(), 1, 3);
    let whole = place.text();
    let third = whole.lines().nth(2).expect("a line").len() + 1;
    for cut in 1..=third {
        place.put(&whole.as_bytes()[..whole.len() - cut]);
        write(&mut place.open(), 4, 5);
        assert!(place.text().starts_with(&whole[..whole.len() - cut]), "nothing is cut");
        let found = place.verify().unwrap_or_else(|why| panic!("{cut}: {why}"));
        // Without its newline alone, the line is whole.
        let lines = if cut == 1 {
            (5, 0)
        } else if cut == third {
            (4, 0)
        } else {
            (5, 1)
        };
        assert_eq!((found.lines, found.torn), lines, "{cut}");
    }
    // The explanation itself is torn, several times.
    place.put(&whole.as_bytes()[..whole.len() - 20]);
    for cut in [10, 300, 30] {
        write(&mut place.open(), 4, 4);
        let text = place.text();
        place.put(&text.as_bytes()[..text.len() - cut]);
    }
    write(&mut place.open(), 4, 5);
    let found = place.verify().expect("explained");
    assert!(found.torn >= 1, "{found:?}");
    // What a line explains is what was there.
    let edited = place.text().replacen("k/3", "k/9", 1);
    place.put(edited.as_bytes());
    assert_eq!(place.fault(), 3);
}

#[test]
fn full_files_are_kept_with_one_chain_over_all() {
    let place = Place::new();
    let open = || Trail::open(&place.path, 2048, 3).expect("opened");
    for from in [1, 11, 21] {
        write(&mut open(), from, from + 9);
    }
    let files: Vec<PathBuf> =
        std::iter::once(place.path.clone()).chain((1..=3).map(|n| older(&place.path, n))).collect();
    assert!(files.iter().all(|file| size(file) <= 2048), "{files:?}");
    assert!(!older(&place.path, 4).exists());
    let found = verify(&files, None).expect("sound");
    assert!(found.first > 1 && found.head.starts_with("30:"), "{found:?}");
    let reversed: Vec<PathBuf> = files.iter().rev().cloned().collect();
    assert_eq!(verify(&reversed, None).expect("in any order"), found);
    let known = Head { seq: 1, ..Head::START };
    let gone = verify(&files, Some(known)).expect_err("it was removed by rotation");
    assert!(gone.to_string().contains("older file"), "{gone}");
    let without = [files[0].clone(), files[1].clone(), files[3].clone()];
    assert!(
        matches!(verify(&without, None), Err(ChainFault::Line { line: 1, .. })),
        "a file is missing"
    );
    // A crash right after the rename.
    fs::rename(&place.path, older(&place.path, 1)).expect("renamed");
    write(&mut open(), 31, 31);
    let found = verify(&[files[0].clone(), files[1].clone()], None).expect("sound");
    assert!(found.head.starts_with("31:"), "{found:?}");
}

#[test]
fn a_file_of_somebody_else_is_refused_and_one_that_is_in_use() {
    let place = Place::new();
    place.put(b"root:x:0:0:root:/root:/bin/sh\n");
    let refused = Trail::open(&place.path, 1 << 20, 3).err();
    assert!(matches!(refused, Some(AuditError::Foreign { .. })), "{refused:?}");
    assert_eq!(place.text(), "root:x:0:0:root:/root:/bin/sh\n");
    let place = Place::new();
    let first = place.open();
    let second = Trail::open(&place.path, 1 << 20, 3).err();
    assert!(matches!(second, Some(AuditError::Locked { .. })), "{second:?}");
    drop(first);
    place.open();
}

#[test]
fn lines_that_do_not_fit_into_the_queue_are_counted_in_a_later_line() {
    let place = Place::new();
    let log =
        AuditLog::open(&place.path, 1 << 30, 3, Arc::new(ManualClock::new())).expect("opened");
    // More than the writer can take before the queue is full.
    let one = entry("k");
    for _ in 0..100_000 {
        log.record(one.clone());
    }
    log.close();
    let found = place.verify().expect("sound");
    let counted = place.text().lines().filter(|line| line.contains(r#""event":"change""#)).count();
    assert!(found.lost > 0, "{found:?}");
    assert_eq!(counted as u64 + found.lost, 100_000, "each line is there or counted");
}

#[test]
fn a_head_is_read_as_it_is_written() {
    let head = Head::START.then(&chain::write(Head::START, 0, &Said::Lost(1)));
    assert_eq!(head.to_string().parse(), Ok(head));
    for odd in ["", "1", "1:", "1:00", "x:00", &format!("1:{}", "g".repeat(64))] {
        assert!(odd.parse::<Head>().is_err(), "{odd}");
    }
}
